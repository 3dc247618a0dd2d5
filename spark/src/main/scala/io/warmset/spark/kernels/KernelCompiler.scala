package io.warmset.spark.kernels

import java.math.MathContext

import scala.collection.mutable
import scala.util.control.{NoStackTrace, NonFatal}

import com.fasterxml.jackson.databind.JsonNode
import io.warmset.spark.Conjuncts
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
  import KernelPlan.keyField
  import PlanJson._

  private final class Unknown(val reason: String) extends RuntimeException(reason) with NoStackTrace

  def unknown(reason: String): Nothing = throw new Unknown(reason)

  /** @return the plan, or why there is none */
  def compile(
      keys: Seq[Expression],
      aggregates: Seq[AggregateExpression],
      conditions: Seq[Expression],
      input: Seq[Attribute],
      groups: KernelPlan.Groups): Either[String, KernelPlan] =
    try {
      val writer = new KernelCompiler(input, groups)
      keys.foreach(writer.key)
      conditions.flatMap(Conjuncts.of).foreach(writer.filter)
      val buffers = aggregates.flatMap(writer.aggregate)
      val fields = keys.map(k => keyField(writer.keyNumber(k), k.dataType)) ++ buffers.map(_.field)
      Right(KernelPlan(writer.plan(fields).toString, fields.length))
    } catch {
      case refused: Unknown => Left(refused.reason)
      // What may be left out must not make a query fail.
      case NonFatal(problem) => Left(s"a part of it cannot be planned ($problem)")
    }

  def isText(dataType: DataType): Boolean = dataType match {
    case text: StringType => text.collationId == CollationFactory.UTF8_BINARY_COLLATION_ID
    case _ => false
  }

  /** The least and the greatest value of a type that is stored as whole numbers. */
  def bounds(dataType: DataType): Option[(BigInt, BigInt)] = dataType match {
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

  /** Spark negates decimals as Scala does, whose result has no more digits. */
  private val MinusDigitsMax = MathContext.DECIMAL128.getPrecision

  private def isRoundedByMinus(dataType: DataType): Boolean = dataType match {
    case of: DecimalType => of.precision > MinusDigitsMax
    case _ => false
  }

  def boundsOf(of: (BigInt, BigInt)): JsonNode = record("least" -> of._1.toString, "greatest" -> of._2.toString)

  private def wholeBounds(dataType: DataType): JsonNode =
    boundsOf(bounds(dataType).getOrElse(unknown(s"type ${dataType.sql}")))

  def wholeValue(value: Any): BigInt = value match {
    case v: Decimal => BigInt(v.toJavaBigDecimal.unscaledValue)
    case v: Number => BigInt(v.longValue)
    case other => unknown(s"literal $other")
  }
}

private final class KernelCompiler(input: Seq[Attribute], groups: KernelPlan.Groups) {
  import KernelCompiler._
  import KernelPlan._
  import PlanJson._

  private val nodes = mutable.LinkedHashMap.empty[JsonNode, Int]
  private val filters = mutable.LinkedHashSet.empty[JsonNode]
  private val slots = mutable.LinkedHashMap.empty[JsonNode, Int]

  private val keyColumns = mutable.ArrayBuffer.empty[Int]
  private val keyNodes = mutable.ArrayBuffer.empty[Int]

  def plan(fields: Seq[JsonNode]): JsonNode = record(
    "columns" -> input.length, "nodes" -> nodes.keys, "filters" -> filters, "keys" -> keyColumns, "key_nodes" -> keyNodes,
    "group_bytes" -> groups.bytesMax, "aggregates" -> slots.keys, "output" -> fields)

  private def node(of: JsonNode): Int = nodes.getOrElseUpdate(of, nodes.size)

  private def slot(of: JsonNode): Int = slots.getOrElseUpdate(of, slots.size)

  private def column(a: Attribute): Int = {
    val at = input.indexWhere(_.exprId == a.exprId)
    if (at < 0) unknown(s"$a is no column of the scan") else at
  }

  def key(e: Expression): Unit = e match {
    case Alias(child, _) => key(child)
    case a: Attribute if isKey(a.dataType) || isText(a.dataType) => keyColumns += column(a)
    case a: Attribute => unknown(s"key ${a.name} of type ${a.dataType.sql}")
    case condition if condition.dataType == BooleanType => keyNodes += conditions(condition)
    case other if isKey(other.dataType) => keyNodes += value(other)
    case other => unknown(s"key $other is no column")
  }

  /** Columns come before nodes. */
  def keyNumber(e: Expression): Int = e match {
    case Alias(child, _) => keyNumber(child)
    case a: Attribute => keyColumns.indexOf(column(a))
    case condition if condition.dataType == BooleanType => keyColumns.length + keyNodes.indexOf(conditions(condition))
    case other => keyColumns.length + keyNodes.indexOf(value(other))
  }

