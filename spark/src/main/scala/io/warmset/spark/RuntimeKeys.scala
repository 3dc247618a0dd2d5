package io.warmset.spark

import java.nio.ByteBuffer

import io.warmset.columns.KeySet
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{ImperativeAggregate, TypedImperativeAggregate}
import org.apache.spark.sql.catalyst.expressions.codegen.{CodegenContext, ExprCode, FalseLiteral}
import org.apache.spark.sql.catalyst.expressions.codegen.Block._
import org.apache.spark.sql.catalyst.trees.UnaryLike
import org.apache.spark.sql.types.{BinaryType, BooleanType, DataType}

/**
 * All values of a column of whole numbers, as a bit for each of the `64 * words` numbers from `least` on, and a word that is not
 * zero if there were others.
 */
final case class CollectKeys(
    child: Expression,
    least: Long,
    words: Int,
    override val mutableAggBufferOffset: Int = 0,
    override val inputAggBufferOffset: Int = 0)
  extends TypedImperativeAggregate[Array[Long]] with UnaryLike[Expression] {

  override def nullable: Boolean = false
  override def dataType: DataType = BinaryType
  override def prettyName: String = "collect_keys"
  override def createAggregationBuffer(): Array[Long] = new Array[Long](words + 1)

  override def update(buffer: Array[Long], row: InternalRow): Array[Long] = {
    val key = child.eval(row)
    if (key != null) {
      val at = key.asInstanceOf[Number].longValue - least
      if (java.lang.Long.compareUnsigned(at, 64L * words) < 0) buffer((at >>> 6).toInt) |= 1L << at else buffer(words) = 1
    }
    buffer
  }

  override def merge(buffer: Array[Long], other: Array[Long]): Array[Long] = {
    for (i <- buffer.indices) buffer(i) |= other(i)
    buffer
  }

  override def eval(buffer: Array[Long]): Any = serialize(buffer)

  override def serialize(buffer: Array[Long]): Array[Byte] = {
    val bytes = ByteBuffer.allocate(8 * buffer.length)
    bytes.asLongBuffer.put(buffer)
    bytes.array
  }

  override def deserialize(bytes: Array[Byte]): Array[Long] = CollectKeys.words(bytes)

  override def withNewMutableAggBufferOffset(offset: Int): ImperativeAggregate = copy(mutableAggBufferOffset = offset)
  override def withNewInputAggBufferOffset(offset: Int): ImperativeAggregate = copy(inputAggBufferOffset = offset)
  override protected def withNewChildInternal(newChild: Expression): CollectKeys = copy(child = newChild)
}

object CollectKeys {
  private def words(bytes: Array[Byte]): Array[Long] = {
    val found = new Array[Long](bytes.length / 8)
    ByteBuffer.wrap(bytes).asLongBuffer.get(found)
    found
  }

  /** What was collected; none where numbers were met that no bit is for. */
  private[spark] def keySet(bytes: Array[Byte], least: Long): Option[KeySet] = {
    val found = words(bytes)
    Option.when(found.last == 0)(KeySet.ofBits(least, found.init))
  }
}

/**
 * Whether a whole number is among the keys that `CollectKeys` found in a subquery; true of all numbers where it met a key that it
 * has no bit for. Null if the number is.
 */
final case class InKeySet(collected: Expression, key: Expression, least: Long) extends BinaryExpression with Predicate {
  /** On the driver it is there when the subquery has been run. */
  @transient lazy val keys: Option[KeySet] = CollectKeys.keySet(collected.eval().asInstanceOf[Array[Byte]], least)

  override def left: Expression = collected
  override def right: Expression = key
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = key.nullable
  override def prettyName: String = "in_key_set"

  override def eval(row: InternalRow): Any = {
    val value = key.eval(row)
    if (value == null) null else keys.forall(_.mayContain(value.asInstanceOf[Number].longValue))
  }

  override protected def doGenCode(ctx: CodegenContext, ev: ExprCode): ExprCode = {
    val value = key.genCode(ctx)
    val found = keys.fold("true") { set =>
      s"${ctx.addReferenceObj("keys", set, classOf[KeySet].getName)}.mayContain(${value.value})"
    }
    ev.copy(
      code = code"""
        ${value.code}
        boolean ${ev.value} = !${value.isNull} && $found;""",
      isNull = if (key.nullable) value.isNull else FalseLiteral)
  }

  override protected def withNewChildrenInternal(newLeft: Expression, newRight: Expression): InKeySet =
    copy(collected = newLeft, key = newRight)
}
