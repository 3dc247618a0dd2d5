package io.warmset.columns

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.columnar.SparkColumns
import org.apache.spark.sql.types._

import ColumnTesting._

/** Statistics equal Spark's on the same rows, except where Spark's would prune rows that match. */
class StatsSuite extends AnyFunSuite {
  private val schema = new StructType().add("b", BooleanType).add("y", ByteType).add("s", ShortType).add("i", IntegerType)
    .add("l", LongType).add("f", FloatType).add("d", DoubleType).add("date", DateType).add("ts", TimestampType)
    .add("ntz", TimestampNTZType).add("time", TimeType()).add("dec", DecimalType(12, 3)).add("big", DecimalType(38, 6))
    .add("str", StringType).add("lcase", StringType("UTF8_LCASE")).add("unicode", StringType("UNICODE_CI")).add("bin", BinaryType)
    .add("ym", YearMonthIntervalType()).add("dt", DayTimeIntervalType()).add("iv", CalendarIntervalType)
    .add("v", VariantType).add("n", NullType)

  private def stats(schema: StructType, rows: Seq[InternalRow]): InternalRow = {
    val encoder = new BatchEncoder(types(schema))
    try {
      rows.foreach(encoder.append)
      encoder.finish()
      encoder.stats()
    } finally encoder.close()
  }

  /** Spark's statistics count wide decimals as 8 bytes each; all else is compared as it is. */
  private def same(schema: StructType, rows: Seq[InternalRow]): Unit = {
    val ours = stats(schema, rows).toSeq(Seq.fill(schema.length)(null).flatMap(_ => Seq.fill(5)(null: DataType)))
    val (_, theirs) = SparkColumns.build(schema, rows.iterator, rows.length, compressed = false)
    val expected = theirs.toSeq(Seq.fill(5 * schema.length)(null: DataType))
    val names = Seq("lower", "upper", "nulls", "count", "bytes")
    expected.indices.foreach { i =>
      assert(ours(i) == expected(i), s"${names(i % 5)} of ${schema(i / 5).name}: ${ours(i)} and Spark ${expected(i)}")
      if (expected(i) != null) assert(ours(i).getClass == expected(i).getClass)
    }
  }

  for (nullRate <- Seq(0.0, 0.3, 1.0); extremes <- Seq(false, true); distinct <- Seq(0, 10)) {
    test(s"equal Spark's: nulls $nullRate, extremes $extremes, distinct $distinct") {
      val finite = if (extremes) StructType(schema.filterNot(f => f.dataType == FloatType || f.dataType == DoubleType)) else schema
      val shape = Shape(nullRate, extremes, distinct)
      for (count <- Seq(0, 1, 2, 500)) same(finite, unsafe(finite, rows(finite, count, new Random(count + 1), shape)))
    }
  }

  test("equal Spark's for negative zero and finite extremes") {
    val two = new StructType().add("f", FloatType).add("d", DoubleType)
    def row(f: Float, d: Double): InternalRow = InternalRow(f, d)
    same(two, unsafe(two, Seq(row(0.0f, 0.0), row(-0.0f, -0.0))))
    same(two, unsafe(two, Seq(row(-0.0f, -0.0), row(1f, 1))))
    same(two, unsafe(two, Seq(row(Float.MaxValue, Double.MaxValue), row(Float.MinValue, Double.MinValue))))
    same(two, unsafe(two, Seq(row(Float.MinPositiveValue, Double.MinPositiveValue))))
  }

  test("NaN is the upper bound where it occurs, and infinities count: Spark orders NaN above all numbers") {
    val d = new StructType().add("d", DoubleType).add("f", FloatType)
    def bounds(values: Double*): Seq[Any] = {
      val s = stats(d, values.map(v => InternalRow(v, v.toFloat)))
      assert(s.getDouble(0).toFloat.equals(s.getFloat(5)) && s.getDouble(1).toFloat.equals(s.getFloat(6)))
      Seq(s.getDouble(0), s.getDouble(1))
    }
    assert(bounds(1, Double.NaN, 2).map(_.toString) == Seq("1.0", "NaN"))
    assert(bounds(Double.NaN, Double.NaN).map(_.toString) == Seq("NaN", "NaN"))
    assert(bounds(Double.NegativeInfinity) == Seq(Double.NegativeInfinity, Double.NegativeInfinity))
    assert(bounds(Double.PositiveInfinity, 3) == Seq(3.0, Double.PositiveInfinity))
  }

  test("user-defined types have the statistics of their SQL type, nested types none but the counts") {
    val udt = new org.apache.spark.sql.catalyst.encoders.ExamplePointUDT
    val s = new StructType().add("u", udt).add("st", new StructType().add("a", IntegerType))
    val r = unsafe(s, rows(s, 50, new Random(3), Shape(0.2)))
    val got = stats(s, r)
    for (c <- 0 to 1) {
      assert(got.isNullAt(5 * c) && got.isNullAt(5 * c + 1))
      assert(got.getInt(5 * c + 2) == r.count(_.isNullAt(c)) && got.getInt(5 * c + 3) == 50 && got.getLong(5 * c + 4) > 0)
    }
  }
}
