package io.warmset.spark.cachedframes

import scala.util.Try

import io.warmset.columns.{KeySet, Selection, WarmVector}
import io.warmset.spark.{AmongKeys, Conjuncts, InKeySet, WarmBatch}
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.util.CollationFactory
import org.apache.spark.sql.columnar.CachedBatch
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * The predicates of a query that can be evaluated on encoded columns, so that rows which cannot pass
 * are never decoded.
 *
 * Invariant: a step takes out only rows for which its predicate is not true; Spark's own filter
 * stays above the scan and decides. Predicates that are not understood are left out. No step can
 * fail on any value: what could throw in a row that another predicate takes out is left out.
 */
private[spark] final case class RowFilter(steps: Array[RowFilter.Step])

/** A batch whose rows a filter may thin out. Exists only between two operators of one task. */
private[spark] final case class SelectedBatch(batch: WarmBatch, filter: RowFilter) extends CachedBatch {
  override def numRows: Int = batch.numRows
  override def sizeInBytes: Long = batch.sizeInBytes
}

private[spark] object RowFilter {
  /** One predicate on the column of that number. */
  sealed trait Step extends Serializable {
    def column: Int
    def keep(vector: WarmVector, selection: Selection): Unit
  }

  final case class Present(column: Int) extends Step {
    override def keep(vector: WarmVector, selection: Selection): Unit = vector.keepPresent(selection)
  }

  final case class Whole(column: Int, low: Long, high: Long) extends Step {
    override def keep(vector: WarmVector, selection: Selection): Unit =
      vector.keepRange(selection, low, high)
  }

  final case class AnyOf(column: Int, ascending: Array[Long]) extends Step {
    override def keep(vector: WarmVector, selection: Selection): Unit =
      vector.keepAnyOf(selection, ascending)
  }

  final case class Among(column: Int, keys: Broadcast[KeySet]) extends Step {
    override def keep(vector: WarmVector, selection: Selection): Unit =
      vector.keepAmong(selection, keys.value)
  }

  final case class Floating(column: Int, low: Double, high: Double) extends Step {
    override def keep(vector: WarmVector, selection: Selection): Unit =
      vector.keepRange(selection, low, high)
  }

  /** An expression whose only input is the string at ordinal 0. */
  final case class Text(column: Int, expression: Expression, nullsToo: Boolean) extends Step {
    @transient private lazy val row = new GenericInternalRow(1)
    @transient private lazy val predicate = Predicate.createInterpreted(expression)

    override def keep(vector: WarmVector, selection: Selection): Unit =
      vector.keepMatching(selection, (value: UTF8String) => { row.update(0, value); predicate.eval(row) },
        nullsToo)
  }

  /**
   * The conjuncts before the first that depends on how many rows it has seen, as `rand` does: to
   * take out rows that it would have seen changes what it says of the others.
   */
  def beforeChance(predicates: Seq[Expression]): Seq[Expression] =
    predicates.flatMap(Conjuncts.of).takeWhile(_.deterministic)

  /** The part of `predicates` that can be evaluated, if any. */
  def of(predicates: Seq[Expression], cached: Seq[Attribute]): Option[RowFilter] = {
    val number = cached.iterator.map(_.exprId).zipWithIndex.toMap
    val steps = predicates.flatMap(step(_, number))
    if (steps.isEmpty) None else Some(RowFilter(narrowed(steps).toArray))
  }

  private def step(predicate: Expression, number: Map[ExprId, Int]): Option[Step] = {
    def at(a: Attribute): Option[Int] = number.get(a.exprId)
    predicate match {
      case IsNotNull(a: Attribute) => at(a).map(Present)
      case a: Attribute if a.dataType == BooleanType => at(a).map(Whole(_, 1, 1))
      case Not(a: Attribute) if a.dataType == BooleanType => at(a).map(Whole(_, 0, 0))
      case Compared(a, op, value) if isWhole(a.dataType) =>
        for (c <- at(a); v <- whole(value, a.dataType)) yield wholeStep(c, op, v)
      case Compared(a, op, value) if isFloating(a.dataType) =>
        for (c <- at(a); v <- floating(value)) yield floatingStep(c, op, v)
      case Members(a, values) if isWhole(a.dataType) && values.nonEmpty =>
        val numbers = values.filter(_ != null).map(whole(_, a.dataType))
        if (numbers.exists(_.isEmpty)) None else at(a).map(AnyOf(_, numbers.flatten.sorted.toArray))
      case AmongKeys(a: Attribute, keys) => at(a).map(Among(_, keys))
      case in @ InKeySet(_, a: Attribute, _) =>
        for (c <- at(a); keys <- in.keys) yield Among(c, SparkSession.active.sparkContext.broadcast(keys))
      case text if harmless(text) && text.references.size == 1 =>
        val a = text.references.head
        val bound = text.transform { case _: Attribute => BoundReference(0, a.dataType, nullable = true) }
        val nullsToo = bound.eval(InternalRow(null)) == true
        at(a).map(Text(_, bound, nullsToo))
      case _ => None
    }
  }

  /** One range per column where there were several, and no look at nulls where a range looks anyway. */
  private def narrowed(steps: Seq[Step]): Seq[Step] = {
    val wholes = steps.collect { case s: Whole => s }.groupBy(_.column).toSeq.map { case (c, of) =>
      Whole(c, of.map(_.low).max, of.map(_.high).min)
    }
    val floats = steps.collect { case s: Floating => s }.groupBy(_.column).toSeq.map { case (c, of) =>
      Floating(c, of.map(_.low).max, of.map(_.high).min)
    }
    val others = steps.filter { case _: Whole | _: Floating | _: Present => false; case _ => true }
    val all = wholes ++ floats ++ others
    val looked = all.filter { case t: Text => !t.nullsToo; case _ => true }.map(_.column).toSet
    steps.collect { case s: Present if !looked(s.column) => s }.distinct ++ all
  }

  private object Compared {
    def unapply(e: Expression): Option[(Attribute, Symbol, Any)] = e match {
      case EqualTo(a: Attribute, Value(v)) => Some((a, Symbol("="), v))
      case EqualTo(Value(v), a: Attribute) => Some((a, Symbol("="), v))
      case EqualNullSafe(a: Attribute, Value(v)) => Some((a, Symbol("="), v))
      case EqualNullSafe(Value(v), a: Attribute) => Some((a, Symbol("="), v))
      case LessThan(a: Attribute, Value(v)) => Some((a, Symbol("<"), v))
      case LessThan(Value(v), a: Attribute) => Some((a, Symbol(">"), v))
      case LessThanOrEqual(a: Attribute, Value(v)) => Some((a, Symbol("<="), v))
      case LessThanOrEqual(Value(v), a: Attribute) => Some((a, Symbol(">="), v))
      case GreaterThan(a: Attribute, Value(v)) => Some((a, Symbol(">"), v))
      case GreaterThan(Value(v), a: Attribute) => Some((a, Symbol("<"), v))
      case GreaterThanOrEqual(a: Attribute, Value(v)) => Some((a, Symbol(">="), v))
      case GreaterThanOrEqual(Value(v), a: Attribute) => Some((a, Symbol("<="), v))
      case _ => None
    }
  }

  private object Members {
    def unapply(e: Expression): Option[(Attribute, Seq[Any])] = e match {
      case In(a: Attribute, list) if list.forall(_.isInstanceOf[Literal]) =>
        Some((a, list.map(_.asInstanceOf[Literal].value)))
      case InSet(a: Attribute, set) => Some((a, set.toSeq))
      case _ => None
    }
  }

  /** A literal that is not null. */
  private object Value {
    def unapply(e: Expression): Option[Any] = e match {
      case Literal(v, _) if v != null => Some(v)
      case _ => None
    }
  }

  private def isWhole(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | DateType | TimestampType |
        TimestampNTZType | _: DecimalType | _: DayTimeIntervalType | _: YearMonthIntervalType => true
    case _ => false
  }

  private def isFloating(dataType: DataType): Boolean =
    dataType == DoubleType || dataType == FloatType

  private def whole(value: Any, dataType: DataType): Option[Long] = (value, dataType) match {
    case (v: Boolean, _) => Some(if (v) 1L else 0L)
    case (v: Byte, _) => Some(v.toLong)
    case (v: Short, _) => Some(v.toLong)
    case (v: Int, _) => Some(v.toLong)
    case (v: Long, _) => Some(v)
    case (v: Decimal, of: DecimalType) if v.scale == of.scale =>
      val unscaled = v.toJavaBigDecimal.unscaledValue
      if (unscaled.bitLength < 64) Some(unscaled.longValue) else None
    case _ => None
  }

  private def floating(value: Any): Option[Double] = value match {
    case v: Double if !v.isNaN => Some(v)
    case v: Float if !v.isNaN => Some(v.toDouble)
    case _ => None
  }

  // A comparison that nothing passes, as "below the least", gives a range whose ends are crossed.
  private def wholeStep(column: Int, op: Symbol, v: Long): Step = op.name match {
    case "=" => Whole(column, v, v)
    case "<" => if (v == Long.MinValue) Whole(column, 1, 0) else Whole(column, Long.MinValue, v - 1)
    case "<=" => Whole(column, Long.MinValue, v)
    case ">" => if (v == Long.MaxValue) Whole(column, 1, 0) else Whole(column, v + 1, Long.MaxValue)
    case ">=" => Whole(column, v, Long.MaxValue)
  }

  // The ends are taken in even where the comparison leaves them out: Spark's filter decides.
  private def floatingStep(column: Int, op: Symbol, v: Double): Step = op.name match {
    case "=" => Floating(column, v, v)
    case "<" | "<=" => Floating(column, Double.NegativeInfinity, v)
    case ">" | ">=" => Floating(column, v, Double.PositiveInfinity)
  }

  /** Predicates on strings in Spark's binary order that no value makes throw. */
  private def harmless(e: Expression): Boolean = e match {
    case And(left, right) => harmless(left) && harmless(right)
    case Or(left, right) => harmless(left) && harmless(right)
    case Not(child) => harmless(child)
    case IsNull(child) => isText(child)
    case IsNotNull(child) => isText(child)
    case comparison: BinaryComparison => isText(comparison.left) && isText(comparison.right)
    case part: StringPredicate => isText(part.left) && isText(part.right)
    case Like(value, pattern: Literal, escape) =>
      isText(value) && isText(pattern) && wellFormed(pattern, escape)
    case In(value, list) => isText(value) && list.forall(isText)
    case InSet(value, _) => isText(value)
    case _ => false
  }

  /** Spark refuses a pattern such as one that ends in its escape only when it meets a string. */
  private def wellFormed(pattern: Literal, escape: Char): Boolean =
    Try(Like(Literal(""), pattern, escape).eval()).isSuccess

  private def isText(e: Expression): Boolean = (e match {
    case _: Attribute | _: Literal => true
    case _ => false
  }) && (e.dataType match {
    case text: StringType => text.collationId == CollationFactory.UTF8_BINARY_COLLATION_ID
    case _ => false
  })
}