  private def isKey(dataType: DataType): Boolean = dataType match {
    case of: DecimalType => of.precision <= Decimal.MAX_LONG_DIGITS
    case other => bounds(other).isDefined
  }

  /** A whole number or a double. */
  private def value(e: Expression): Int = e match {
    case Alias(child, _) => value(child)
    case a: Attribute if a.dataType == DoubleType => node(variant("double", "column" -> column(a)))
    case a: Attribute => node(variant("whole", "column" -> column(a), "bounds" -> wholeBounds(a.dataType)))
    case Literal(null, _) => unknown("a literal that is null")
    case Literal(v: Double, DoubleType) =>
      node(variant("double_literal", "bits" -> java.lang.Double.doubleToRawLongBits(v)))
    case Literal(v, of) if bounds(of).isDefined => node(variant("whole_literal", "value" -> wholeValue(v).toString))
    case UnscaledValue(child) => value(child)
    case sum: Add => arithmetic("add", sum)
    case difference: Subtract => arithmetic("subtract", difference)
    case product: Multiply => arithmetic("multiply", product)
    case cast: Cast => converted(cast)
    case UnaryMinus(child, _) if e.dataType == DoubleType => doubles("multiply", value(Literal(-1.0)), value(child))
    case _: UnaryMinus if isRoundedByMinus(e.dataType) => unknown(s"$e, which Spark rounds to $MinusDigitsMax digits")
    case UnaryMinus(child, _) => whole("subtract", value(Literal(0L)), value(child), e.dataType)
    case Length(a: Attribute) if isText(a.dataType) => node(variant("text_length", "column" -> column(a)))
    case DatePart(part, date) => node(variant("date_part", "part" -> part, "of" -> value(date)))
    case If(condition, yes, no) => choice(e, Seq(condition -> yes), Some(no))
    case CaseWhen(branches, otherwise) => choice(e, branches, otherwise)
    case Coalesce(Seq(only)) => value(only)
    case Coalesce(first +: rest) => choice(e, Seq(IsNotNull(first) -> first), Some(Coalesce(rest)))
    case other => unknown(s"expression $other")
  }

  /** The value of the first branch whose condition is true. */
  private def choice(e: Expression, branches: Seq[(Expression, Expression)], otherwise: Option[Expression]): Int = {
    def of(branch: Expression): Int =
      if (branch.dataType != e.dataType) unknown(s"$e, whose branches are of several types") else value(branch)
    if (e.dataType != DoubleType && !isWhole(e)) unknown(s"type ${e.dataType.sql}")
    val last = otherwise.filterNot { case Literal(null, _) => true; case _ => false }.map(of)
    branches.foldRight(last) { case ((when, branch), after) => Some(chosen(conditions(when), of(branch), after)) }.get
  }

  private def chosen(condition: Int, yes: Int, no: Option[Int]): Int =
    node(variant("choice", "condition" -> condition, "then" -> yes, "otherwise" -> no))

  private object DatePart {
    def unapply(e: Expression): Option[(String, Expression)] = (e match {
      case Year(date) => Some("year" -> date)
      case Quarter(date) => Some("quarter" -> date)
      case Month(date) => Some("month" -> date)
      case DayOfMonth(date) => Some("day" -> date)
      case _ => None
    }).filter(_._2.dataType == DateType)
  }

  private def isWhole(e: Expression): Boolean = bounds(e.dataType).isDefined

