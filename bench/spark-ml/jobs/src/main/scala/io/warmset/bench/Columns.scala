package io.warmset.bench

import scala.collection.mutable

import org.apache.spark.{Partition, TaskContext}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.vectorized.{ColumnVector, ColumnarBatch}

/** Reads a cached column of doubles where it lies, in order or at random. */
object Columns {
  /** Of each partition, at random: enough for seconds, whatever its size. */
  private val LookupsMax = 8L << 20

  /**
   * The sum of the bits of the frame's first column: of each value once, or of some that are picked at
   * random within each partition. Sums wrap, so that no order changes them.
   */
  def sum(frame: DataFrame, atRandom: Boolean): Long = {
    val scan = frame.queryExecution.sparkPlan.collectFirst { case scan: InMemoryTableScanExec => scan }
    val batches = scan
      .getOrElse(throw new IllegalArgumentException("no part of this DataFrame is cached: cache it first"))
      .executeColumnar()
    val sums =
      if (atRandom) new Picked(batches)
      else batches.mapPartitions(each => Iterator.single(each.map(inOrder).sum))
    sums.collect().sum
  }

  private def inOrder(batch: ColumnarBatch): Long = {
    val column = batch.column(0)
    val rows = batch.numRows
    var bits = 0L
    var row = 0
    while (row < rows) {
      bits += java.lang.Double.doubleToRawLongBits(column.getDouble(row))
      row += 1
    }
    bits
  }

  /** The next place depends on the value before: one access at a time, as in a lookup. */
  private def picked(columns: Array[ColumnVector], rows: Array[Int]): Long = {
    val all = rows.map(_.toLong).sum
    // Batches of a partition are alike, but for the last.
    val each = rows(0)
    var bits = 0L
    var state = 0x9e3779b97f4a7c15L
    var left = math.min(all, LookupsMax)
    while (left > 0) {
      state ^= state << 13
      state ^= state >>> 7
      state ^= state << 17
      val place = (((state >>> 32) * all) >>> 32).toInt
      val value = java.lang.Double.doubleToRawLongBits(columns(place / each).getDouble(place % each))
      bits += value
      state += value
      if (state == 0) state = left
      left -= 1
    }
    bits
  }

  /** One sum for each partition, all of whose batches are open at once: each in a scan of its own, stopped there. */
  private final class Picked(batches: RDD[ColumnarBatch]) extends RDD[Long](batches) {
    override protected def getPartitions: Array[Partition] = firstParent[ColumnarBatch].partitions

    override def compute(split: Partition, context: TaskContext): Iterator[Long] = {
      val columns = new mutable.ArrayBuffer[ColumnVector]
      val rows = new mutable.ArrayBuffer[Int]
      var more = true
      while (more) {
        val scan = firstParent[ColumnarBatch].iterator(split, context).drop(columns.length)
        more = scan.hasNext
        if (more) {
          val batch = scan.next()
          columns += batch.column(0)
          rows += batch.numRows
        }
      }
      require(rows.init.forall(_ == rows.head), "batches of different sizes: rows cannot be found by their number")
      Iterator.single(picked(columns.toArray, rows.toArray))
    }
  }
}
