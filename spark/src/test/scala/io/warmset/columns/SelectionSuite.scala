package io.warmset.columns

import java.math.{BigDecimal => JBigDecimal, BigInteger}

import scala.collection.mutable.ArrayBuffer
import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

import ColumnTesting._

/** Predicates on encoded columns keep what a plain evaluation keeps, and what is kept reads as before, for every encoding. */
class SelectionSuite extends AnyFunSuite {
  /** One column in one encoding: what its values are, and what its description must say for the encoding to be meant. */
  private final case class Column(name: String, dataType: DataType, value: Random => Any, width: Int = -1, flags: Int = -1) {
    val schema: StructType = new StructType().add("c", dataType)
  }

  private def unsigned(rnd: Random, width: Int): Long =
    if (width == 0) 0L else rnd.nextInt(4) match {
      case 0 => Layout.mask(width)
      case 1 => 0L
      case _ => rnd.nextLong() & Layout.mask(width)
    }

  private def decimal(t: DecimalType, unscaled: BigInteger): Decimal = Decimal(new JBigDecimal(unscaled, t.scale), t.precision, t.scale)

  private val Digits18 = 999999999999999999L

  private def wholeColumns: Seq[Column] = {
    val ints = for (width <- 0 to 4; base <- Seq(0, -7, Int.MinValue))
      yield Column(s"int of $width bytes from $base", IntegerType, rnd => base + unsigned(rnd, width).toInt, width)
    val longs = for (width <- 0 to 8; base <- Seq(0L, -7L, Long.MinValue))
      yield Column(s"long of $width bytes from $base", LongType, rnd => base + unsigned(rnd, width), width)
    val small = DecimalType(18, 3)
    val big = DecimalType(38, 3)
    def within(value: Long): Long = math.max(-Digits18, math.min(Digits18, value))
    val decimals = for (width <- 0 to 8; t <- Seq(small, big))
      yield Column(s"$t of $width bytes", t, { rnd =>
        val v = if (width == 8) rnd.nextLong() else unsigned(rnd, width) - 5
        decimal(t, BigInteger.valueOf(within(v)))
      }, width)
    ints ++ longs ++ decimals ++ Seq(
      Column("byte", ByteType, rnd => rnd.nextInt().toByte), Column("short", ShortType, rnd => rnd.nextInt().toShort),
      Column("date", DateType, rnd => rnd.nextInt(70000)), Column("timestamp", TimestampType, rnd => rnd.nextLong()),
      Column("timestamp_ntz", TimestampNTZType, rnd => rnd.nextLong() >> 20),
      Column("time", TimeType(), rnd => rnd.nextInt(1 << 30).toLong),
      Column("months", YearMonthIntervalType(), rnd => rnd.nextInt(500) - 250),
      Column("microseconds", DayTimeIntervalType(), rnd => rnd.nextLong() >> 9),
      Column("boolean", BooleanType, rnd => rnd.nextBoolean(), 1),
      Column("all true", BooleanType, _ => true, 0, Layout.FLAG_TRUE), Column("all false", BooleanType, _ => false, 0, 0))
  }

  private val wideDecimal = Column("decimal of 16 bytes", DecimalType(38, 3),
    rnd => {
      val sign = BigInteger.valueOf(rnd.nextInt(3) - 1)
      decimal(DecimalType(38, 3), new BigInteger(120, rnd.self).multiply(sign))
    },
    WarmDecimalVector.WIDE)

  private def pick[T](rnd: Random, from: T*): T = from(rnd.nextInt(from.length))

