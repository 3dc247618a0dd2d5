package io.warmset.columns

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.types._

import ColumnTesting._

/** What goes in comes out, for every type, whatever the nulls and the shape of the values. */
class RoundTripSuite extends AnyFunSuite {
  private val flat: Seq[DataType] = Seq(BooleanType, ByteType, ShortType, IntegerType, LongType, FloatType, DoubleType,
    DateType, TimestampType, TimestampNTZType, TimeType(), DecimalType(5, 2), DecimalType(9, 0), DecimalType(18, 4),
    DecimalType(19, 2), DecimalType(38, 10), StringType, StringType("UTF8_LCASE"), StringType("UNICODE"), BinaryType,
    CalendarIntervalType, YearMonthIntervalType(), DayTimeIntervalType(), NullType, VariantType)

  private val nested: Seq[DataType] = Seq(
    ArrayType(IntegerType), ArrayType(StringType), ArrayType(DoubleType, containsNull = false),
    ArrayType(ArrayType(LongType)), MapType(StringType, IntegerType), MapType(IntegerType, ArrayType(StringType)),
    new StructType().add("a", IntegerType).add("b", StringType),
    new StructType().add("x", ArrayType(new StructType().add("y", DecimalType(30, 3)).add("z", CalendarIntervalType)))
      .add("m", MapType(StringType, new StructType().add("v", VariantType).add("n", NullType))))

  private def check(schema: StructType, count: Int, shape: Shape, seed: Long): Unit = {
    val rnd = new Random(seed)
    val expected = unsafe(schema, rows(schema, count, rnd, shape))
    val encoded = encode(schema, expected)
    try {
      encoded.meta.validate(types(schema))
      types(schema).zipWithIndex.foreach { case (t, c) =>
        encoded.meta.validateColumn(c, t, encoded.addresses(c), encoded.meta.bytes(c))
      }
      val vectors = encoded.vectors(schema)
      val actual = read(schema, vectors, count)
      actual.indices.foreach(i => assert(actual(i) == expected(i), s"row $i of ${schema.simpleString}, seed $seed"))
      vectors.zipWithIndex.foreach { case (v, c) =>
        assert(v.numNulls == expected.count(_.isNullAt(c)))
        assert(v.hasNull == (v.numNulls > 0))
      }
    } finally encoded.close()
  }

  for (dataType <- flat ++ nested) {
    test(s"round trip of ${dataType.simpleString}") {
      assert(ColumnTypes.supports(dataType))
      val schema = new StructType().add("c", dataType)
      for {
        (count, n) <- Seq(0, 1, 7, 8, 64, 1000).zipWithIndex
        nullRate <- Seq(0.0, 0.2, 1.0)
        extremes <- Seq(true, false)
      } check(schema, count, Shape(nullRate, extremes), 31L * n + (nullRate * 10).toLong)
    }
  }

  test("random schemas, nested four deep, with random data") {
    for (seed <- 0L until 40L) {
      val rnd = new Random(seed)
      def anyType(depth: Int): DataType = rnd.nextInt(if (depth == 0) 4 else 7) match {
        case 4 => ArrayType(anyType(depth - 1), rnd.nextBoolean())
        case 5 => MapType(flat(rnd.nextInt(7)), anyType(depth - 1), rnd.nextBoolean())
        case 6 => StructType(Seq.tabulate(1 + rnd.nextInt(3))(i => StructField(s"f$i", anyType(depth - 1), rnd.nextBoolean())))
        case _ => flat(rnd.nextInt(flat.length))
      }
      val schema = StructType(Seq.tabulate(1 + rnd.nextInt(6))(i => StructField(s"c$i", anyType(4), rnd.nextBoolean())))
      check(schema, rnd.nextInt(200), Shape(rnd.nextDouble() / 2, rnd.nextBoolean(), rnd.nextInt(3) * 4, 1L << rnd.nextInt(50)), seed)
    }
  }

  test("many columns at once, batch after batch with one encoder and the same vectors") {
    val schema = StructType((flat ++ nested).zipWithIndex.map { case (t, i) => StructField(s"c$i", t) })
    val encoder = new BatchEncoder(types(schema))
    val vectors = types(schema).map(WarmVector.create)
    try {
      val rnd = new Random(7)
      for (count <- Seq(300, 0, 1, 1000, 3)) {
        val expected = unsafe(schema, rows(schema, count, rnd, Shape(distinct = 5)))
        expected.foreach(encoder.append)
        val encoded = write(encoder)
        vectors.indices.foreach(c => vectors(c).bind(encoded.meta, c, encoded.addresses(c)))
        assert(read(schema, vectors, count) == expected)
        encoded.close()
        encoder.reset()
      }
    } finally encoder.close()
  }
}
