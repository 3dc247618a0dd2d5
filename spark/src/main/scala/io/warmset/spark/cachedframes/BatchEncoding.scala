package io.warmset.spark.cachedframes

import io.warmset.columns.BatchEncoder
import io.warmset.spark.{StoreHolder, TaskScope, TransientMemory}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.columnar.CachedBatch
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}

/**
 * The rows, or columns, of one partition as cached batches.
 *
 * Invariant: a batch has at most `rowsPerBatch` rows, and ends early once it has gathered
 * `BatchBytes`, so that one huge value does not bring ten thousand others with it. Working memory
 * is freed when the partition ends or the task does. Where batches lie is decided by
 * GroupedBatches; without a store, or for a level that keeps nothing in memory, they stay on the
 * heap.
 */
private[spark] object BatchEncoding {
  private val BatchBytes = 8L << 20

  def fromRows(
      rows: Iterator[InternalRow],
      types: Array[DataType],
      rowsPerBatch: Int,
      inMemory: Boolean,
      count: Option[PartitionCount]): Iterator[CachedBatch] =
    place(types, inMemory)(new RowBatches(rows, _, _, rowsPerBatch, count))

  def fromColumns(
      batches: Iterator[ColumnarBatch],
      types: Array[DataType],
      rowsPerBatch: Int,
      inMemory: Boolean,
      count: Option[PartitionCount]): Iterator[CachedBatch] =
    place(types, inMemory)(new ColumnBatches(batches, _, _, rowsPerBatch, count))

  private def place(types: Array[DataType], inMemory: Boolean)(
      source: (BatchEncoder, TransientMemory) => Iterator[EncodedBatch]): Iterator[CachedBatch] = {
    val scope = TaskScope.begin()
    val memory = new TransientMemory
    val encoder = new BatchEncoder(types)
    scope.own(memory)
    scope.own(encoder)
    val encoded = source(encoder, memory)
    scope.guard(StoreHolder.current match {
      case Some(holder) if inMemory => new GroupedBatches(encoded, holder, scope, () => memory.reset())
      case _ => encoded.map { batch =>
        val onHeap = batch.onHeap
        memory.reset()
        onHeap
      }
    })
  }

  /** Takes from the encoder one batch at a time, into transient memory. */
  private abstract class Encoded(
      encoder: BatchEncoder,
      memory: TransientMemory,
      count: Option[PartitionCount])
    extends Iterator[EncodedBatch] {

    protected def inputLeft: Boolean

    /** Appends until the batch is large enough or the input has ended. */
    protected def gather(): Unit

    override def hasNext: Boolean = {
      val more = inputLeft
      if (!more) {
        encoder.close()
        count.foreach(_.end())
      }
      more
    }

    override def next(): EncodedBatch = {
      encoder.reset()
      gather()
      val meta = encoder.finish()
      val addresses = Array.tabulate(meta.numColumns) { c =>
        val address = memory.allocate(math.max(8L, meta.bytes(c)))
        encoder.writeTo(c, address)
        address
      }
      val stats = encoder.stats()
      count.foreach(_.add(encoder, meta, stats))
      new EncodedBatch(meta, stats, addresses, heap = null)
    }
  }

  private final class RowBatches(
      rows: Iterator[InternalRow],
      encoder: BatchEncoder,
      memory: TransientMemory,
      rowsPerBatch: Int,
      count: Option[PartitionCount])
    extends Encoded(encoder, memory, count) {

    override protected def inputLeft: Boolean = rows.hasNext

    override protected def gather(): Unit = {
      var n = 0
      var bytes = 0L
      while (n < rowsPerBatch && bytes < BatchBytes && rows.hasNext) {
        val row = rows.next()
        encoder.append(row)
        n += 1
        row match {
          case unsafe: UnsafeRow => bytes += unsafe.getSizeInBytes
          case _ => if ((n & 15) == 0) bytes = encoder.bufferedBytes
        }
      }
    }
  }

  private final class ColumnBatches(
      batches: Iterator[ColumnarBatch],
      encoder: BatchEncoder,
      memory: TransientMemory,
      rowsPerBatch: Int,
      count: Option[PartitionCount])
    extends Encoded(encoder, memory, count) {

    private var vectors: Array[ColumnVector] = _
    private var from = 0
    private var end = 0

    override protected def inputLeft: Boolean = {
      while (from == end && batches.hasNext) {
        val batch = batches.next()
        vectors = Array.tabulate(batch.numCols)(batch.column)
        from = 0
        end = batch.numRows
      }
      from < end
    }

    override protected def gather(): Unit = {
      var n = 0
      while (n < rowsPerBatch && encoder.bufferedBytes < BatchBytes && inputLeft) {
        val count = math.min(math.min(rowsPerBatch - n, end - from), SliceRows)
        encoder.append(vectors, from, count)
        from += count
        n += count
      }
    }
  }

  /** Rows of a vector that are appended between two looks at the size. */
  private val SliceRows = 1024
}
