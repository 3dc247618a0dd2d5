package io.warmset.spark.kernels

import com.fasterxml.jackson.databind.JsonNode
import com.fasterxml.jackson.databind.node.JsonNodeFactory

import org.apache.spark.sql.catalyst.expressions.UnsafeRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.Platform

/**
 * A partial aggregate that native code can compute.
 *
 * Invariant: keys and buffers have the order and the values that Spark's own partial aggregate would give them.
 *
 * @param json the plan, as `warmset_kernels::Plan` reads it
 * @param fields keys and buffers
 */
private[spark] final case class KernelPlan(json: String, fields: Int) {
  /** The groups that native code gave out; the row is used again for the next. */
  def rows(bytes: Array[Byte]): Iterator[UnsafeRow] = new Iterator[UnsafeRow] {
    private val row = new UnsafeRow(fields)
    private var at = 0

    override def hasNext: Boolean = at < bytes.length

    override def next(): UnsafeRow = {
      val length = Platform.getLong(bytes, Platform.BYTE_ARRAY_OFFSET + at).toInt
      row.pointTo(bytes, Platform.BYTE_ARRAY_OFFSET + at + KernelPlan.LengthBytes, length)
      at += KernelPlan.LengthBytes + length
      row
    }
  }
}

private[spark] object KernelPlan {
  import PlanJson.variant

  private val LengthBytes = 8

  /** How long native code keeps groups: until they take so much memory. */
  sealed abstract class Groups(val bytesMax: Int)

  /** As long as there is room for them. */
  case object Kept extends Groups(32 << 20)

  /** For some batches, as many as a processor's second cache has room for: later ones have few of the same. */
  case object Clustered extends Groups(1 << 20)

  /** What one buffer of Spark's holds, of one of the plan's aggregates. */
  sealed trait Buffer {
    def dataType: DataType

    /** As `warmset_kernels::Field` reads it. */
    def field: JsonNode
  }

  /** Null where no row had a value. */
  final case class OrNull(slot: Int, dataType: DataType) extends Buffer {
    override def field: JsonNode = result(slot, dataType, orNull = true)
  }

  /** Null where no row had a value. */
  final case class TextOf(slot: Int, dataType: DataType) extends Buffer {
    override def field: JsonNode = variant("text", "aggregate" -> slot)
  }

  /** Zero where no row had a value. */
  final case class OrZero(slot: Int, dataType: DataType) extends Buffer {
    override def field: JsonNode = result(slot, dataType, orNull = false)
  }

  final case class IsEmpty(slot: Int) extends Buffer {
    override def dataType: DataType = BooleanType
    override def field: JsonNode = variant("is_empty", "aggregate" -> slot)
  }

  final case class CountOf(slot: Int) extends Buffer {
    override def dataType: DataType = LongType
    override def field: JsonNode = variant("count", "aggregate" -> slot)
  }

  /** A field for the key of that number. */
  def keyField(key: Int, dataType: DataType): JsonNode = variant("key", "key" -> key, "bytes" -> bytes(dataType))

  private def result(slot: Int, dataType: DataType, orNull: Boolean): JsonNode =
    variant("result", "aggregate" -> slot, "bytes" -> bytes(dataType), "or_null" -> orNull)

  /** What a value takes of an UnsafeRow; of text it is not looked at. */
  private def bytes(dataType: DataType): Int = dataType match {
    case ByteType | BooleanType => 1
    case ShortType => 2
    case IntegerType | DateType => 4
    case of: DecimalType if of.precision > Decimal.MAX_LONG_DIGITS => 16
    case _ => 8
  }
}

/** JSON as `warmset_kernels` reads it. */
private object PlanJson {
  private val make = JsonNodeFactory.instance

  /** One variant of an enum. */
  def variant(name: String, fields: (String, Any)*): JsonNode = record(name -> record(fields: _*))

  def record(fields: (String, Any)*): JsonNode = fields.foldLeft(make.objectNode()) { case (to, (name, value)) =>
    to.set(name, json(value))
    to
  }

  private def json(value: Any): JsonNode = value match {
    case made: JsonNode => made
    case text: String => make.textNode(text)
    case number: Int => make.numberNode(number)
    case number: Long => make.numberNode(number)
    case yes: Boolean => make.booleanNode(yes)
    case maybe: Option[_] => maybe.fold[JsonNode](make.nullNode())(json)
    case many: Iterable[_] => many.foldLeft(make.arrayNode())((to, each) => to.add(json(each)))
  }
}
