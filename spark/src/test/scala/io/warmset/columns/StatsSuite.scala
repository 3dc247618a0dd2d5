package io.warmset.columns

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.columnar.SparkColumns
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

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
    def collated(t: DataType) = t match {
      case s: StringType => s.collationId != 0
      case _ => false
    }
    expected.indices.foreach { i =>
      if (i % 5 < 2 && collated(schema(i / 5).dataType)) assert(ours(i) == null)
      else if (i % 5 < 2 && isLong(expected(i))) assert(sound(i % 5, ours(i), expected(i)), names(i % 5))
      else assert(ours(i) == expected(i), s"${names(i % 5)} of ${schema(i / 5).name}: ${ours(i)} and Spark ${expected(i)}")
      if (ours(i) != null) assert(ours(i).getClass == expected(i).getClass)
    }
  }

  private def isLong(bound: Any): Boolean = bound match {
    case s: UTF8String => s.numBytes > 64
    case _ => false
  }

  /** A bound that is shorter than the value, on the right side of it. */
  private def sound(side: Int, ours: Any, value: Any): Boolean = (ours, value) match {
    case (o: UTF8String, v: UTF8String) =>
      o.numBytes <= 64 && (if (side == 0) o.binaryCompare(v) <= 0 else o.binaryCompare(v) >= 0)
    case _ => false
  }

  /** As Spark prunes: see SimpleMetricsCachedBatchSerializer. */
  private def mayStartWith(lower: UTF8String, upper: UTF8String, start: UTF8String): Boolean =
    lower.substring(0, start.numChars).binaryCompare(start) <= 0 &&
      start.binaryCompare(upper.substring(0, start.numChars)) <= 0

  test("bounds of any bytes at all hold them, are short, and prune no string that starts as asked") {
    val text = new StructType().add("s", StringType)
    val rnd = new Random(41)
    val pieces = Vector("a", "z", "\u007f", "é", "あ", "\ud83d\ude00").map(_.getBytes("UTF-8")) ++
      Vector(Array(-1), Array(-1, -1, -1, -1), Array(0xE3), Array(0xC3), Array(0xF0, 0x9F), Array(0x80), Array(0xBF), Array(0))
        .map(_.map(_.toByte))
    for (round <- 0 until 4000) {
      val common = Seq.fill(rnd.nextInt(70))(pieces(rnd.nextInt(pieces.length))).toArray.flatten
      val values = Seq.fill(1 + rnd.nextInt(4)) {
        val rest = Seq.fill(rnd.nextInt(50))(pieces(rnd.nextInt(pieces.length))).toArray.flatten
        UTF8String.fromBytes((if (round % 3 == 0) Array.empty[Byte] else common) ++ rest)
      }
      val s = stats(text, values.map(InternalRow(_)))
      val (lower, upper) = (s.getUTF8String(0), s.getUTF8String(1))
      assert(lower.numBytes <= 64)
      for (v <- values) {
        assert(lower.binaryCompare(v) <= 0 && v.binaryCompare(upper) <= 0, s"round $round")
        val chars = if (v.isValid) v.numChars else 0
        for (n <- Seq(0, 1, chars / 2, chars)) {
          val start = v.substring(0, n)
          if (start.isValid) assert(mayStartWith(lower, upper, start), s"round $round, $n characters")
        }
      }
      if (values.exists(_.getBytes.take(64).exists(_ != -1))) assert(upper.numBytes <= 68, s"round $round")
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
