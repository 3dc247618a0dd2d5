package io.warmset.spark

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate.{DeclarativeAggregate, Final, Partial}
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{FilterExec, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.aggregate.HashAggregateExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeExec

/**
 * Says below a shuffle which groups HAVING will drop above it. Where a table is stored in the order of a key, most groups lie
 * in one partition, and their partial aggregate is all of it: `UseKernels` has such groups left out of the shuffle.
 *
 * Invariant: HAVING stays and decides; what is said below is a part of it, of nothing but the partial aggregate's output.
 */
object EarlyHaving extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (WarmsetConf.Kernels.read(conf)) plan.transformUp { case filter: FilterExec => early(filter).getOrElse(filter) } else plan

  private def early(filter: FilterExec): Option[SparkPlan] = for {
    last <- Option(filter.child).collect { case aggregate: HashAggregateExec => aggregate }
    exchange <- Option(last.child).collect { case shuffle: ShuffleExchangeExec => shuffle }
    first <- Option(exchange.child).collect { case aggregate: HashAggregateExec if isPair(last, aggregate) => aggregate }
    condition <- below(filter.condition, last, first)
  } yield Seq(exchange, last, filter).foldLeft[SparkPlan](DroppedGroupsExec(condition, first)) { (child, above) =>
    above.withNewChildren(Seq(child))
  }

  private def isPair(last: HashAggregateExec, first: HashAggregateExec): Boolean = last.groupingExpressions.nonEmpty &&
    !last.isStreaming && last.aggregateExpressions.nonEmpty &&
    last.aggregateExpressions.forall(e => e.mode == Final && e.aggregateFunction.isInstanceOf[DeclarativeAggregate]) &&
    first.aggregateExpressions.forall(_.mode == Partial)

  /** The conjuncts on results of the aggregates, as conditions on their buffers. */
  private def below(condition: Expression, last: HashAggregateExec, first: HashAggregateExec): Option[Expression] = {
    val results = last.aggregateAttributes.zip(last.aggregateExpressions).map { case (result, e) =>
      val function = e.aggregateFunction.asInstanceOf[DeclarativeAggregate]
      val buffers = AttributeMap(function.aggBufferAttributes.zip(function.inputAggBufferAttributes))
      result.exprId -> function.evaluateExpression.transform { case a: AttributeReference => buffers.getOrElse(a, a) }
    }.toMap
    val output = last.resultExpressions.collect { case alias: Alias => alias.exprId -> alias.child }.toMap
    val early = Conjuncts.of(condition).filter(_.deterministic).map(_.transform {
      case a: Attribute if output.contains(a.exprId) => output(a.exprId)
    }.transform {
      case a: Attribute if results.contains(a.exprId) => results(a.exprId)
    }).filter(c => c.references.subsetOf(first.outputSet) && !c.exists(_.isInstanceOf[SubqueryExpression]) &&
      !c.exists(_.isInstanceOf[UserDefinedExpression]))
    early.reduceOption(And)
  }
}

/** Groups for which the condition is not true are not wanted where they are whole. By itself it drops none. */
final case class DroppedGroupsExec(condition: Expression, child: SparkPlan) extends UnaryExecNode {
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def withNewChildInternal(newChild: SparkPlan): DroppedGroupsExec = copy(child = newChild)
}
