package io.warmset.columns

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, IOException, ObjectInputStream, ObjectOutputStream}

import scala.util.{Random, Try}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.UnsafeProjection
import org.apache.spark.sql.catalyst.util.GenericArrayData
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

import ColumnTesting._

/** Descriptions travel, and damaged ones are refused before a vector follows them out of bounds. */
class DamageSuite extends AnyFunSuite {
  private val schema = new StructType().add("b", BooleanType).add("i", IntegerType).add("l", LongType).add("f", FloatType)
    .add("d", DoubleType).add("big", DecimalType(38, 6)).add("s", StringType).add("plain", BinaryType).add("n", NullType)
    .add("iv", CalendarIntervalType).add("arr", ArrayType(StringType)).add("map", MapType(StringType, ArrayType(IntegerType)))
    .add("st", new StructType().add("x", IntegerType).add("y", VariantType))

  private val projection = UnsafeProjection.create(schema)

  private val repeating = Shape(0.2, extremes = false, distinct = 20)
  private val shapes = Seq(repeating, Shape(0.2, extremes = false), Shape(0.2))

  private def sample(seed: Long, shape: Shape = repeating): Encoded =
    encode(schema, rows(schema, 200, new Random(seed), shape))

  private def serialized(meta: BatchMeta): Array[Byte] = {
    val out = new ByteArrayOutputStream
    val objects = new ObjectOutputStream(out)
    meta.writeExternal(objects)
    objects.flush()
    out.toByteArray
  }

  private def deserialized(bytes: Array[Byte]): BatchMeta = {
    val meta = new BatchMeta
    meta.readExternal(new ObjectInputStream(new ByteArrayInputStream(bytes)))
    meta
  }

  private def validate(encoded: Encoded, meta: BatchMeta): Unit = {
    meta.validate(types(schema))
    types(schema).zipWithIndex.foreach { case (t, c) =>
      meta.validateColumn(c, t, encoded.addresses(c), encoded.meta.bytes(c))
    }
  }

  test("a description survives Java and Kryo serialisation and fits the bytes wherever they lie") {
    val encoded = sample(1)
    val expected = read(schema, encoded.vectors(schema), 200)
    val kryo = new org.apache.spark.serializer.KryoSerializer(new org.apache.spark.SparkConf(false)).newInstance()
    val java = new org.apache.spark.serializer.JavaSerializer(new org.apache.spark.SparkConf(false)).newInstance()
    for (serializer <- Seq(kryo, java)) {
      val copy = serializer.deserialize[BatchMeta](serializer.serialize(encoded.meta))
      assert(copy == encoded.meta && copy.hashCode == encoded.meta.hashCode)
      val moved = schema.indices.map { c =>
        val block = Platform.allocateMemory(encoded.meta.bytes(c) + 8)
        Platform.copyMemory(null, encoded.addresses(c), null, block, encoded.meta.bytes(c))
        block
      }
      val vectors = types(schema).map(WarmVector.create)
      vectors.indices.foreach(c => vectors(c).bind(copy, c, moved(c)))
      assert(read(schema, vectors, 200) == expected)
      moved.foreach(Platform.freeMemory)
    }
  }

  test("every truncation and every other version is an IOException") {
    val bytes = serialized(sample(2).meta)
    for (length <- 0 until bytes.length by 3) assert(Try(deserialized(bytes.take(length))).failed.get.isInstanceOf[IOException])
    val version = bytes.clone()
    // Behind the stream header (4) and the block header (2 or 5).
    val at = bytes.indexOf(1.toByte, 6)
    version(at) = 9
    assert(intercept[IOException](deserialized(version)).getMessage.contains("version"))
  }

  test("a length that the bytes do not hold allocates nothing of its size") {
    val out = new ByteArrayOutputStream
    val objects = new ObjectOutputStream(out)
    objects.writeByte(1)
    objects.writeInt((1 << 24) - 1)
    objects.flush()
    intercept[IOException](deserialized(out.toByteArray))
    val negative = new ByteArrayOutputStream
    val negatives = new ObjectOutputStream(negative)
    negatives.writeByte(1)
    negatives.writeInt(-5)
    negatives.flush()
    assert(intercept[IOException](deserialized(negative.toByteArray)).getMessage.contains("length -5"))
  }

