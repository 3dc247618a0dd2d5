package io.warmset.spark.kernels

import scala.collection.mutable
import scala.util.control.{NoStackTrace, NonFatal}

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.util.CollationFactory
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Writes the plan of a partial aggregate for native code, from Spark's expressions over a scan's columns.
 *
 * Invariant: what is written gives Spark's values bit for bit wherever no value leaves its type, which native code sees
 * to batch by batch. What is not known here is refused, with the reason.
 */
private[spark] object KernelCompiler {
  import KernelPlan.keyJson

  private final class Unknown(val reason: String) extends RuntimeException(reason) with NoStackTrace

  private def unknown(reason: String): Nothing = throw new Unknown(reason)

  /** @return the plan, or why there is none */
  def compile(
      keys: Seq[Expression],
      aggregates: Seq[AggregateExpression],
      conditions: Seq[Expression],
      input: Seq[Attribute]): Either[String, KernelPlan] =
    try {
      val writer = new KernelCompiler(input)
      val keyColumns = keys.map(writer.key)
      conditions.flatMap(conjuncts).foreach(writer.filter)
      val buffers = aggregates.flatMap(writer.aggregate)
      val fields = keys.indices.map(i => keyJson(i, keys(i).dataType)) ++ buffers.map(_.json)
      Right(KernelPlan(writer.json(keyColumns, fields), fields.length))
    } catch {
      case refused: Unknown => Left(refused.reason)
      // What may be left out must not make a query fail.
      case NonFatal(problem) => Left(s"a part of it cannot be planned ($problem)")
    }

  private def conjuncts(predicate: Expression): Seq[Expression] = predicate match {
    case And(left, right) => conjuncts(left) ++ conjuncts(right)
    case other => Seq(other)
  }

  private def isText(dataType: DataType): Boolean = dataType match {
    case text: StringType => text.collationId == CollationFactory.UTF8_BINARY_COLLATION_ID
    case _ => false
  }

  /** The least and the greatest value of a type that is stored as whole numbers. */
  private def bounds(dataType: DataType): Option[(BigInt, BigInt)] = dataType match {
    case ByteType => Some((Byte.MinValue.toInt, Byte.MaxValue.toInt))
    case ShortType => Some((Short.MinValue.toInt, Short.MaxValue.toInt))
    case IntegerType | DateType => Some((Int.MinValue, Int.MaxValue))
    case LongType | TimestampType | TimestampNTZType => Some((Long.MinValue, Long.MaxValue))
    case of: DecimalType =>
      val most = BigInt(10).pow(of.precision) - 1
      Some((-most, most))
    case _ => None
  }

  /** Digits before the point that a whole number may have. */
  private def digits(dataType: DataType): Int = dataType match {
    case ByteType => 3
    case ShortType => 5
    case IntegerType => 10
    case _ => 19
  }

  private def scaleOf(dataType: DataType): Int = dataType match {
    case of: DecimalType => of.scale
    case _ => 0
  }

  private def boundsJson(of: (BigInt, BigInt)): String = s"""{"least":"${of._1}","greatest":"${of._2}"}"""

  private def wholeBounds(dataType: DataType): String =
    boundsJson(bounds(dataType).getOrElse(unknown(s"type ${dataType.sql}")))

  private def wholeValue(value: Any): BigInt = value match {
    case v: Decimal => BigInt(v.toJavaBigDecimal.unscaledValue)
    case v: Number => BigInt(v.longValue)
    case other => unknown(s"literal $other")
  }
}

private final class KernelCompiler(input: Seq[Attribute]) {
  import KernelCompiler._
  import KernelPlan._

  private val nodes = mutable.LinkedHashMap.empty[String, Int]
  private val filters = mutable.LinkedHashSet.empty[String]
  private val slots = mutable.LinkedHashMap.empty[String, Int]

  def json(keys: Seq[Int], fields: Seq[String]): String =
    s"""{"columns":${input.length},"nodes":${list(nodes.keys)},"filters":${list(filters)},"keys":${list(keys)},""" +
      s""""aggregates":${list(slots.keys)},"output":${list(fields)}}"""

  private def list(parts: Iterable[Any]): String = parts.mkString("[", ",", "]")

  private def node(json: String): Int = nodes.getOrElseUpdate(json, nodes.size)

  private def slot(json: String): Int = slots.getOrElseUpdate(json, slots.size)

  private def column(a: Attribute): Int = {
    val at = input.indexWhere(_.exprId == a.exprId)
    if (at < 0) unknown(s"$a is no column of the scan") else at
  }

  def key(e: Expression): Int = e match {
    case Alias(child, _) => key(child)
    case a: Attribute => a.dataType match {
      case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType => column(a)
      case of: DecimalType if of.precision <= Decimal.MAX_LONG_DIGITS => column(a)
      case text if isText(text) => column(a)
      case other => unknown(s"key ${a.name} of type ${other.sql}")
    }
    case other => unknown(s"key $other is no column")
  }

