package io.warmset.columns

import java.math.{BigDecimal => JBigDecimal, BigInteger}

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.catalyst.util.{ArrayBasedMapData, GenericArrayData}
import org.apache.spark.sql.types._
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.{CalendarInterval, UTF8String, VariantVal}

/** Seeded values of any type, and the way from rows through an encoder to vectors and back. */
object ColumnTesting {
  /** Fills the memory around and behind what is written, so that a read outside shows as a wrong value. */
  private val Poison: Byte = 0x5a

  /** The shape of generated values. */
  final case class Shape(nullRate: Double = 0.1, extremes: Boolean = true, distinct: Int = 0, span: Long = 1000)

  def value(dataType: DataType, rnd: Random, shape: Shape): Any = {
    if (dataType == NullType || rnd.nextDouble() < shape.nullRate) return null
    val extreme = shape.extremes && rnd.nextInt(8) == 0
    def whole(min: Long, max: Long): Long =
      if (extreme) (if (rnd.nextBoolean()) min else max) else math.floorMod(rnd.nextLong(), shape.span)
    dataType match {
      case BooleanType => rnd.nextBoolean()
      case ByteType => (if (extreme) whole(Byte.MinValue, Byte.MaxValue) else rnd.nextInt(20).toLong).toByte
      case ShortType => whole(Short.MinValue, Short.MaxValue).toShort
      case IntegerType | DateType | _: YearMonthIntervalType => whole(Int.MinValue, Int.MaxValue).toInt
      case LongType | TimestampType | TimestampNTZType | _: DayTimeIntervalType | _: TimeType =>
        whole(Long.MinValue, Long.MaxValue)
      case FloatType =>
        if (extreme) pick(rnd, Float.NaN, -0.0f, 0.0f, Float.NegativeInfinity, Float.PositiveInfinity, Float.MinPositiveValue)
        else rnd.nextFloat() * 100
      case DoubleType =>
        if (extreme) pick(rnd, Double.NaN, -0.0, 0.0, Double.NegativeInfinity, Double.PositiveInfinity, Double.MinPositiveValue)
        else if (shape.distinct > 0) rnd.nextInt(shape.distinct) / 100.0
        else if (!shape.extremes) math.floorMod(rnd.nextLong(), shape.span) / 100.0
        else rnd.nextGaussian() * 100
      case d: DecimalType => decimal(d, rnd, extreme)
      case _: StringType => UTF8String.fromString(string(rnd, shape, extreme))
      case BinaryType => UTF8String.fromString(string(rnd, shape, extreme)).getBytes
      case CalendarIntervalType => new CalendarInterval(rnd.nextInt(100), rnd.nextInt(), rnd.nextLong())
      case VariantType =>
        new VariantVal(Array.fill(1 + rnd.nextInt(20))(rnd.nextInt().toByte), Array.fill(1 + rnd.nextInt(5))(rnd.nextInt().toByte))
      case ArrayType(element, containsNull) =>
        val inner = if (containsNull) shape else shape.copy(nullRate = 0)
        new GenericArrayData(Array.fill[Any](length(rnd))(value(element, rnd, inner)))
      case MapType(key, v, containsNull) =>
        val n = length(rnd)
        val inner = if (containsNull) shape else shape.copy(nullRate = 0)
        new ArrayBasedMapData(
          new GenericArrayData(Array.fill[Any](n)(value(key, rnd, shape.copy(nullRate = 0)))),
          new GenericArrayData(Array.fill[Any](n)(value(v, rnd, inner))))
      case StructType(fields) =>
        new GenericInternalRow(fields.map(f => value(f.dataType, rnd, if (f.nullable) shape else shape.copy(nullRate = 0))))
      case udt: UserDefinedType[_] => value(udt.sqlType, rnd, shape.copy(nullRate = 0))
      case other => throw new IllegalArgumentException(other.sql)
    }
  }

  private def pick[T](rnd: Random, values: T*): T = values(rnd.nextInt(values.length))

  private def length(rnd: Random): Int = if (rnd.nextInt(5) == 0) 0 else rnd.nextInt(6)