  private val floats = Seq(
    Column("float", FloatType, rnd => pick(rnd, Float.NaN, -0.0f, 0.0f, Float.NegativeInfinity, Float.PositiveInfinity,
      Float.MinPositiveValue, rnd.nextFloat() * 100, rnd.nextFloat()), 4),
    Column("the same float", FloatType, _ => 2.5f, 0),
    Column("double", DoubleType, rnd =>
      if (rnd.nextInt(4) > 0) rnd.nextGaussian()
      else pick(rnd, Double.NaN, -0.0, 0.0, Double.NegativeInfinity, Double.PositiveInfinity,
        Double.MinPositiveValue, rnd.nextGaussian()), 8, 0),
    Column("the same double", DoubleType, _ => -2.5, 0, 0), Column("NaN only", DoubleType, _ => Double.NaN, 0, 0),
    Column("few doubles", DoubleType, rnd => pick(rnd, Double.NaN, -0.0, 0.0, math.Pi, Double.NegativeInfinity), 1, Layout.FLAG_DICTIONARY),
    Column("prices", DoubleType, rnd => (rnd.nextInt(10000000) - 5000000) / 100.0, 3, Layout.FLAG_SCALED),
    Column("counts", DoubleType, rnd => rnd.nextInt(50000).toDouble, 2, Layout.FLAG_SCALED),
    Column("far counts", DoubleType, rnd => (rnd.nextLong() & Layout.mask(5)).toDouble, 5, Layout.FLAG_SCALED))

  private def text(s: String): UTF8String = UTF8String.fromString(s)

  private val strings = Seq(
    Column("different strings", StringType, rnd => text(rnd.alphanumeric.take(rnd.nextInt(30)).mkString), flags = 0),
    Column("strings of one length", StringType, rnd => text(f"key ${rnd.nextInt()}%08x"), flags = 0),
    Column("few strings", StringType, rnd => text(s"value ${rnd.nextInt(5)}"), flags = Layout.FLAG_DICTIONARY),
    Column("some strings", StringType, rnd => text(s"a value that comes again ${rnd.nextInt(300)}")),
    Column("the same string", StringType, _ => text("the same"), flags = Layout.FLAG_DICTIONARY),
    Column("empty strings", StringType, _ => text("")),
    Column("a collation", StringType("UTF8_LCASE"), rnd => text(pick(rnd, "a", "A", "b", "Straße"))))

  private val others = Seq(
    Column("binary", BinaryType, rnd => { val b = new Array[Byte](rnd.nextInt(20)); rnd.nextBytes(b); b }),
    Column("null type", NullType, _ => null))

  private val all = wholeColumns ++ (wideDecimal +: floats) ++ strings ++ others

  /** Memory for compacted values, with bytes behind each piece that nobody may touch. */
  private final class Arena extends AutoCloseable {
    private val Guard: Byte = 0x77
    private val blocks = new ArrayBuffer[(Long, Long)]

    def allocate(bytes: Long): Long = {
      val block = Platform.allocateMemory(bytes + 32)
      Platform.setMemory(block, Guard, bytes + 32)
      blocks += (block -> bytes)
      block
    }

    override def close(): Unit = {
      blocks.foreach { case (block, bytes) =>
        (0 until 32).foreach(i => assert(Platform.getByte(null, block + bytes + i) == Guard, "wrote behind what was asked for"))
        Platform.freeMemory(block)
      }
    }
  }

  private def select(selection: Selection, rows: Int, keep: Int => Boolean): Seq[Int] = {
    selection.reset(rows)
    val kept = (0 until rows).filter(keep)
    kept.zipWithIndex.foreach { case (row, i) => selection.rows()(i) = row }
    selection.truncate(kept.length)
    kept
  }

  private def left(selection: Selection): Seq[Int] = (0 until selection.count).map(selection.row)

  /** Encodes, checks that the encoding is the one meant, and shows the vector with its values. */
  private def withColumn(column: Column, rows: Int, nullRate: Double, rnd: Random)(body: (WarmVector, IndexedSeq[Any]) => Unit): Unit = {
    val values = Vector.fill(rows)(if (rnd.nextDouble() < nullRate) null else column.value(rnd))
    val encoded = encode(column.schema, values.map(v => InternalRow(v)))
    try {
      if (values.count(_ != null) > 400) {
        val header = encoded.meta.words()(encoded.meta.start(0))
        if (column.width >= 0) assert(Layout.width(header) == column.width, column.name)
        if (column.flags >= 0) assert(Layout.flags(header) == column.flags, column.name)
      }
      body(encoded.vectors(column.schema)(0), values)
    } finally encoded.close()
  }

