package io.warmset.columns

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.encoders.ExamplePointUDT
import org.apache.spark.sql.execution.SparkVectors
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.ColumnVector

import ColumnTesting._

/** Whatever form the same values come in, the same bytes come out. */
class InputSuite extends AnyFunSuite {
  private val flat = new StructType().add("b", BooleanType).add("y", ByteType).add("s", ShortType).add("i", IntegerType)
    .add("l", LongType).add("f", FloatType).add("d", DoubleType).add("date", DateType).add("ts", TimestampType)
    .add("dec", DecimalType(12, 3)).add("big", DecimalType(38, 6)).add("str", StringType).add("bin", BinaryType)
    .add("ym", YearMonthIntervalType()).add("dt", DayTimeIntervalType()).add("iv", CalendarIntervalType)
  private val nested = flat.add("arr", ArrayType(LongType)).add("strs", ArrayType(StringType))
    .add("map", MapType(StringType, DoubleType)).add("st", new StructType().add("x", IntegerType).add("y", ArrayType(FloatType)))
    .add("v", VariantType)

  private def columnar(schema: StructType, vectors: Array[_ <: ColumnVector], pieces: Seq[(Int, Int)]): Encoded = {
    val encoder = new BatchEncoder(types(schema))
    try {
      pieces.foreach { case (from, count) => encoder.append(vectors.map(v => v: ColumnVector), from, count) }
      write(encoder)
    } finally encoder.close()
  }

  private def same(name: String, a: Encoded, b: Encoded): Unit = {
    assert(a.meta == b.meta, name)
    a.bytes.zip(b.bytes).zipWithIndex.foreach { case ((x, y), c) => assert(x == y, s"$name, column $c") }
  }

  for (nullRate <- Seq(0.0, 0.3, 1.0)) {
    test(s"unsafe rows, generic rows, Spark's vectors and our own give identical bytes, nulls $nullRate") {
      val rnd = new Random(11)
      val generic = rows(nested, 700, rnd, Shape(nullRate))
      val unsafeRows = unsafe(nested, generic)
      val expected = encode(nested, unsafeRows)
      same("generic rows", encode(nested, generic), expected)
      val mixed = unsafeRows.zip(generic).zipWithIndex.map { case ((u, g), i) => if (i % 7 == 0) g else u: InternalRow }
      same("mixed rows", encode(nested, mixed), expected)
      val ours = expected.vectors(nested)
      same("own vectors", columnar(nested, ours, Seq(0 -> 700)), expected)
      same("own vectors in pieces", columnar(nested, ours, Seq(0 -> 1, 1 -> 300, 301 -> 399)), expected)
      // Spark's converter knows no variants, the last column.
      val sparks = StructType(nested.init)
      val converted = SparkVectors(sparks, generic.map(r => InternalRow.fromSeq(r.toSeq(nested).init)))
      same("Spark's vectors", columnar(sparks, converted, Seq(0 -> 500, 500 -> 200)), columnar(sparks, ours.init, Seq(0 -> 700)))
    }
  }

  test("rows and vectors may alternate within a batch") {
    val rnd = new Random(12)
    val all = unsafe(flat, rows(flat, 900, rnd, Shape()))
    val expected = encode(flat, all)
    val vectors = expected.vectors(flat).map(v => v: ColumnVector)
    val encoder = new BatchEncoder(types(flat))
    all.take(100).foreach(encoder.append)
    encoder.append(vectors, 100, 500)
    all.drop(600).foreach(encoder.append)
    assert(encoder.rows == 900)
    same("alternating", write(encoder), expected)
    encoder.close()
  }

  test("user-defined types are stored as their SQL type") {
    val udt = new ExamplePointUDT
    // The SQL type of Spark ML's vectors.
    val vector = new StructType().add("type", ByteType, nullable = false).add("size", IntegerType)
      .add("indices", ArrayType(IntegerType, containsNull = false)).add("values", ArrayType(DoubleType, containsNull = false))
    val schema = new StructType().add("u", udt).add("a", ArrayType(udt)).add("v", vector)
    assert(schema.forall(f => ColumnTypes.supports(f.dataType)))
    assert(WarmVector.className(udt) == classOf[WarmArrayVector].getName)
    val expected = unsafe(schema, rows(schema, 300, new Random(13), Shape()))
    val encoded = encode(schema, expected)
    assert(read(schema, encoded.vectors(schema), 300) == expected)
  }

