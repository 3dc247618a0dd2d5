package io.warmset.columns

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

import ColumnTesting._

/** Which encoding a batch gets: the smallest that holds it, and exactly at the boundaries. */
class EncodingSuite extends AnyFunSuite {
  private def longs(values: Seq[Long]): Encoded = encode(new StructType().add("c", LongType), values.map(v => InternalRow(v)))

  private def strings(values: Seq[String]): Encoded =
    encode(new StructType().add("c", StringType), values.map(v => InternalRow(UTF8String.fromString(v))))

  private def checkStrings(encoded: Encoded, values: IndexedSeq[String]): Unit = {
    val v = encoded.vectors(new StructType().add("c", StringType))(0)
    values.indices.foreach(i => assert(v.getUTF8String(i).toString == values(i), s"row $i"))
    encoded.meta.validateColumn(0, StringType, encoded.addresses(0), encoded.meta.bytes(0))
    encoded.close()
  }

  test("longs take the bytes of their range, up to all of them") {
    val rows = 1000
    for {
      (range, width) <- Seq(0L -> 0, 1L -> 1, 255L -> 1, 256L -> 2, 65535L -> 2, 65536L -> 3, ((1L << 24) - 1) -> 3, (1L << 24) -> 4,
        ((1L << 32) - 1) -> 4, (1L << 32) -> 5, ((1L << 40) - 1) -> 5,
        (1L << 40) -> 6, (1L << 48) -> 7, ((1L << 56) - 1) -> 7, (1L << 56) -> 8,
        Long.MaxValue -> 8, -1L -> 8)
      // From the least long, -1 is the unsigned range of all longs; from others it is a range of one.
      base <- if (range == -1L) Seq(Long.MinValue) else Seq(0L, 17L, -5L, Long.MinValue)
    } {
      val values = Vector.tabulate(rows)(i => if (i == 3) base + range else base)
      val encoded = longs(values)
      assert(encoded.meta.bytes(0) == Layout.valueBytes(rows, width, 8), s"range $range from $base")
      val v = encoded.vectors(new StructType().add("c", LongType))(0)
      values.indices.foreach(i => assert(v.getLong(i) == values(i)))
      encoded.close()
    }
  }

  test("whole words are kept as they are") {
    val encoded = longs(Seq(Long.MinValue, -1L, 0L, Long.MaxValue))
    val v = encoded.vectors(new StructType().add("c", LongType))(0)
    assert(v.getLongs(0, 4).toSeq == Seq(Long.MinValue, -1L, 0L, Long.MaxValue))
    assert(encoded.bytes.head.take(8) == Vector.fill[Byte](7)(0) :+ Byte.MinValue)
  }

  test("wide decimals that turn out small are narrowed, others take 16 bytes") {
    val t = DecimalType(38, 2)
    def bytes(values: String*): Long = {
      val rows = Vector.fill(100)(values).flatten.map(s => InternalRow(Decimal(new java.math.BigDecimal(s), 38, 2)))
      val encoded = encode(new StructType().add("c", t), rows)
      val v = encoded.vectors(new StructType().add("c", t))(0)
      rows.indices.foreach(i => assert(v.getDecimal(i, 38, 2) == rows(i).getDecimal(0, 38, 2)))
      encoded.meta.bytes(0) / rows.length
    }
    assert(bytes("1.00", "3.55") == 1)
    assert(bytes("-9999999999999999.99", "9999999999999999.99") == 8)
    assert(bytes("10000000000000000.00", "0.01") == 16)
    assert(bytes("999999999999999999999999999999999999.99", "-999999999999999999999999999999999999.99") == 16)
  }

  private def doubles(values: Seq[Any]): (Long, Seq[Any]) = {
    val schema = new StructType().add("c", DoubleType)
    val encoded = encode(schema, values.map(v => InternalRow(v)))
    try {
      encoded.meta.validate(types(schema))
      encoded.meta.validateColumn(0, DoubleType, encoded.addresses(0), encoded.meta.bytes(0))
      val v = encoded.vectors(schema)(0)
      values.indices.foreach { i =>
        if (values(i) == null) assert(v.isNullAt(i))
        else {
          val expected = java.lang.Double.doubleToRawLongBits(values(i).asInstanceOf[Double])
          assert(java.lang.Double.doubleToRawLongBits(v.getDouble(i)) == expected, s"row $i: ${values(i)} as ${v.getDouble(i)}")
        }
      }
      val bulk = v.getDoubles(0, values.length)
      values.indices.filter(values(_) != null).foreach(i => assert(bulk(i).equals(values(i))))
      (encoded.meta.bytes(0), values)
    } finally encoded.close()
  }

