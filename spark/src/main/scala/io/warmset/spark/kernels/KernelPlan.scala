package io.warmset.spark.kernels

import java.math.{BigDecimal => JavaDecimal, BigInteger}
import java.nio.{ByteBuffer, ByteOrder}

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * A partial aggregate that native code can compute: the plan for it, and how its results become Spark's buffers.
 *
 * Invariant: buffers have the order and the values that Spark's own partial aggregate would give them.
 *
 * @param json the plan, as `warmset_kernels::Plan` reads it
 * @param keys the types of the grouping keys
 * @param buffers what each buffer holds
 */
private[spark] final case class KernelPlan(json: String, keys: Seq[DataType], buffers: Seq[KernelPlan.Buffer]) {
  import KernelPlan._

  private def aggregates: Int = buffers.map(_.slot).maxOption.fold(0)(_ + 1)

  /** The groups that native code gave out. */
  def rows(bytes: Array[Byte]): Iterator[InternalRow] = {
    val in = ByteBuffer.wrap(bytes).order(ByteOrder.LITTLE_ENDIAN)
    val counts = new Array[Long](aggregates)
    val results = Array.ofDim[Byte](aggregates, ResultBytes)
    new Iterator[InternalRow] {
      override def hasNext: Boolean = in.hasRemaining
      override def next(): InternalRow = {
        val row = new GenericInternalRow(keys.length + buffers.length)
        keys.indices.foreach(i => row.update(i, key(in, keys(i))))
        counts.indices.foreach { i =>
          counts(i) = in.getLong()
          in.get(results(i))
        }
        buffers.indices.foreach { i =>
          row.update(keys.length + i, buffers(i).value(counts(buffers(i).slot), results(buffers(i).slot)))
        }
        row
      }
    }
  }
}

private[spark] object KernelPlan {
  private val ResultBytes = 16

  /** What one buffer of Spark's holds. */
  sealed trait Buffer extends Serializable {
    /** Which of the plan's aggregates it is made of. */
    def slot: Int

    /** @param count rows that had a value */
    def value(count: Long, result: Array[Byte]): Any
  }

  /** Null where no row had a value. */
  final case class OrNull(slot: Int, dataType: DataType) extends Buffer {
    override def value(count: Long, result: Array[Byte]): Any = if (count == 0) null else typed(result, dataType)
  }

  /** Zero where no row had a value. */
  final case class OrZero(slot: Int, dataType: DataType) extends Buffer {
    override def value(count: Long, result: Array[Byte]): Any = typed(result, dataType)
  }

  final case class IsEmpty(slot: Int) extends Buffer {
    override def value(count: Long, result: Array[Byte]): Any = count == 0
  }

  final case class CountOf(slot: Int) extends Buffer {
    override def value(count: Long, result: Array[Byte]): Any = count
  }

  private def typed(result: Array[Byte], dataType: DataType): Any = dataType match {
    case of: DecimalType => Decimal(new JavaDecimal(new BigInteger(result.reverse), of.scale), of.precision, of.scale)
    case other => typed(ByteBuffer.wrap(result).order(ByteOrder.LITTLE_ENDIAN).getLong(0), other)
  }

  private def typed(value: Long, dataType: DataType): Any = dataType match {
    case ByteType => value.toByte
    case ShortType => value.toShort
    case IntegerType | DateType => value.toInt
    case DoubleType => java.lang.Double.longBitsToDouble(value)
    case of: DecimalType => Decimal(value, of.precision, of.scale)
    case _ => value
  }

  private def key(in: ByteBuffer, dataType: DataType): Any = in.get() match {
    case 0 => null
    case 1 => typed(in.getLong(), dataType)
    case _ =>
      val text = new Array[Byte](in.getInt())
      in.get(text)
      UTF8String.fromBytes(text)
  }
}
