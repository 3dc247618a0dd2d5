// In Spark's package because its row-to-column converter is private to it.
package org.apache.spark.sql.execution

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector
import org.apache.spark.sql.types.StructType

/** Spark's own vectors filled from rows: columnar input as a columnar plan would give it. */
object SparkVectors {
  def apply(schema: StructType, rows: Seq[InternalRow]): Array[OnHeapColumnVector] = {
    val vectors = OnHeapColumnVector.allocateColumns(rows.length max 1, schema)
    val converter = new RowToColumnConverter(schema)
    rows.foreach(r => converter.convert(r, vectors.toArray))
    vectors
  }
}