  /** A whole number or a double. */
  private def value(e: Expression): Int = e match {
    case Alias(child, _) => value(child)
    case a: Attribute if a.dataType == DoubleType => node(s"""{"double":{"column":${column(a)}}}""")
    case a: Attribute => node(s"""{"whole":{"column":${column(a)},"bounds":${wholeBounds(a.dataType)}}}""")
    case Literal(null, _) => unknown("a literal that is null")
    case Literal(v: Double, DoubleType) =>
      node(s"""{"double_literal":{"bits":${java.lang.Double.doubleToRawLongBits(v)}}}""")
    case Literal(v, of) if bounds(of).isDefined => node(s"""{"whole_literal":{"value":"${wholeValue(v)}"}}""")
    case UnscaledValue(child) => value(child)
    case sum: Add => arithmetic("add", sum)
    case difference: Subtract => arithmetic("subtract", difference)
    case product: Multiply => arithmetic("multiply", product)
    case cast: Cast => converted(cast)
    case other => unknown(s"expression $other")
  }

  private def isWhole(e: Expression): Boolean = bounds(e.dataType).isDefined

  private def arithmetic(operator: String, e: BinaryArithmetic): Int = e.dataType match {
    case DoubleType =>
      node(s"""{"double_arithmetic":{"operator":"$operator","left":${value(e.left)},"right":${value(e.right)}}}""")
    case ByteType | ShortType | IntegerType | LongType => whole(operator, value(e.left), value(e.right), e.dataType)
    case of: DecimalType =>
      val (left, right) = (scaleOf(e.left.dataType), scaleOf(e.right.dataType))
      if (of.scale != (if (operator == "multiply") left + right else math.max(left, right))) {
        unknown(s"$e, whose result is rounded to ${of.sql}")
      }
      if (operator == "multiply") whole(operator, value(e.left), value(e.right), of)
      else whole(operator, scaled(value(e.left), of.scale - left), scaled(value(e.right), of.scale - right), of)
    case other => unknown(s"arithmetic of ${other.sql}")
  }

  private def whole(operator: String, left: Int, right: Int, of: DataType): Int =
    node(s"""{"arithmetic":{"operator":"$operator","left":$left,"right":$right,"bounds":${wholeBounds(of)}}}""")

  /** The same decimal with more digits behind the point. */
  private def scaled(of: Int, more: Int): Int =
    if (more == 0) {
      of
    } else {
      val power = node(s"""{"whole_literal":{"value":"${BigInt(10).pow(more)}"}}""")
      node(s"""{"arithmetic":{"operator":"multiply","left":$of,"right":$power,"bounds":$WideBounds}}""")
    }

  private val WideBounds = boundsJson((-BigInt(2).pow(127), BigInt(2).pow(127) - 1))

  /** To a type that holds every value of the type before; else as it is refused. */
  private def converted(cast: Cast): Int = (cast.child.dataType, cast.dataType) match {
    case (from, to) if from == to => value(cast.child)
    case (ByteType | ShortType | IntegerType | LongType, DoubleType) =>
      node(s"""{"to_double":{"of":${value(cast.child)}}}""")
    case (ByteType | ShortType | IntegerType, ShortType | IntegerType | LongType) if Cast.canUpCast(cast.child.dataType, cast.dataType) =>
      value(cast.child)
    case (from @ (ByteType | ShortType | IntegerType | LongType), to: DecimalType)
        if to.scale >= 0 && to.precision - to.scale >= digits(from) =>
      scaled(value(cast.child), to.scale)
    case (from: DecimalType, to: DecimalType)
        if to.scale >= from.scale && to.precision - to.scale >= from.precision - from.scale =>
      scaled(value(cast.child), to.scale - from.scale)
    case (from, to) => unknown(s"a cast from ${from.sql} to ${to.sql}")
  }

  def filter(e: Expression): Unit = filters ++= (e match {
    case Literal(true, BooleanType) => None
    case IsNotNull(a: Attribute) => Some(s"""{"present":{"node":${presence(a)}}}""")
    case EqualTo(a: Attribute, Literal(v: UTF8String, _)) if isText(a.dataType) => Some(textAnyOf(a, Seq(v)))
    case EqualTo(Literal(v: UTF8String, _), a: Attribute) if isText(a.dataType) => Some(textAnyOf(a, Seq(v)))
    case In(of, values) if values.forall(_.isInstanceOf[Literal]) =>
      Some(anyOf(of, values.map(_.asInstanceOf[Literal].value)))
    case InSet(of, values) => Some(anyOf(of, values.toSeq))
    case compared: BinaryComparison => comparison(compared)
    case other => unknown(s"filter $other")
  })

  private def presence(a: Attribute): Int =
    if (a.dataType == DoubleType || isWhole(a)) value(a) else node(s"""{"presence":{"column":${column(a)}}}""")

  private def textAnyOf(a: Attribute, values: Seq[UTF8String]): String =
    s"""{"text_any_of":{"column":${column(a)},"values":${list(values.map(v => list(v.getBytes.map(_ & 0xFF))))}}}"""