  test("doubles that are prices, counts or rates are narrowed, bit for bit") {
    val rnd = new Random(8)
    val n = 5000
    def bytesEach(value: => Any): Long = doubles(Vector.fill(n)(value))._1 / n
    assert(bytesEach((90000 + rnd.nextInt(10400000)) / 100.0) == 3)
    assert(bytesEach(s"${rnd.nextInt(100000)}.${rnd.nextInt(10)}${rnd.nextInt(10)}".toDouble) == 3)
    assert(bytesEach(-(1 + rnd.nextInt(60000)) / 10.0) == 2)
    assert(bytesEach(rnd.nextInt(1 << 20).toDouble) == 3)
    assert(bytesEach(1e14 + rnd.nextInt(60000)) == 2)
    assert(bytesEach(rnd.nextInt(11) / 100.0) == 1)
    assert(bytesEach(if (rnd.nextInt(3) == 0) null else (rnd.nextInt(100000) / 10000.0)) == 3)
    // A handful of any doubles at all.
    val odd = Vector(Double.NaN, -0.0, 0.0, Double.NegativeInfinity, math.Pi, java.lang.Double.longBitsToDouble(0x7ff8000000000123L))
    assert(bytesEach(odd(rnd.nextInt(odd.length))) == 1)
    assert(bytesEach(if (rnd.nextBoolean()) null else odd(rnd.nextInt(odd.length))) == 1)
  }

  test("doubles that would not come back bit for bit stay as they are") {
    val rnd = new Random(9)
    val n = 5000
    def prices: Vector[Any] = Vector.tabulate(n)(i => (i * 7919 % 100000) / 100.0)
    assert(doubles(prices)._1 < n * 4)
    for (odd <- Seq(-0.0, Double.NaN, Double.PositiveInfinity, 1e16, 0.00001, math.Pi, Double.MinPositiveValue, 1e300)) {
      for (at <- Seq(0, 63, 64, n - 1)) assert(doubles(prices.updated(at, odd))._1 == n * 8, s"$odd at $at")
    }
    assert(doubles(Vector.fill(n)(rnd.nextDouble()))._1 == n * 8)
    assert(doubles(Vector.fill(n)(rnd.nextGaussian() * 1e9))._1 == n * 8)
    // Neighbours of decimals.
    assert(doubles(Vector.tabulate(n)(i => Math.nextUp(i / 100.0)))._1 == n * 8)
  }

  test("distinct doubles: 256 are a dictionary, 257 are not") {
    for (distinct <- Seq(2, 255, 256, 257)) {
      val bytes = doubles(Vector.tabulate(20000)(i => math.sqrt(2.0 + i % distinct)))._1
      assert(bytes == (if (distinct <= 256) 20000 + 8 + distinct * 8 else 160000))
    }
  }

  test("constants take next to nothing, for every flat type") {
    val schema = new StructType().add("b", BooleanType).add("i", IntegerType).add("l", LongType).add("f", FloatType)
      .add("d", DoubleType).add("s", StringType).add("bin", BinaryType).add("dec", DecimalType(30, 0)).add("nan", DoubleType)
    val row = InternalRow(true, 5, -7L, -0.0f, 2.5, UTF8String.fromString("the same"), Array[Byte](1, 2),
      Decimal(BigDecimal("123456789012345678901234567890"), 30, 0), Double.NaN)
    val encoded = encode(schema, Vector.fill(5000)(row))
    val sizes = schema.indices.map(encoded.meta.bytes)
    assert(sizes == Seq(0, 0, 0, 8, 8, 8, 8, 80000, 8))
    assert(read(schema, encoded.vectors(schema), 5000).toSet == unsafe(schema, Seq(row)).toSet)
  }

  test("strings that repeat get codes of the least width") {
    for ((distinct, width) <- Seq(1 -> 0, 2 -> 1, 255 -> 1, 256 -> 1, 257 -> 2, 5000 -> 2)) {
      val values = Vector.tabulate(20000)(i => s"a value that repeats ${i % distinct}")
      val encoded = strings(values)
      val entries = values.take(distinct).map(_.length.toLong).sum
      assert(encoded.meta.bytes(0) < 20000L * width + entries + 2 * distinct + 64, s"$distinct distinct")
      assert(encoded.meta.bytes(0) >= 20000L * width + entries)
      checkStrings(encoded, values)
    }
  }