  for (nullRate <- Seq(0.0, 0.3, 1.0)) {
    test(s"compacted rows are the selected rows, for every encoding, nulls $nullRate") {
      val rnd = new Random(21)
      val selection = new Selection
      for (column <- all; rows <- Seq(1, 8, 9, 700); share <- Seq(0.02, 0.5, 1.0)) {
        assert(WarmVector.canCompact(column.dataType))
        withColumn(column, rows, nullRate, rnd) { (vector, _) =>
          val before = read(column.schema, Array(vector), rows)
          val arena = new Arena
          try {
            var expected = select(selection, rows, _ => rnd.nextDouble() < share)
            // A second time on top of the first, as an operator over a cache over a cache would.
            for (round <- 1 to 2 if selection.count > 0) {
              vector.compact(selection, bytes => arena.allocate(bytes))
              val clue = s"${column.name}, $rows rows, share $share, round $round"
              assert(read(column.schema, Array(vector), expected.length) == expected.map(before), clue)
              assert(vector.numNulls == expected.count(before(_).isNullAt(0)), clue)
              assert(vector.hasNull == (vector.numNulls > 0), clue)
              if (column.dataType == IntegerType) {
                assert(vector.getInts(0, expected.length).toSeq == expected.indices.map(vector.getInt), clue)
              }
              if (column.dataType == LongType) {
                assert(vector.getLongs(0, expected.length).toSeq == expected.indices.map(vector.getLong), clue)
              }
              val again = select(selection, expected.length, _ => rnd.nextInt(3) > 0)
              expected = again.map(expected)
            }
          } finally arena.close()
        }
      }
    }

    test(s"ranges and sets of whole numbers, nulls $nullRate") {
      val rnd = new Random(22)
      val selection = new Selection
      for (column <- wholeColumns) withColumn(column, 600, nullRate, rnd) { (vector, values) =>
        val numbers = values.map(v => if (v == null) None else Some(whole(v)))
        def bound(): Long = rnd.nextInt(4) match {
          case 0 => pick(rnd, 0L, 1L, -1L, Int.MinValue.toLong, Int.MaxValue.toLong, Int.MinValue - 1L, Int.MaxValue + 1L,
            Long.MinValue, Long.MaxValue, Long.MinValue + 1, Long.MaxValue - 1)
          case 1 => rnd.nextLong()
          case _ => numbers(rnd.nextInt(numbers.length)).getOrElse(5L) + rnd.nextInt(3) - 1
        }
        for (i <- 0 until 60) {
          val (low, high) = (bound(), bound())
          val from = select(selection, 600, _ => i % 2 == 0 || rnd.nextBoolean())
          vector.keepRange(selection, low, high)
          assert(left(selection) == from.filter(numbers(_).exists(n => n >= low && n <= high)), s"${column.name}: $low to $high")
          val set = Array.fill(rnd.nextInt(8))(bound()).sorted
          val before = select(selection, 600, _ => i % 2 == 0 || rnd.nextBoolean())
          vector.keepAnyOf(selection, set)
          assert(left(selection) == before.filter(numbers(_).exists(set.contains)), s"${column.name}: ${set.mkString(" ")}")
        }
      }
    }

    test(s"wide decimals that no long holds are all kept, nulls $nullRate") {
      val selection = new Selection
      // Where there are only nulls the column is narrow, and nothing passes.
      if (nullRate < 1.0) withColumn(wideDecimal, 300, nullRate, new Random(23)) { (vector, values) =>
        for ((low, high) <- Seq(0L -> 10L, 10L -> 0L, Long.MinValue -> Long.MaxValue)) {
          selection.reset(300)
          vector.keepRange(selection, low, high)
          values.indices.foreach { i =>
            val inside = values(i) != null && BigInt(values(i).asInstanceOf[Decimal].toJavaBigDecimal.unscaledValue) >= low &&
              BigInt(values(i).asInstanceOf[Decimal].toJavaBigDecimal.unscaledValue) <= high
            assert(!inside || left(selection).contains(i))
          }
          selection.reset(300)
          vector.keepAnyOf(selection, Array(low))
          assert(selection.count == 300)
        }
      }
    }

    test(s"ranges of floating-point numbers keep NaN and both zeroes, nulls $nullRate") {
      val rnd = new Random(24)
      val selection = new Selection
      for (column <- floats) withColumn(column, 600, nullRate, rnd) { (vector, values) =>
        val numbers = values.map {
          case null => None
          case f: Float => Some(f.toDouble)
          case d: Double => Some(d)
        }
        def bound(): Double = if (rnd.nextBoolean()) {
          pick(rnd, 0.0, -0.0, Double.NegativeInfinity, Double.PositiveInfinity, Double.MinPositiveValue, -Double.MaxValue, 2.5, -2.5)
        } else {
          numbers(rnd.nextInt(600)).filterNot(_.isNaN).getOrElse(rnd.nextGaussian())
        }
        for (_ <- 0 until 60) {
          val (low, high) = (bound(), bound())
          val from = select(selection, 600, _ => rnd.nextBoolean())
          vector.keepRange(selection, low, high)
          val expected = from.filter(numbers(_).exists(n => n.isNaN || n >= low && n <= high))
          assert(left(selection) == expected, s"${column.name}: $low to $high")
        }
      }
    }

    test(s"matches of strings, and presence, nulls $nullRate") {
      val rnd = new Random(25)
      val selection = new Selection
      for (column <- strings) withColumn(column, 600, nullRate, rnd) { (vector, values) =>
        for (nullsToo <- Seq(true, false); share <- Seq(1.0, 0.3, 0.005); part <- Seq("value 1", "a", "e", "", "no such")) {
          val from = select(selection, 600, _ => rnd.nextDouble() < share)
          vector.keepMatching(selection, value => { assert(value != null); value.contains(text(part)) }, nullsToo)
          val expected = from.filter(i => if (values(i) == null) nullsToo else values(i).toString.contains(part))
          assert(left(selection) == expected, s"${column.name}, '$part', nulls too $nullsToo")
        }
      }
      for (column <- all) withColumn(column, 300, nullRate, rnd) { (vector, values) =>
        val from = select(selection, 300, _ => rnd.nextInt(3) > 0)
        vector.keepPresent(selection)
        assert(left(selection) == from.filter(values(_) != null), column.name)
      }
    }
  }