  test("another schema is refused") {
    val meta = sample(3).meta
    intercept[IOException](meta.validate(types(schema).reverse))
    intercept[IOException](meta.validate(types(schema).tail))
    meta.validate(types(schema))
  }

  for ((shape, i) <- shapes.zipWithIndex) test(s"a damaged word is refused, or leaves every read inside the column: shape $i") {
    val encoded = sample(4, shape)
    val rnd = new Random(4)
    val good = encoded.meta.words
    var refused = 0
    var harmless = 0
    for (_ <- 0 until 3000) {
      val words = good.clone()
      val at = rnd.nextInt(words.length)
      words(at) = rnd.nextInt(5) match {
        case 0 => rnd.nextLong()
        case 1 => words(at) ^ (1L << rnd.nextInt(64))
        case 2 => words(at) + rnd.nextInt(7) - 3
        case 3 => -words(at)
        case _ => rnd.nextInt(1000).toLong
      }
      val bad = Try { val m = deserialized(serialized(new BatchMeta(words))); validate(encoded, m); m }
      bad.failed.foreach(e => assert(e.isInstanceOf[IOException], s"word $at: $e"))
      if (bad.isFailure) refused += 1
      else {
        harmless += 1
        // Followed out of bounds this would crash or give garbage lengths.
        val vectors = types(schema).map(WarmVector.create)
        vectors.indices.foreach(c => vectors(c).bind(bad.get, c, encoded.addresses(c)))
        if (bad.get.numRows == 200) read(schema, vectors, 200, projection)
      }
    }
    info(s"$refused refused, $harmless harmless")
    assert(refused > 1500)
  }

  for ((shape, i) <- shapes.zipWithIndex) test(s"damaged data is refused, or leaves every read inside the column: shape $i") {
    val encoded = sample(5, shape)
    val rnd = new Random(5)
    var refused = 0
    for (_ <- 0 until 1000) {
      val c = rnd.nextInt(schema.length)
      if (encoded.meta.bytes(c) > 0) {
        val at = encoded.addresses(c) + (rnd.nextLong() & Long.MaxValue) % encoded.meta.bytes(c)
        val before = Platform.getByte(null, at)
        Platform.putByte(null, at, rnd.nextInt().toByte)
        Try(validate(encoded, encoded.meta)) match {
          case scala.util.Failure(e: IOException) =>
            refused += 1
            assert(e.getMessage.contains("damaged column"))
          case scala.util.Failure(e) => throw e
          case scala.util.Success(_) =>
            // A wrong value is a matter for checksums; Spark itself may refuse one, such as 39 digits in a decimal(38).
            Try(read(schema, encoded.vectors(schema), 200, projection)).failed.foreach(e => assert(e.isInstanceOf[ArithmeticException], e))
        }
        Platform.putByte(null, at, before)
      }
    }
    info(s"$refused refused")
    assert(refused > 50)
  }

  test("ranges of a column without bytes are checked too") {
    val nulls = new StructType().add("a", ArrayType(NullType))
    val encoded = encode(nulls, Seq.fill(10)(InternalRow(new GenericArrayData(Array[Any](null, null)))))
    assert(encoded.meta.bytes(0) == 0)
    encoded.meta.validate(types(nulls))
    encoded.meta.validateColumn(0, nulls(0).dataType, 0, 0)
    val words = encoded.meta.words.clone()
    // header, base, slope: twice as steep.
    words(5) *= 2
    val bad = new BatchMeta(words)
    bad.validate(types(nulls))
    assert(intercept[IOException](bad.validateColumn(0, nulls(0).dataType, 0, 0)).getMessage.contains("offset"))
  }

  test("fewer bytes than announced are refused") {
    val encoded = sample(6)
    encoded.meta.validate(types(schema))
    val c = schema.fieldIndex("s")
    assert(intercept[IOException](encoded.meta.validateColumn(c, StringType, encoded.addresses(c), encoded.meta.bytes(c) - 1))
      .getMessage.contains("needs"))
  }
}
