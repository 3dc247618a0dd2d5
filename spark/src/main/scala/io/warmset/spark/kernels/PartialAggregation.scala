package io.warmset.spark.kernels

import io.warmset.columns.{NativeAggregate, WarmVector}
import org.apache.spark.TaskContext
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.ColumnarBatch

/** What one partial aggregation counts. */
private[spark] final case class AggregationMetrics(outputRows: SQLMetric, native: SQLMetric, byRows: SQLMetric, nativeNanos: SQLMetric)

/**
 * The groups of one partition, in rows of keys and buffers; a group may come several times.
 *
 * Invariant: each batch is added once. From one that native code refuses on, its groups are continued by rows, so that
 * what overflows in between is what overflows in Spark. Without keys there is a row even if there are no batches. The
 * native side's memory is given back at the end of the task, or here if there is none. Rows are valid until the next
 * one.
 *
 * @param makeRows makes what adds batches by rows
 */
private[spark] final class PartialAggregation(
    batches: Iterator[ColumnarBatch],
    plan: KernelPlan,
    output: Seq[DataType],
    isNative: Boolean,
    makeRows: () => RowAggregate,
    metrics: AggregationMetrics)
  extends Iterator[InternalRow] {
  import PartialAggregation._

  private val project = UnsafeProjection.create(output.toArray)
  private val handle = if (isNative) NativeAggregate.open(plan.json) else 0L
  private lazy val byRows = makeRows()
  private var usedRows = false
  private var words = new Array[Long](0)
  private var ready: Iterator[InternalRow] = Iterator.empty
  private var ended = false
  Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => close()))

  override def hasNext: Boolean = {
    while (!ready.hasNext && !ended) advance()
    ready.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more groups")
    metrics.outputRows += 1
    project(ready.next())
  }

  /** Adds batches until there are many groups, or no more batches. */
  private def advance(): Unit = {
    var groups = 0L
    while (groups < GroupsMax && batches.hasNext) {
      val batch = batches.next()
      if (batch.numRows > 0) groups = math.max(groups, add(batch))
    }
    ended = !batches.hasNext
    ready = if (isNative && !usedRows) plan.rows(NativeAggregate.take(handle)) else byRows.take().iterator
    usedRows = false
    if (ended) close()
  }

  private def add(batch: ColumnarBatch): Long = {
    val groups = if (isNative && !usedRows) addNatively(batch) else NativeAggregate.REFUSED
    if (groups == NativeAggregate.REFUSED) {
      metrics.byRows += 1
      if (isNative && !usedRows) byRows.begin(plan.rows(NativeAggregate.take(handle)))
      usedRows = true
      byRows.add(batch)
      byRows.count
    } else {
      metrics.native += 1
      groups
    }
  }

  private def addNatively(batch: ColumnarBatch): Long = {
    if (words.length != batch.numCols * NativeAggregate.WORDS) words = new Array(batch.numCols * NativeAggregate.WORDS)
    var i = 0
    while (i < batch.numCols) {
      batch.column(i).asInstanceOf[WarmVector].describe(words, i * NativeAggregate.WORDS, batch.numRows)
      i += 1
    }
    val start = System.nanoTime()
    val groups = NativeAggregate.add(handle, batch.numRows, words)
    metrics.nativeNanos += System.nanoTime() - start
    groups
  }

  private def close(): Unit = if (isNative) NativeAggregate.close(handle)
}

private[spark] object PartialAggregation {
  /** Groups are given out when there are so many, so that their memory is bounded. */
  private val GroupsMax = 16384L
}