  test("predicates go on after one another, on what is compacted as well") {
    val rnd = new Random(26)
    val selection = new Selection
    val column = Column("long", LongType, _ => rnd.nextInt(1000).toLong)
    withColumn(column, 1000, 0.2, rnd) { (vector, values) =>
      val arena = new Arena
      selection.reset(1000)
      vector.keepRange(selection, 100, 800)
      vector.compact(selection, bytes => arena.allocate(bytes))
      val first = values.filter(v => v != null && v.asInstanceOf[Long] >= 100 && v.asInstanceOf[Long] <= 800)
      selection.reset(first.length)
      vector.keepRange(selection, 300, 5000)
      assert(left(selection).map(first) == first.filter(_.asInstanceOf[Long] >= 300))
      arena.close()
    }
  }

  test("a smaller batch after a larger one, and the other way round") {
    val selection = new Selection
    for (rows <- Seq(10, 1000, 3, 0, 1001)) {
      selection.reset(rows)
      assert(left(selection) == (0 until rows))
      if (rows > 2) select(selection, rows, _ % 2 == 1)
    }
  }

  test("nested types are not compacted, and a wrong question is told") {
    for (t <- Seq(ArrayType(IntegerType), MapType(StringType, LongType), new StructType().add("a", LongType), CalendarIntervalType,
        VariantType)) {
      assert(!WarmVector.canCompact(t), t.sql)
    }
    val selection = new Selection
    selection.reset(1)
    val vector = WarmVector.create(StringType)
    assert(intercept[UnsupportedOperationException](vector.keepRange(selection, 0L, 1L)).getMessage.contains("StringType"))
    intercept[UnsupportedOperationException](vector.keepAnyOf(selection, Array(1L)))
    intercept[UnsupportedOperationException](WarmVector.create(LongType).keepMatching(selection, _ => true, false))
  }

  private def whole(value: Any): Long = value match {
    case b: Boolean => if (b) 1 else 0
    case b: Byte => b.toLong
    case s: Short => s.toLong
    case i: Int => i.toLong
    case l: Long => l
    case d: Decimal => d.toUnscaledLong
  }
}
