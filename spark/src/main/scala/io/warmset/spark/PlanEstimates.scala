package io.warmset.spark

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate._
import org.apache.spark.sql.catalyst.plans._
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.execution.columnar.warmset.CountedRelation
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DoubleType, FloatType}

/**
 * What optimiser rules ask of a logical plan: where a column comes from, and how many rows are left, by the exact statistics of
 * cached tables.
 */
private[spark] object PlanEstimates {
  /** Of rows, those that match a pattern, and of groups, those that HAVING lets pass: a guess, of which Spark makes none. */
  private val GuessedShare = 0.1
  /** Of a column's rows, its distinct values at least where it is taken for a key: they are counted to some 3 %. */
  private val KeyShareMin = 0.9

  def isSmall(plan: LogicalPlan): Boolean = isSmall(plan.stats.sizeInBytes)

  def isSmall(bytes: BigInt): Boolean = bytes <= SQLConf.get.autoBroadcastJoinThreshold

  def isBroadcast(hint: Option[HintInfo]): Boolean = hint.exists(_.strategy.contains(BROADCAST))

  /** The columns of either side that must be equal for this condition to hold. */
  def equated(condition: Expression, left: LogicalPlan, right: LogicalPlan): Option[(Attribute, Attribute)] = condition match {
    case EqualTo(a: Attribute, b: Attribute) if left.outputSet.contains(a) && right.outputSet.contains(b) => Some((a, b))
    case EqualTo(b: Attribute, a: Attribute) if left.outputSet.contains(a) && right.outputSet.contains(b) => Some((a, b))
    case _ => None
  }

  /** One step from an attribute of `plan` down to the child that it comes from, where rows may be taken out below as well. */
  def step(plan: LogicalPlan, key: Attribute): Option[(LogicalPlan, Attribute)] = plan match {
    case Project(list, child) if list.forall(_.deterministic) => named(list, key).map(child -> _)
    case Filter(condition, child) if condition.deterministic => Some(child -> key)
    case sort: Sort => Some(sort.child -> key)
    case aggregate: Aggregate if aggregate.aggregateExpressions.forall(_.deterministic) =>
      named(aggregate.aggregateExpressions, key)
        .filter(a => aggregate.groupingExpressions.exists(_.semanticEquals(a))).map(aggregate.child -> _)
    case Join(left, _, Inner | LeftSemi | LeftAnti | LeftOuter, _, _) if left.outputSet.contains(key) => Some(left -> key)
    case Join(_, right, Inner | RightOuter, _, _) if right.outputSet.contains(key) => Some(right -> key)
    case _ => None
  }

  private def named(list: Seq[NamedExpression], key: Attribute): Option[Attribute] = list.collectFirst {
    case a: Attribute if a.exprId == key.exprId => a
    case alias @ Alias(a: Attribute, _) if alias.exprId == key.exprId => a
  }

  /** HAVING, of what its aggregate computes: the shuffle of the aggregate is run once for its keys and for the query. */
  def comparesResults(condition: Expression, aggregate: Aggregate): Boolean = Conjuncts.of(condition).exists {
    case comparison: BinaryComparison =>
      val keys = AttributeSet(aggregate.groupingExpressions.flatMap(_.references))
      isEstimated(comparison) && comparison.references.nonEmpty && comparison.references.intersect(keys).isEmpty
    case _ => false
  }

  def isSelective(plan: LogicalPlan): Boolean = plan.exists {
    case Filter(condition, _) => Conjuncts.of(condition).exists(!_.isInstanceOf[IsNotNull])
    case _: Join => true
    case _ => false
  }

  /** Whether it says the same of a row each time that it is evaluated. */
  def isPlain(condition: Expression): Boolean = condition.deterministic && !condition.exists {
    case subquery: ScalarSubquery => !isStable(subquery)
    case e => e.isInstanceOf[SubqueryExpression] || e.isInstanceOf[UserDefinedExpression]
  }

  /** Whether its value depends on the tables alone, and not on the order in which rows come. */
  private def isStable(subquery: ScalarSubquery): Boolean = subquery.outerAttrs.isEmpty && !subquery.plan.exists { node =>
    val isKnown = node match {
      case _: Project | _: Filter | _: Aggregate | _: Join | _: CountedRelation => true
      case _ => false
    }
    !isKnown || node.expressions.exists(e => !isPlain(e) || e.exists {
      case function: AggregateFunction => dependsOnOrder(function)
      case _ => false
    })
  }

  private def dependsOnOrder(function: AggregateFunction): Boolean = function match {
    case _: Sum | _: Average | _: Min | _: Max | _: Count =>
      function.children.exists(c => c.dataType == DoubleType || c.dataType == FloatType)
    case _ => true
  }

  /** Rows by the estimates of Spark's cost-based optimiser, whether or not the session uses it, and guesses where it makes none. */
  def rows(plan: LogicalPlan): Option[Double] = byCosts(plan).rowCount.map(_.toDouble * guessedShare(plan))

  /** The cached relation that a column comes from, and what it is called there. */
  def origin(plan: LogicalPlan, key: Attribute): Option[(CountedRelation, Attribute)] = plan match {
    case relation: CountedRelation => Some(relation -> key)
    case other => step(other, key).flatMap { case (child, a) => origin(child, a) }
  }

  /** Whether hardly a value of this column is in two rows of its table. */
  def isKey(plan: LogicalPlan, column: Attribute): Boolean = origin(plan, column).exists { case (relation, a) =>
    val known = relation.computeStats()
    val distinct = known.attributeStats.get(a).flatMap(_.distinctCount)
    distinct.exists(n => known.rowCount.exists(rows => n.toDouble >= rows.toDouble * KeyShareMin))
  }

  def byCosts(plan: LogicalPlan): Statistics = {
    val conf = SQLConf.get.clone()
    conf.setConf(SQLConf.CBO_ENABLED, true)
    SQLConf.withExistingConf(conf)(estimable(plan).clone().stats)
  }

  /**
   * Without the conditions that Spark guesses, and with joins of which it estimates what they drop: below filters, which it
   * takes to leave as small a part of a column's values as they leave of the rows.
   */
  private def estimable(plan: LogicalPlan): LogicalPlan = plan.transformUp {
    case Filter(condition, child) =>
      Conjuncts.of(condition).filter(isEstimated).reduceOption(And).fold(child)(Filter(_, child))
    case Join(left, keys, LeftSemi, condition, hint) =>
      def inner(of: LogicalPlan) = Join(of, Aggregate(keys.output, keys.output, keys), Inner, condition, hint)
      left match {
        case Filter(own, child) => Filter(own, inner(child))
        case other => inner(other)
      }
  }

  /** The share of rows that conditions leave of which Spark makes no estimate. */
  private def guessedShare(plan: LogicalPlan): Double = plan.collect {
    case Filter(condition, aggregate: Aggregate) if comparesResults(condition, aggregate) => GuessedShare
    case Filter(condition, _) => Conjuncts.of(condition).map {
      case _: StringPredicate | _: Like => GuessedShare
      // As System R took them (Selinger et al., 1979).
      case In(e, list) if !e.isInstanceOf[Attribute] => math.min(0.5, list.length / 10.0)
      case InSet(e, set) if !e.isInstanceOf[Attribute] => math.min(0.5, set.size / 10.0)
      case comparison: BinaryComparison if comparison.exists(_.isInstanceOf[ScalarSubquery]) => 1.0 / 3
      case _ => 1.0
    }.product
  }.product

  private def isEstimated(condition: Expression): Boolean = condition match {
    case And(left, right) => isEstimated(left) && isEstimated(right)
    case Or(left, right) => isEstimated(left) && isEstimated(right)
    case Not(child) => isEstimated(child)
    case In(_: Attribute, list) => list.forall(_.foldable)
    case InSet(_: Attribute, _) | IsNull(_: Attribute) | IsNotNull(_: Attribute) => true
    case comparison: BinaryComparison => (comparison.left, comparison.right) match {
      case (_: Attribute, other) => other.foldable
      case (other, _: Attribute) => other.foldable
      case _ => false
    }
    case _ => false
  }
}
