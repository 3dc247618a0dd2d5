package io.warmset.spark

import java.math.{BigDecimal => JavaDecimal, BigInteger}

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.sql.types._

/** A column of random values: how the stored ones are made, and which type they are shown as. */
final class RandomColumn(val name: String, val dataType: DataType, random: Random) {
  /** What is stored before it is shown: dates and timestamps as numbers. */
  val stored: DataType = dataType match {
    case DateType => IntegerType
    case TimestampType => LongType
    case other => other
  }

  def shown: String = dataType match {
    case DateType => s"date_from_unix_date($name) $name"
    case TimestampType => s"timestamp_micros($name) $name"
    case _ => name
  }

  private val nulls = Seq(0.0, 0.0, 0.1, 0.6)(random.nextInt(4))
  private val shapes = Seq.fill(4)(random.nextInt(6))
  private val shifts = Seq.fill(4)(random.nextLong())
  private val nullBlocks = random.nextInt(5) == 0

  /** A value of the row in that block: each block has a shape of its own, so that encodings follow one another. */
  def value(block: Int): Any = {
    val at = block % 4
    if ((nullBlocks && at == 3) || random.nextDouble() < nulls) null
    else typed(shapes(at), shifts(at))
  }

  private def typed(shape: Int, shift: Long): Any = stored match {
    case ByteType => number(shape, shift, 7).toByte
    case ShortType => number(shape, shift, 15).toShort
    case IntegerType => number(shape, shift, if (dataType == DateType) 19 else 31).toInt
    case LongType => number(shape, shift, if (dataType == TimestampType) 51 else 63)
    case of: DecimalType => decimal(shape, shift, of)
    case DoubleType => double(shape, shift)
    case FloatType => double(shape, shift).toFloat
    case BooleanType => random.nextBoolean()
    case _ => text(shape, shift)
  }

  /** Of so many bits and a sign: of all sizes, close together, the same, or at the bounds. */
  private def number(shape: Int, shift: Long, bits: Int): Long = {
    val base = shift >> (64 - bits) >> 1
    val v = shape match {
      case 0 => base
      case 1 => base + random.nextInt(5)
      case 2 => random.nextInt(100)
      case 3 => base + random.nextInt(1 << math.min(20, bits - 1))
      case 4 => random.nextLong() >> (63 - bits)
      case _ =>
        val most = -1L >>> (64 - bits)
        Seq(most, -most, -most - 1, most - 1, 0L, 1L, -1L)(random.nextInt(7))
    }
    v << (64 - bits - 1) >> (64 - bits - 1)
  }

  private def decimal(shape: Int, shift: Long, of: DecimalType): JavaDecimal = {
    val most = BigInt(10).pow(of.precision) - 1
    val v = shape match {
      case 0 => BigInt(shift) % (most + 1)
      case 1 | 2 => BigInt(random.nextInt(10000)) % (most + 1)
      case 3 => BigInt(of.precision * 3, random) % (most + 1) * (if (random.nextBoolean()) 1 else -1)
      case 4 => BigInt(10).pow(random.nextInt(of.precision))
      case _ => Seq(most, -most, most - 1, BigInt(0), BigInt(1), BigInt(-1))(random.nextInt(6))
    }
    new JavaDecimal(new BigInteger(v.toString), of.scale)
  }

  private def double(shape: Int, shift: Long): Double = shape match {
    case 0 => shift.toDouble
    case 1 => Seq(0.5, -0.0, 0.0, Double.NaN, 1e300)(random.nextInt(5))
    case 2 => random.nextInt(100000) / 100.0
    case 3 => random.nextGaussian() * 1e6
    case 4 => java.lang.Double.longBitsToDouble(random.nextLong())
    case _ =>
      val special = Seq(Double.PositiveInfinity, Double.NegativeInfinity, -0.0, Double.NaN, Double.MinValue, Double.MinPositiveValue)
      special(random.nextInt(special.length))
  }

  private def text(shape: Int, shift: Long): String = shape match {
    case 0 => "s" + shift
    case 1 | 2 => Seq("", "a", "b", "aa", "ß", "\u0000", "a ")(random.nextInt(7))
    case 3 => "t" + random.nextInt(300)
    case _ => random.nextString(random.nextInt(4))
  }