  private def decimal(d: DecimalType, rnd: Random, extreme: Boolean): Decimal = {
    val limit = BigInteger.TEN.pow(d.precision).subtract(BigInteger.ONE)
    val unscaled =
      if (extreme) (if (rnd.nextBoolean()) limit else limit.negate())
      else BigInteger.valueOf(rnd.nextInt(math.min(10000, limit.min(BigInteger.valueOf(10000)).intValue)).toLong)
    Decimal(new JBigDecimal(unscaled, d.scale), d.precision, d.scale)
  }

  private def string(rnd: Random, shape: Shape, extreme: Boolean): String =
    if (shape.distinct > 0) s"value ${rnd.nextInt(shape.distinct)}"
    else if (extreme) pick(rnd, "", "\u0000", "ÿ", "日本語のテキスト", "\ud83d\ude00", "a" * 300, "Straße", "ABC", "abc")
    else Vector.fill(rnd.nextInt(12))((' ' + rnd.nextInt(90)).toChar).mkString

  def rows(schema: StructType, count: Int, rnd: Random, shape: Shape): Seq[InternalRow] =
    Vector.fill(count)(new GenericInternalRow(schema.fields.map { f =>
      value(f.dataType, rnd, if (f.nullable) shape else shape.copy(nullRate = 0))
    }): InternalRow)

  def unsafe(schema: StructType, rows: Seq[InternalRow]): Seq[UnsafeRow] = {
    val project = UnsafeProjection.create(schema)
    rows.map(project(_).copy()).toVector
  }

  def types(schema: StructType): Array[DataType] = schema.fields.map(_.dataType)

  /** An encoded batch in memory of its own. */
  final class Encoded(val meta: BatchMeta, val addresses: Array[Long], blocks: Array[Long]) extends AutoCloseable {
    def vectors(schema: StructType): Array[WarmVector] = {
      val made = types(schema).map(WarmVector.create)
      made.indices.foreach(c => made(c).bind(meta, c, addresses(c)))
      made
    }

    def bytes: Seq[Seq[Byte]] = addresses.indices.map { c =>
      (0L until meta.bytes(c)).map(i => Platform.getByte(null, addresses(c) + i))
    }

    override def close(): Unit = blocks.foreach(Platform.freeMemory)
  }

  /** Finishes the encoder's batch and writes it, checking that no byte outside the announced ones is touched. */
  def write(encoder: BatchEncoder, poison: Byte = Poison): Encoded = {
    val meta = encoder.finish()
    val blocks = Array.tabulate(meta.numColumns)(c => Platform.allocateMemory(meta.bytes(c) + 64))
    val addresses = blocks.indices.map { c =>
      val size = meta.bytes(c)
      Platform.setMemory(blocks(c), poison, size + 64)
      val address = (blocks(c) + 31) & ~7L
      encoder.writeTo(c, address)
      (blocks(c) until address).foreach(a => assert(Platform.getByte(null, a) == poison, s"column $c wrote before its start"))
      (address + size until blocks(c) + size + 64).foreach(a =>
        assert(Platform.getByte(null, a) == poison, s"column $c wrote behind its end"))
      address
    }.toArray
    new Encoded(meta, addresses, blocks)
  }

  /** Encodes rows one by one; `close` the result. */
  def encode(schema: StructType, rows: Seq[InternalRow]): Encoded = {
    val encoder = new BatchEncoder(types(schema))
    try {
      rows.foreach(encoder.append)
      write(encoder)
    } finally encoder.close()
  }

  /**
   * What a reader sees, in Spark's own row format. By default through a projection of its own, since Spark leaves bytes of
   * the row before in the place of a null interval: only the same rows through a fresh projection give the same bytes.
   */
  def read(schema: StructType, vectors: Array[_ <: ColumnVector], count: Int, projection: UnsafeProjection = null): Seq[UnsafeRow] = {
    val batch = new ColumnarBatch(vectors.map(v => v: ColumnVector), count)
    val project = if (projection == null) UnsafeProjection.create(schema) else projection
    (0 until count).map(i => project(batch.getRow(i)).copy())
  }
}
