package io.warmset.spark.kernels

import com.fasterxml.jackson.databind.JsonNode

import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Writes Spark's predicates as conditions of a plan for native code, null where SQL says so.
 *
 * @param node the number of a node, which is added if it is new
 * @param value the node of a whole number or a double
 * @param presence the node of a column of which only nulls are looked at
 * @param column the number of a column
 */
private final class ConditionCompiler(
    node: JsonNode => Int,
    value: Expression => Int,
    presence: Attribute => Int,
    column: Attribute => Int) {
  import ConditionCompiler._
  import KernelCompiler._
  import PlanJson._

  /** The node of a predicate. */
  def apply(e: Expression): Int = e match {
    case And(left, right) => both(apply(left), apply(right))
    case Or(left, right) => node(variant("or", "left" -> apply(left), "right" -> apply(right)))
    case Not(child) => not(apply(child))
    case IsNotNull(a: Attribute) => hasValue(presence(a))
    case IsNotNull(child) => hasValue(value(child))
    case IsNull(child) => not(apply(IsNotNull(child)))
    case TextPattern(a, patterns) => node(variant("text_matches", "column" -> column(a), "patterns" -> patterns))
    case In(of, values) if values.forall { case Literal(v, _) => v != null; case _ => false } =>
      anyOf(of, values.map(_.asInstanceOf[Literal].value))
    case InSet(of, values) if !values.contains(null) => anyOf(of, values.toSeq)
    case Bounded(of, range) => node(variant("within", "of" -> value(of), "bounds" -> boundsOf(range)))
    case compared: BinaryComparison => comparison(compared)
    case other => unknown(s"filter $other")
  }

  def both(left: Int, right: Int): Int = node(variant("and", "left" -> left, "right" -> right))

  def hasValue(of: Int): Int = node(variant("has_value", "of" -> of))

  private def not(of: Int): Int = node(variant("not", "of" -> of))

  private def anyOf(of: Expression, values: Seq[Any]): Int =
    if (bounds(of.dataType).isEmpty) unknown(s"filter $of in a list")
    else node(variant("any_of", "of" -> value(of), "values" -> values.map(wholeValue(_).toString)))

  private def comparison(e: BinaryComparison): Int = {
    val compared = e.left.dataType
    if (compared != e.right.dataType || (compared != DoubleType && bounds(compared).isEmpty)) unknown(s"filter $e")
    val name = nameOf(e).getOrElse(unknown(s"filter $e"))
    node(variant("compare", "comparison" -> name, "left" -> value(e.left), "right" -> value(e.right)))
  }

  /** A whole number compared with a literal: between which numbers it is. */
  object Bounded {
    def unapply(e: BinaryComparison): Option[(Expression, (BigInt, BigInt))] = (e.left, e.right) match {
      case (left, right) if left.dataType != right.dataType => None
      case (left, Literal(v, of)) if v != null => nameOf(e).flatMap(name => bounds(of).map(left -> range(name, wholeValue(v), _)))
      case (Literal(v, of), right) if v != null =>
        nameOf(e).flatMap(name => bounds(of).map(right -> range(mirrored(name), wholeValue(v), _)))
      case _ => None
    }
  }
}

private object ConditionCompiler {
  import KernelCompiler.isText
  import PlanJson.record

  private def nameOf(e: BinaryComparison): Option[String] = e match {
    case _: EqualTo => Some("equal")
    case _: LessThan => Some("less")
    case _: LessThanOrEqual => Some("less_or_equal")
    case _: GreaterThan => Some("greater")
    case _: GreaterThanOrEqual => Some("greater_or_equal")
    case _ => None
  }

  private def mirrored(name: String): String =
    if (name.startsWith("less")) name.replace("less", "greater") else name.replace("greater", "less")

  private def range(name: String, v: BigInt, bounds: (BigInt, BigInt)): (BigInt, BigInt) = name match {
    case "equal" => (v, v)
    case "less" => (bounds._1, v - 1)
    case "less_or_equal" => (bounds._1, v)
    case "greater" => (v + 1, bounds._2)
    case _ => (v, bounds._2)
  }

  /** A column of text in binary collation, and what it is to be like one of. */
  private object TextPattern {
    def unapply(e: Expression): Option[(Attribute, Seq[JsonNode])] = e match {
      case EqualTo(of, Text(v)) => whole(of, Seq(v))
      case EqualTo(Text(v), of) => whole(of, Seq(v))
      case In(of, values) if values.nonEmpty && values.forall(Text.is) => whole(of, values.collect { case Text(v) => v })
      case InSet(of, values) if values.nonEmpty && values.forall(_.isInstanceOf[UTF8String]) =>
        whole(of, values.toSeq.map(_.asInstanceOf[UTF8String]))
      case StartsWith(Column(a), Text(v)) => Some(a -> Seq(pattern("begins", v)))
      case EndsWith(Column(a), Text(v)) => Some(a -> Seq(pattern("ends", v)))
      case Contains(Column(a), Text(v)) => Some(a -> Seq(pattern("has", v)))
      case _ => None
    }

    /** The column, or its first characters, are one of these. */
    private def whole(of: Expression, texts: Seq[UTF8String]): Option[(Attribute, Seq[JsonNode])] = of match {
      case Column(a) => Some(a -> texts.map(pattern("is", _)))
      case Substring(Column(a), Literal(1, IntegerType), Literal(length: Int, IntegerType)) if length > 0 =>
        Some(a -> texts.filter(_.numChars <= length).map(v => pattern(if (v.numChars == length) "begins" else "is", v)))
      case _ => None
    }

    private def pattern(how: String, text: UTF8String): JsonNode = record(how -> text.getBytes.toSeq.map(_ & 0xFF))
  }

  private object Column {
    def unapply(e: Expression): Option[Attribute] = e match {
      case a: Attribute if isText(a.dataType) => Some(a)
      case _ => None
    }
  }

  private object Text {
    def is(e: Expression): Boolean = unapply(e).isDefined

    def unapply(e: Expression): Option[UTF8String] = e match {
      case Literal(v: UTF8String, of) if isText(of) => Some(v)
      case _ => None
    }
  }
}