  def isNumber: Boolean = stored.isInstanceOf[NumericType] && stored == dataType
  def isFloating: Boolean = dataType == DoubleType || dataType == FloatType
}

/** A random table, which is cached in batches of several sizes, and random aggregates over it. */
final class RandomAggregates(seed: Long) {
  private val random = new Random(seed)
  /** Rows per batch of each of the caches: few, more, many. The last batch of a partition has what is left. */
  val batchSizes: Seq[Int] = Seq(Seq(1, 2, 3, 5, 8, 9), Seq(10, 20, 33, 64, 99), Seq(300, 1000, 1024, 1025, 3000)).map(one)
  /** Rows of the partitions: all in one, or some without any, with one or with few. */
  private val partitionRows: Seq[Int] = {
    val all = one(Seq(0, 1, 50) ++ Seq.fill(9)(one(Seq(1, 2, 4)) * 1500)) + random.nextInt(50)
    if (random.nextInt(4) > 0) Seq(all) else random.shuffle(Seq(all, random.nextInt(3), random.nextInt(300)))
  }
  val partitions: Int = partitionRows.size
  /** Values are of one shape in so many rows. */
  private val blockRows = one(Seq(10, 50, 200, 1000, 1000, 3000))

  private val columns = types.zipWithIndex.map { case (of, i) => new RandomColumn(s"c$i", of, random) }

  private def types: Seq[DataType] = Seq.fill(2 + random.nextInt(4))(anyType) ++ Seq(ByteType, anyNumber, StringType)

  private def anyNumber: DataType = Seq(ByteType, ShortType, IntegerType, LongType, DoubleType, anyDecimal)(random.nextInt(6))

  private def anyDecimal: DecimalType = {
    val precision = Seq(1 + random.nextInt(38), 15, 18, 19, 38)(random.nextInt(5))
    DecimalType(precision, random.nextInt(math.min(precision, 12) + 1))
  }

  private def anyType: DataType =
    one(Seq(anyNumber, anyNumber, anyDecimal, anyDecimal, DateType, DateType, TimestampType, StringType, BooleanType, FloatType))

  /** The same rows each time, as a relation of its own. */
  def table(spark: SparkSession): DataFrame = {
    val schema = StructType(columns.map(c => StructField(c.name, c.stored, nullable = true)))
    spark.createDataFrame(spark.sparkContext.parallelize(rows, partitions).flatMap(identity), schema).selectExpr(columns.map(_.shown): _*)
  }

  private lazy val rows: Seq[Seq[Row]] = {
    val starts = partitionRows.scanLeft(0)(_ + _)
    partitionRows.zip(starts).map { case (count, start) =>
      (start until start + count).map(i => Row.fromSeq(columns.map(_.value(i / blockRows))))
    }
  }

  private def one[A](of: Seq[A]): A = of(random.nextInt(of.length))

  /** The order in which partitions are merged is not given, and sums of doubles hang on it. */
  private def isExact(column: RandomColumn): Boolean = partitions == 1 || !column.isFloating

  private def number(depth: Int): String = {
    val usable = columns.filter(c => c.isNumber && isExact(c))
    random.nextInt(if (depth == 0) 2 else 7) match {
      case 0 | 1 => one(usable).name
      case 5 => s"case when $filter then ${number(depth - 1)} else ${number(depth - 1)} end"
      case 6 => one(Seq(s"coalesce(${number(depth - 1)}, ${number(0)})", s"if($filter, ${number(depth - 1)}, null)", s"-${number(0)}"))
      case 2 => one(Seq("1", "2", "0.5", "100", "cast(3 as bigint)", "cast('-0.01' as decimal(3,2))", s"length($text)"))
      case _ => s"(${number(depth - 1)} ${one(Seq("+", "-", "*"))} ${number(depth - 1)})"
    }
  }

