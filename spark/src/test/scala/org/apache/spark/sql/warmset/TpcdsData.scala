package org.apache.spark.sql.warmset

import org.apache.spark.sql.{SparkSession, TPCDSSchema}
import org.apache.spark.sql.types.{DataType, DateType, DecimalType, IntegerType, LongType, StructType}

/**
 * Small data for the 24 tables of TPC-DS, in the types of Spark's own test jar.
 *
 * A value is a hash of its row, its column and the seed, so that it hangs on nothing else: data of a seed is the same
 * everywhere. It is far from the distributions of the specification. Keys of facts are those of rows that there are (or null),
 * dates lie in the five years that queries ask for, and the words, prices and dates which queries filter on are frequent, so that
 * most queries find rows in a few thousand. A returned line is one that was sold.
 */
final class TpcdsData(seed: Long) extends TPCDSSchema {
  import TpcdsData._

  val names: Seq[String] = tableColumns.keys.toSeq.sorted

  /** Writes all tables as Parquet files and makes views of them. */
  def write(spark: SparkSession, folder: String): Unit = {
    require(names.size == 24)
    // Returns are made from sales.
    val (returns, others) = names.partition(_.endsWith("_returns"))
    (others ++ returns).foreach { name =>
      spark.sql(table(name)).write.parquet(s"$folder/$name")
      register(spark, folder, name)
    }
  }

  /** Makes a view of a table's files. */
  def register(spark: SparkSession, folder: String, name: String): Unit =
    spark.read.parquet(s"$folder/$name").createOrReplaceTempView(name)

  /** The query that makes a table: what is said of a column, and a default of its type for the others. */
  private def table(name: String): String = {
    val Table(rows, given, keys, nulls) = TpcdsTables(name, new Values(seed, name))
    val schema = StructType.fromDDL(tableColumns(name))
    val unknown = given.keySet -- schema.fieldNames
    require(unknown.isEmpty, s"$name has no columns ${unknown.mkString(", ")}")
    val columns = schema.map { column =>
      val values = new Values(seed, s"$name.${column.name}")
      val value = given.getOrElse(column.name, default(column.name, column.dataType, values))
      val some = if (keys(column.name)) value else values.orNull(value, nulls)
      s"cast($some as ${column.dataType.sql}) as ${column.name}"
    }
    s"select ${columns.mkString(",\n")} from ($rows)"
  }

  private def default(name: String, of: DataType, values: Values): String = of match {
    case IntegerType | LongType => s"1 + ${values.pick(50)}"
    case d: DecimalType => values.cents(0, if (d.precision == 5) 10 else 1000)
    case DateType => s"date_add(date'1997-01-01', ${values.pick(700)})"
    case _ => s"concat('$name ', ${values.pick(20)})"
  }
}

object TpcdsData {
  /**
   * @param rows a query that gives at least `id`, a number of the row, and what the columns are made from
   * @param columns how columns are made
   * @param keys columns that are never null
   * @param nulls one in how many values of the other columns is null
   */
  final case class Table(rows: String, columns: Map[String, String], keys: Set[String], nulls: Int)

  /** Expressions of SQL for values that hang on the row's `id` (or on `by`) and on a salt. */
  final class Values(seed: Long, salt: String, by: String = "id") {
    def of(more: String, other: String = by): Values = new Values(seed, s"$salt/$more", other)

    /** From 0 to below `n`. */
    def pick(n: Int): String = s"cast(pmod(xxhash64($by, '$salt', $seed), $n) as int)"

    def cents(least: Int, most: Int): String = s"cast($least + ${pick((most - least) * 100)} / 100bd as decimal(7,2))"

    def one(values: Any*): String = TpcdsData.at(pick(values.size), values: _*)

    def orNull(value: String, nulls: Int): String = if (nulls == 0) value else s"if(${of("null").pick(nulls)} = 0, null, $value)"
  }

  /** The value of that number, from 0. */
  def at(number: String, values: Any*): String = {
    val literals = values.map {
      case s: String => s"'$s'"
      case other => other.toString
    }
    s"element_at(array(${literals.mkString(", ")}), cast($number as int) + 1)"
  }
}