  /** Nulls in the list make a row's answer null, never true. */
  private def anyOf(of: Expression, values: Seq[Any]): String = (of, values.filter(_ != null)) match {
    case (a: Attribute, some) if isText(a.dataType) => textAnyOf(a, some.map(_.asInstanceOf[UTF8String]))
    case (whole, some) if isWhole(whole) =>
      s"""{"any_of":{"node":${value(whole)},"values":${list(some.map(v => s""""${wholeValue(v)}""""))}}}"""
    case _ => unknown(s"filter $of in a list")
  }

  private def comparison(e: BinaryComparison): Option[String] = {
    val name = e match {
      case _: EqualTo => "equal"
      case _: LessThan => "less"
      case _: LessThanOrEqual => "less_or_equal"
      case _: GreaterThan => "greater"
      case _: GreaterThanOrEqual => "greater_or_equal"
      case other => unknown(s"filter $other")
    }
    (e.left, e.right) match {
      case (left, right) if left.dataType != right.dataType => unknown(s"filter $e")
      case (left, Literal(v, of)) if v != null && bounds(of).isDefined => Some(within(left, name, wholeValue(v)))
      case (Literal(v, of), right) if v != null && bounds(of).isDefined => Some(within(right, mirrored(name), wholeValue(v)))
      case (left, right) if left.dataType == DoubleType || isWhole(left) =>
        Some(s"""{"compare":{"comparison":"$name","left":${value(left)},"right":${value(right)}}}""")
      case _ => unknown(s"filter $e")
    }
  }

  private def mirrored(name: String): String =
    if (name.startsWith("less")) name.replace("less", "greater") else name.replace("greater", "less")

  private def within(of: Expression, name: String, v: BigInt): String = {
    val (least, greatest) = bounds(of.dataType).getOrElse(unknown(s"filter on $of"))
    val range = name match {
      case "equal" => (v, v)
      case "less" => (least, v - 1)
      case "less_or_equal" => (least, v)
      case "greater" => (v + 1, greatest)
      case _ => (v, greatest)
    }
    s"""{"within":{"node":${value(of)},"bounds":${boundsJson(range)}}}"""
  }

  /** What the buffers of one aggregate hold. */
  def aggregate(e: AggregateExpression): Seq[Buffer] = {
    if (e.mode != Partial) unknown(s"$e is not partial")
    if (e.isDistinct) unknown(s"$e is of distinct values")
    if (e.filter.isDefined) unknown(s"$e has a filter of its own")
    val buffers = e.aggregateFunction match {
      case sum: Sum => summed(sum)
      case average: Average => averaged(average)
      case count: Count => Seq(CountOf(counted(count)))
      case least: Min => Seq(OrNull(slot(s"""{"least":{"node":${value(least.child)}}}"""), least.dataType))
      case greatest: Max => Seq(OrNull(slot(s"""{"greatest":{"node":${value(greatest.child)}}}"""), greatest.dataType))
      case other => unknown(s"function ${other.prettyName}")
    }
    if (buffers.map(_.dataType) != e.aggregateFunction.aggBufferAttributes.map(_.dataType)) {
      unknown(s"the buffers of $e in this version of Spark")
    }
    buffers
  }

  private def summed(sum: Sum): Seq[Buffer] = sum.dataType match {
    case of: DecimalType =>
      val at = slot(s"""{"sum":{"node":${value(sum.child)},"bounds":${wholeBounds(of)}}}""")
      Seq(OrZero(at, of), IsEmpty(at))
    case LongType =>
      // Without errors on overflow, Spark's sums wrap.
      val limit = if (sum.evalContext.evalMode == EvalMode.LEGACY) "null" else wholeBounds(LongType)
      Seq(OrNull(slot(s"""{"sum":{"node":${value(sum.child)},"bounds":$limit}}"""), LongType))
    case DoubleType if sum.child.dataType == DoubleType => Seq(OrNull(doubleSum(value(sum.child)), DoubleType))
    case other => unknown(s"a sum of type ${other.sql}")
  }

  private def averaged(average: Average): Seq[Buffer] = average.child.dataType match {
    case of: DecimalType =>
      val sum = average.sumDataType
      if (scaleOf(sum) != of.scale) unknown(s"$average, whose sum is rounded")
      val at = slot(s"""{"sum":{"node":${value(average.child)},"bounds":${wholeBounds(sum)}}}""")
      Seq(OrZero(at, sum), CountOf(at))
    case DoubleType =>
      val at = doubleSum(value(average.child))
      Seq(OrZero(at, DoubleType), CountOf(at))
    case ByteType | ShortType | IntegerType | LongType =>
      val at = doubleSum(node(s"""{"to_double":{"of":${value(average.child)}}}"""))
      Seq(OrZero(at, DoubleType), CountOf(at))
    case other => unknown(s"an average of type ${other.sql}")
  }

  private def doubleSum(of: Int): Int = slot(s"""{"double_sum":{"node":$of}}""")

  private def counted(count: Count): Int = {
    val node = count.children match {
      case Seq(a: Attribute) => presence(a)
      case Seq(Literal(v, _)) if v != null => value(Literal(1L))
      case Seq(other) => value(other)
      case _ => unknown(s"$count of several columns")
    }
    slot(s"""{"count":{"node":$node}}""")
  }
}