  private def literal(column: RandomColumn): String = Option(column.value(random.nextInt(4))).fold("null") { v =>
    column.dataType match {
      case DateType => s"date_from_unix_date($v)"
      case TimestampType => s"timestamp_micros($v)"
      case StringType => "'" + v.toString.filter(c => c.isLetterOrDigit || c == ' ') + "'"
      case of => s"cast('${v match { case d: JavaDecimal => d.toPlainString; case o => o }}' as ${of.sql})"
    }
  }

  private def filter: String = condition.sql

  private def condition: RandomCondition = random.nextInt(8) match {
    case 0 => RandomCondition(s"($simple or $simple)")
    case 1 =>
      val (one, other) = (simple, simple)
      if (random.nextBoolean()) RandomCondition(s"not ($one and $other)")
      else RandomCondition(s"not ($one or $other)", Seq(s"not ($one)", s"not ($other)"))
    case _ => RandomCondition(simple)
  }

  private def text: String = one(columns.filter(_.dataType == StringType)).name

  private def simple: String = {
    val column = one(columns)
    random.nextInt(12) match {
      case 9 => s"${column.name} is null"
      case 10 => s"$text like '${one(Seq("a%", "%a", "%a%", "%", "s1%", "t%", "a"))}'"
      case 11 => s"substring($text, 1, 2) in ('a', 'aa', 't1', '')"
      case 0 => s"${column.name} is not null"
      case 1 => s"${column.name} in (${literal(column)}, ${literal(column)}, ${literal(column)})"
      case 2 => s"${number(1)} ${one(Seq("<", "<=", ">", ">=", "="))} ${number(1)}"
      case 3 => s"${column.name} between ${literal(column)} and ${literal(column)}"
      case 4 => s"${column.name} = ${literal(column)}"
      case _ => s"${column.name} ${one(Seq("<", "<=", ">", ">="))} ${literal(column)}"
    }
  }

  private def aggregate: String = plain + (if (random.nextInt(8) == 0) s" filter (where $filter)" else "")

  private def plain: String = random.nextInt(8) match {
    case 0 => "count(*)"
    case 1 => s"count(${one(columns).name})"
    case 2 | 3 => s"sum(${number(2)})"
    case 4 if partitions == 1 => s"avg(${number(1)})"
    case 5 | 6 => s"${one(Seq("min", "max"))}(${one(columns.filter(c => isExact(c) && c.dataType != StringType)).name})"
    case 7 if random.nextInt(3) == 0 => s"${one(Seq("min", "max"))}($text)"
    case _ => s"sum(${number(0)})"
  }

  private def key(name: String): String = random.nextInt(10) match {
    case 0 => columns.find(_.dataType == DateType).fold(name)(c => s"${one(Seq("year", "quarter", "month", "day"))}(${c.name})")
    case 1 => filter
    case 2 => s"case when $filter then ${one(Seq("1", "2"))} when $filter then 3 else 4 end"
    case _ => name
  }

  def query(): RandomQuery = {
    val keyable = columns.filter(c => !c.isFloating && c.dataType != BooleanType).map(_.name)
    val keys = if (random.nextInt(3) == 0) Nil else Seq.fill(1 + random.nextInt(2))(key(one(keyable))).distinct
    val filters = Seq.fill(one(Seq(0, 0, 1, 1, 2, 3)))(condition)
    val selected = (keys ++ Seq.fill(1 + random.nextInt(4))(aggregate).distinct).mkString(", ")
    new RandomQuery(selected, filters, if (keys.isEmpty) "" else keys.mkString(" group by ", ", ", ""))
  }
}

/** @param parts what it is the conjunction of, for Spark */
final case class RandomCondition(sql: String, parts: Seq[String])

object RandomCondition {
  def apply(sql: String): RandomCondition = RandomCondition(sql, Seq(sql))
}

/** A query of a view whose name is to be filled in. */
final class RandomQuery(selected: String, filters: Seq[RandomCondition], groups: String) extends (String => String) {
  override def apply(view: String): String = where(view, filters.map(_.sql))

  /** With its conditions in every order. */
  def orders(view: String): Iterator[String] = filters.flatMap(_.parts).permutations.map(where(view, _))

  private def where(view: String, conditions: Seq[String]): String =
    s"select $selected from $view" + (if (conditions.isEmpty) "" else conditions.mkString(" where ", " and ", "")) + groups
}
