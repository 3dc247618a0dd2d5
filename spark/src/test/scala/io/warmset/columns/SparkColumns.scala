// In Spark's package because its column builders are private to it.
package org.apache.spark.sql.execution.columnar

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types.StructType

/** What Spark's own cache makes of rows: the yardstick for statistics, footprint and speed of encoding. */
object SparkColumns {
  /** Bytes of the buffers of one batch, and the statistics. */
  def build(schema: StructType, rows: Iterator[InternalRow], batchRows: Int, compressed: Boolean): (Long, InternalRow) = {
    val builders = schema.fields.map(f => ColumnBuilder(f.dataType, batchRows, f.name, compressed))
    while (rows.hasNext) {
      val row = rows.next()
      var i = 0
      while (i < builders.length) {
        builders(i).appendFrom(row, i)
        i += 1
      }
    }
    val stats = new GenericInternalRow(builders.flatMap(_.columnStats.collectedStatistics))
    val bytes = builders.map { b =>
      val buffer = b.build()
      // As DefaultCachedBatchSerializer does: the batch keeps an array of exactly the bytes.
      val array = new Array[Byte](buffer.remaining())
      buffer.get(array)
      array.length.toLong
    }.sum
    (bytes, stats)
  }
}
