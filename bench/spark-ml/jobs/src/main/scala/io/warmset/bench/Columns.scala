package io.warmset.bench

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.vectorized.ColumnarBatch

/** Reads a cached column of doubles where it lies, in order or at random. */
object Columns {
  /**
   * The sum of the bits of as many values as the frame's first column has: of each once, or of values
   * picked at random within each batch. Sums wrap, so that no order changes them.
   */
  def sum(frame: DataFrame, atRandom: Boolean): Long = {
    val scan = frame.queryExecution.sparkPlan.collectFirst { case scan: InMemoryTableScanExec => scan }
    val batches = scan
      .getOrElse(throw new IllegalArgumentException("no part of this DataFrame is cached: cache it first"))
      .executeColumnar()
    batches
      .mapPartitions { each =>
        Iterator.single(each.map(batch => if (atRandom) picked(batch) else inOrder(batch)).sum)
      }
      .collect()
      .sum
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

  /** The next row depends on the value before: one access at a time, as in a lookup. */
  private def picked(batch: ColumnarBatch): Long = {
    val column = batch.column(0)
    val rows = batch.numRows.toLong
    var bits = 0L
    var state = 0x9e3779b97f4a7c15L
    var left = rows
    while (left > 0) {
      state ^= state << 13
      state ^= state >>> 7
      state ^= state << 17
      val row = ((state >>> 32) * rows) >>> 32
      val value = java.lang.Double.doubleToRawLongBits(column.getDouble(row.toInt))
      bits += value
      state += value
      if (state == 0) state = left
      left -= 1
    }
    bits
  }
}