  test("bulk reads equal single reads, at every width") {
    val rnd = new Random(14)
    for ((span, extremes) <- Seq(1L -> false, 200L -> false, 60000L -> false, 9000000L -> false, (1L << 31) -> false, 1000L -> true)) {
      val schema = new StructType().add("i", IntegerType).add("l", LongType).add("s", ShortType).add("y", ByteType)
        .add("d", DoubleType).add("f", FloatType).add("b", BooleanType)
      val encoded = encode(schema, unsafe(schema, rows(schema, 500, rnd, Shape(0, extremes, 0, span))))
      val v = encoded.vectors(schema)
      for ((from, count) <- Seq(0 -> 500, 17 -> 100, 499 -> 1, 500 -> 0)) {
        val at = from until from + count
        assert(v(0).getInts(from, count).toSeq == at.map(v(0).getInt))
        assert(v(1).getLongs(from, count).toSeq == at.map(v(1).getLong))
        assert(v(2).getShorts(from, count).toSeq == at.map(v(2).getShort))
        assert(v(3).getBytes(from, count).toSeq == at.map(v(3).getByte))
        assert(v(4).getDoubles(from, count).map(_.toString).toSeq == at.map(v(4).getDouble(_).toString))
        assert(v(5).getFloats(from, count).map(_.toString).toSeq == at.map(v(5).getFloat(_).toString))
        assert(v(6).getBooleans(from, count).toSeq == at.map(v(6).getBoolean))
      }
    }
  }

  test("spatial values are read where they lie") {
    val g = GeometryType(4326)
    assert(ColumnTypes.supports(g) && ColumnTypes.supports(GeographyType(4326)))
    val schema = new StructType().add("g", g)
    import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
    import org.apache.spark.unsafe.types.BinaryView
    val values = Vector.tabulate(100)(i => if (i % 9 == 0) null else Array.fill(i % 13)(i.toByte))
    val in = values.map(b => new GenericInternalRow(Array[Any](if (b == null) null else BinaryView.fromBytes(b))))
    val encoded = encode(schema, in)
    val v = encoded.vectors(schema)(0)
    values.indices.foreach { i =>
      val view = v.getBinaryView(i)
      if (values(i) == null) assert(view == null) else assert(view == BinaryView.fromBytes(values(i)))
    }
  }

  test("wrong use is told, not guessed at") {
    val encoder = new BatchEncoder(Array[DataType](IntegerType))
    assert(intercept[IllegalStateException](encoder.stats()).getMessage.contains("finish()"))
    assert(intercept[IllegalStateException](encoder.writeTo(0, 0)).getMessage.contains("finish()"))
    val two = unsafe(new StructType().add("a", IntegerType).add("b", IntegerType), Seq(InternalRow(1, 2))).head
    assert(intercept[IllegalArgumentException](encoder.append(two)).getMessage.contains("2 fields for 1"))
    encoder.append(InternalRow(5))
    val meta = encoder.finish()
    assert(intercept[IllegalStateException](encoder.append(InternalRow(5))).getMessage.contains("reset()"))
    assert(intercept[IllegalStateException](encoder.finish()).getMessage.contains("reset()"))
    assert(intercept[IllegalStateException](WarmVector.create(StringType).bind(meta, 0, 0)).getMessage.contains("expected bytes"))
    encoder.close()
    encoder.close()
    val unknown = ObjectType(classOf[String])
    assert(!ColumnTypes.supports(unknown))
    assert(!ColumnTypes.supports(ArrayType(unknown)) && !ColumnTypes.supports(new StructType().add("a", unknown)) &&
      !ColumnTypes.supports(MapType(IntegerType, unknown)))
    assert(intercept[IllegalArgumentException](new BatchEncoder(Array[DataType](unknown))).getMessage.contains("supports"))
  }
}
