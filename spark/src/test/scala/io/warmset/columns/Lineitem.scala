package io.warmset.columns

import scala.util.Random

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{GenericInternalRow, UnsafeProjection, UnsafeRow}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/** Rows with the types and distributions of TPC-H lineitem at scale factor 1, from a seed. */
object Lineitem {
  private val money = DecimalType(15, 2)

  val schema: StructType = new StructType()
    .add("l_orderkey", LongType).add("l_partkey", LongType).add("l_suppkey", LongType).add("l_linenumber", IntegerType)
    .add("l_quantity", money).add("l_extendedprice", money).add("l_discount", money).add("l_tax", money)
    .add("l_returnflag", StringType).add("l_linestatus", StringType)
    .add("l_shipdate", DateType).add("l_commitdate", DateType).add("l_receiptdate", DateType)
    .add("l_shipinstruct", StringType).add("l_shipmode", StringType).add("l_comment", StringType)

  private val instructions = strings("DELIVER IN PERSON", "COLLECT COD", "NONE", "TAKE BACK RETURN")
  private val modes = strings("REG AIR", "AIR", "RAIL", "SHIP", "TRUCK", "MAIL", "FOB")
  private val flags = strings("R", "A", "N")
  private val statuses = strings("O", "F")
  private val words = ("furiously slyly carefully blithely quickly fluffily final ironic regular special express pending " +
    "deposits requests accounts packages theodolites foxes ideas pinto beans instructions platelets sleep wake haggle " +
    "among above across after the about").split(' ')

  private def strings(values: String*): Array[UTF8String] = values.map(UTF8String.fromString).toArray

  def rows(count: Int, seed: Long): Array[UnsafeRow] = {
    val rnd = new Random(seed)
    val project = UnsafeProjection.create(schema)
    var order = 1L + rnd.nextInt(1000000)
    var line = 0
    var lines = 1 + rnd.nextInt(7)
    Array.fill(count) {
      line += 1
      if (line > lines) {
        line = 1
        lines = 1 + rnd.nextInt(7)
        order += (if ((order & 7) == 7) 25 else 1)
      }
      project(row(rnd, order, line)).copy()
    }
  }

  private def row(rnd: Random, order: Long, line: Int): InternalRow = {
    val quantity = 1 + rnd.nextInt(50)
    val ship = 8036 + rnd.nextInt(2526)
    val comment = new StringBuilder
    val length = 10 + rnd.nextInt(34)
    while (comment.length < length) comment.append(words(rnd.nextInt(words.length))).append(' ')
    new GenericInternalRow(Array[Any](order, 1L + rnd.nextInt(200000), 1L + rnd.nextInt(10000), line,
      decimal(quantity * 100L), decimal(quantity * (90000L + rnd.nextInt(20000))), decimal(rnd.nextInt(11).toLong),
      decimal(rnd.nextInt(9).toLong), flags(rnd.nextInt(3)), statuses(rnd.nextInt(2)), ship, ship - 60 + rnd.nextInt(120),
      ship + 1 + rnd.nextInt(30), instructions(rnd.nextInt(4)), modes(rnd.nextInt(7)),
      UTF8String.fromString(comment.substring(0, length))))
  }

  private def decimal(unscaled: Long): Decimal = Decimal.createUnsafe(unscaled, money.precision, money.scale)
}