  test("a dictionary ends at 65536 entries") {
    for (distinct <- Seq(65535, 65536, 65537)) {
      // Runs, so that many distinct values still repeat within the probe of the first rows.
      val values = Vector.tabulate(distinct * 3)(i => s"long enough to be worth a code ${(i / 3).formatted("%08d")}")
      val encoded = strings(values)
      val plain = values.map(_.length.toLong).sum
      assert((encoded.meta.bytes(0) < plain / 2) == distinct <= 65536, s"$distinct distinct: ${encoded.meta.bytes(0)} of $plain")
      checkStrings(encoded, values)
    }
  }

  test("strings that do not repeat stay plain, with offsets of two bytes or none") {
    val rnd = new Random(5)
    val comments = Vector.fill(10000)(rnd.alphanumeric.take(10 + rnd.nextInt(34)).mkString)
    val length = comments.map(_.length.toLong).sum
    val encoded = strings(comments)
    assert(encoded.meta.bytes(0) <= length + 2 * 10001 + 24)
    checkStrings(encoded, comments)
    val keys = Vector.tabulate(10000)(i => f"key $i%08d")
    val fixed = strings(keys)
    assert(fixed.meta.bytes(0) == 10000 * 12)
    checkStrings(fixed, keys)
  }

  test("empty strings, one huge string, and lengths that lie far from any line") {
    checkStrings(strings(Vector.fill(100)("")), Vector.fill(100)(""))
    val huge = "x" * (5 << 20)
    val values = Vector("", huge, "a", "") ++ Vector.fill(2000)("b") :+ huge.reverse + "y"
    checkStrings(strings(values), values)
    val first = Vector(huge) ++ Vector.fill(3000)("")
    checkStrings(strings(first), first)
    val last = Vector.tabulate(3000)(i => if (i == 2999) huge else "z" * (i % 3))
    checkStrings(strings(last), last)
  }

  test("strings of a dictionary are made once per batch and not carried into the next") {
    val schema = new StructType().add("c", StringType)
    val vector = WarmVector.create(StringType)
    val first = strings(Vector.tabulate(1000)(i => s"first ${i % 3}"))
    val second = strings(Vector.tabulate(1000)(i => s"second ${i % 2}"))
    vector.bind(first.meta, 0, first.addresses(0))
    assert(vector.getUTF8String(0) eq vector.getUTF8String(3))
    val kept = vector.getUTF8String(1)
    vector.bind(second.meta, 0, second.addresses(0))
    assert(vector.getUTF8String(0).toString == "second 0" && vector.getUTF8String(1).toString == "second 1")
    assert(kept.toString == "first 1")
    vector.bind(first.meta, 0, first.addresses(0))
    assert((0 until 6).map(vector.getUTF8String(_).toString) == Vector.tabulate(6)(i => s"first ${i % 3}"))
    assert(schema.length == 1)
  }

  test("a column that once would not repeat gets its dictionary back") {
    val schema = new StructType().add("c", StringType)
    val encoder = new BatchEncoder(types(schema))
    def size(value: Int => String): Long = {
      (0 until 5000).foreach(i => encoder.append(InternalRow(UTF8String.fromString(value(i)))))
      val encoded = write(encoder)
      encoder.reset()
      try encoded.meta.bytes(0) finally encoded.close()
    }
    assert(size(i => s"unique text $i") > 5000 * 12)
    val sizes = Vector.fill(40)(size(i => s"repeating text ${i % 4}"))
    assert(sizes.last < 5200)
    encoder.close()
  }

  test("equal lengths of arrays cost no offsets") {
    val schema = new StructType().add("c", ArrayType(DoubleType, containsNull = false))
    val rows = Vector.tabulate(1000)(i => InternalRow(new GenericArrayData(Array.tabulate[Any](50)(j => i * 0.5 + j))))
    val encoded = encode(schema, rows)
    assert(encoded.meta.bytes(0) == 1000 * 50 * 8)
    val v = encoded.vectors(schema)(0)
    assert(v.getArray(999).toDoubleArray.toSeq == Vector.tabulate(50)(j => 999 * 0.5 + j))
  }

  test("lineitem takes at most 1.25 times what Spark's compressed cache takes") {
    val rows = Lineitem.rows(10000, 1)
    val encoded = encode(Lineitem.schema, rows.toSeq)
    val (spark, _) = org.apache.spark.sql.execution.columnar.SparkColumns.build(Lineitem.schema, rows.iterator, 10000, compressed = true)
    val ratio = (encoded.meta.bytes + encoded.meta.heapBytes).toDouble / spark
    info(f"ratio $ratio%.3f")
    assert(ratio <= 1.25)
    assert(read(Lineitem.schema, encoded.vectors(Lineitem.schema), 10000) == rows.toSeq)
  }
}