  private def arithmetic(operator: String, e: BinaryArithmetic): Int = e.dataType match {
    case DoubleType => doubles(operator, value(e.left), value(e.right))
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

  private def doubles(operator: String, left: Int, right: Int): Int =
    node(variant("double_arithmetic", "operator" -> operator, "left" -> left, "right" -> right))

  private def whole(operator: String, left: Int, right: Int, of: DataType): Int =
    node(variant("arithmetic", "operator" -> operator, "left" -> left, "right" -> right, "bounds" -> wholeBounds(of)))

  /** The same decimal with more digits behind the point. */
  private def scaled(of: Int, more: Int): Int =
    if (more == 0) {
      of
    } else {
      val power = node(variant("whole_literal", "value" -> BigInt(10).pow(more).toString))
      node(variant("arithmetic", "operator" -> "multiply", "left" -> of, "right" -> power, "bounds" -> WideBounds))
    }

  private val WideBounds = boundsOf((-BigInt(2).pow(127), BigInt(2).pow(127) - 1))

  /** To a type that holds every value of the type before; else as it is refused. */
  private def converted(cast: Cast): Int = (cast.child.dataType, cast.dataType) match {
    case (from, to) if from == to => value(cast.child)
    case (ByteType | ShortType | IntegerType | LongType, DoubleType) =>
      node(variant("to_double", "of" -> value(cast.child)))
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

  /** A row counts where it is true. */
  def filter(e: Expression): Unit = filters ++= (e match {
    case Literal(true, BooleanType) => None
    case IsNotNull(a: Attribute) => Some(variant("present", "node" -> presence(a)))
    case conditions.Bounded(of, range) => Some(variant("within", "node" -> value(of), "bounds" -> boundsOf(range)))
    // Nulls in the list make an answer null, never true.
    case In(of, values) => Some(isTrue(conditions(In(of, values.filter { case Literal(null, _) => false; case _ => true }))))
    case InSet(of, values) => Some(isTrue(conditions(InSet(of, values.filter(_ != null)))))
    case other => Some(isTrue(conditions(other)))
  })

  private def isTrue(condition: Int): JsonNode = variant("within", "node" -> condition, "bounds" -> boundsOf((1, 1)))

  private val conditions: ConditionCompiler = new ConditionCompiler(node, value, presence, column)

  private def presence(a: Attribute): Int =
    if (a.dataType == DoubleType || isWhole(a)) value(a) else node(variant("presence", "column" -> column(a)))

  /** What the buffers of one aggregate hold. */
  def aggregate(e: AggregateExpression): Seq[Buffer] = {
    if (e.mode != Partial) unknown(s"$e is not partial")
    if (e.isDistinct) unknown(s"$e is of distinct values")
    // What a row has that the aggregate's own filter takes out is no value.
    val counts = e.filter.map(conditions(_))
    def of(child: Expression): Int = counts.fold(value(child))(chosen(_, value(child), None))
    val buffers = e.aggregateFunction match {
      case sum: Sum => summed(sum, of(sum.child))
      case average: Average => averaged(average, of(average.child))
      case count: Count => Seq(CountOf(counted(count, counts)))
      case Min(child) if isText(child.dataType) => Seq(extremeText("least", child, counts))
      case Max(child) if isText(child.dataType) => Seq(extremeText("greatest", child, counts))
      case least: Min => Seq(OrNull(slot(variant("least", "node" -> of(least.child))), least.dataType))
      case greatest: Max => Seq(OrNull(slot(variant("greatest", "node" -> of(greatest.child))), greatest.dataType))
      case other => unknown(s"function ${other.prettyName}")
    }
    if (buffers.map(_.dataType) != e.aggregateFunction.aggBufferAttributes.map(_.dataType)) {
      unknown(s"the buffers of $e in this version of Spark")
    }
    buffers
  }

  private def extremeText(of: String, child: Expression, counts: Option[Int]): Buffer = child match {
    case a: Attribute if counts.isEmpty => TextOf(slot(variant(of, "node" -> node(variant("text", "column" -> column(a))))), a.dataType)
    case a: Attribute => unknown(s"a filter of the $of ${a.name}, which is text")
    case other => unknown(s"the $of text of $other, which is no column")
  }

  private def summed(sum: Sum, child: Int): Seq[Buffer] = sum.dataType match {
    case of: DecimalType =>
      val at = slot(variant("sum", "node" -> child, "bounds" -> wholeBounds(of)))
      Seq(OrZero(at, of), IsEmpty(at))
    case LongType =>
      // Without errors on overflow, Spark's sums wrap.
      val limit = if (sum.evalContext.evalMode == EvalMode.LEGACY) None else Some(wholeBounds(LongType))
      Seq(OrNull(slot(variant("sum", "node" -> child, "bounds" -> limit)), LongType))
    case DoubleType if sum.child.dataType == DoubleType => Seq(OrNull(doubleSum(child), DoubleType))
    case other => unknown(s"a sum of type ${other.sql}")
  }

  private def averaged(average: Average, child: Int): Seq[Buffer] = average.child.dataType match {
    case of: DecimalType =>
      val sum = average.sumDataType
      if (scaleOf(sum) != of.scale) unknown(s"$average, whose sum is rounded")
      val at = slot(variant("sum", "node" -> child, "bounds" -> wholeBounds(sum)))
      Seq(OrZero(at, sum), CountOf(at))
    case DoubleType =>
      val at = doubleSum(child)
      Seq(OrZero(at, DoubleType), CountOf(at))
    case ByteType | ShortType | IntegerType | LongType =>
      val at = doubleSum(node(variant("to_double", "of" -> child)))
      Seq(OrZero(at, DoubleType), CountOf(at))
    case other => unknown(s"an average of type ${other.sql}")
  }

  private def doubleSum(of: Int): Int = slot(variant("double_sum", "node" -> of))

  private def counted(count: Count, counts: Option[Int]): Int = {
    val of = count.children match {
      case Seq(a: Attribute) => presence(a)
      case Seq(Literal(v, _)) if v != null => value(Literal(1L))
      case Seq(other) => value(other)
      case _ => unknown(s"$count of several columns")
    }
    val node = counts.fold(of)(is => chosen(conditions.both(is, conditions.hasValue(of)), value(Literal(1L)), None))
    slot(variant("count", "node" -> node))
  }
}
