package io.warmset.spark.kernels

import io.warmset.columns.{NativeAggregate, WarmVector}
import io.warmset.spark.TransientMemory
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** What one partial aggregation counts. */
private[spark] final case class AggregationMetrics(
    outputRows: SQLMetric,
    dropped: SQLMetric,
    native: SQLMetric,
    byRows: SQLMetric,
    nativeNanos: SQLMetric)

/**
 * The groups of one partition, in rows of keys and buffers; a group may come several times.
 *
 * Invariant: each row is added once. From the first that native code refuses on, its groups are continued by rows, so that
 * what overflows in between is what overflows in Spark; unless they are many, which are given out before. Without keys
 * there is a row even if there are no batches. The native side's memory is given back at the end of the task, or here
 * if there is none. Rows are valid until the next one.
 *
 * @param makeRows makes what adds batches by rows
 * @param wanted which groups are dropped where they are whole, if any
 */
private[spark] final class PartialAggregation(
    batches: Iterator[ColumnarBatch],
    plan: KernelPlan,
    output: Seq[DataType],
    isNative: Boolean,
    makeRows: () => RowAggregate,
    wanted: Option[WantedGroups],
    metrics: AggregationMetrics)
  extends Iterator[InternalRow] {
  import PartialAggregation._

  private val project = UnsafeProjection.create(output.toArray)
  private val handle = if (isNative) NativeAggregate.open(plan.json) else 0L
  private lazy val byRows = makeRows()
  private var usedRows = false
  private var words = new Array[Long](0)
  private var ready: Iterator[InternalRow] = Iterator.empty
  private var before: Iterator[InternalRow] = Iterator.empty
  private var ended = false
  Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => close()))

  override def hasNext: Boolean = {
    while (!ready.hasNext && !ended) advance()
    if (!ready.hasNext) close()
    ready.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more groups")
    metrics.outputRows += 1
    ready.next() match {
      case row: UnsafeRow => row
      case row => project(row)
    }
  }

  /** Adds batches until there are many groups, or no more batches. */
  private def advance(): Unit = {
    var full = false
    wanted.foreach(_.next())
    while (!full && batches.hasNext) {
      val batch = batches.next()
      if (batch.numRows > 0) full = add(batch)
    }
    ended = !batches.hasNext
    ready = if (isNative && !usedRows) wantedOf(taken()) else before ++ byRowsTaken()
    before = Iterator.empty
    usedRows = false
  }

  /** All groups of the native side, which has none after the last. */
  private def taken(): Iterator[InternalRow] =
    Iterator.continually(NativeAggregate.take(handle)).takeWhile(_.nonEmpty).flatMap(plan.rows)

  /** Less those that are whole and not wanted. What is continued by rows may be here in two parts, and is all given out. */
  private def wantedOf(rows: Iterator[InternalRow]): Iterator[InternalRow] = wanted.fold(rows) { of =>
    of.begin(handle)
    rows.filter { row =>
      val isWanted = of(row)
      if (!isWanted) metrics.dropped += 1
      isWanted
    }
  }

  private def byRowsTaken(): Iterator[InternalRow] = {
    val rows = byRows.take()
    wanted.foreach(_.pass(rows))
    rows.iterator
  }

  /** Whether there are enough groups. */
  private def add(batch: ColumnarBatch): Boolean = {
    val outcome = if (isNative && !usedRows) addNatively(batch) else NativeAggregate.REFUSED
    if (outcome <= NativeAggregate.REFUSED) {
      metrics.byRows += 1
      if (isNative && !usedRows) continueByRows()
      usedRows = true
      byRows.add(batch, NativeAggregate.REFUSED - outcome)
      before.nonEmpty || byRows.count >= GroupsMax
    } else {
      metrics.native += 1
      outcome == NativeAggregate.FULL
    }
  }

  private def continueByRows(): Unit =
    if (NativeAggregate.groups(handle) > GroupsMax) {
      wanted.foreach(_.begin(handle))
      before = taken()
    } else {
      byRows.begin(taken())
    }

  private def addNatively(batch: ColumnarBatch): Int = {
    if (words.length != batch.numCols * NativeAggregate.WORDS) words = new Array(batch.numCols * NativeAggregate.WORDS)
    var i = 0
    while (i < batch.numCols) {
      batch.column(i).asInstanceOf[WarmVector].describe(words, i * NativeAggregate.WORDS, batch.numRows)
      i += 1
    }
    val start = System.nanoTime()
    val outcome = NativeAggregate.add(handle, batch.numRows, words)
    metrics.nativeNanos += System.nanoTime() - start
    outcome
  }

  private def close(): Unit = if (isNative) {
    NativeAggregate.close(handle)
    TransientMemory.noteFreed()
  }
}

private[spark] object PartialAggregation {
  /** Groups by rows, which are objects on the heap, are given out when there are so many. */
  private val GroupsMax = 16384L
}
