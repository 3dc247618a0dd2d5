package io.warmset.spark

import io.warmset.spark.kernels.{GroupEstimate, KernelCompiler, KernelPlan, WholeGroups}
import org.apache.spark.sql.SparkSession
import org.apache.spark.sql.catalyst.expressions.{Left => _, Right => _, _}
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, Partial}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarToRowExec, FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.aggregate.{BaseAggregateExec, HashAggregateExec, SortAggregateExec}

/**
 * Puts our aggregate in the place of a partial one above projections and filters of a cached scan of ours.
 *
 * Invariant: what is replaced gives the same buffers; where something of it is not known, Spark's plan stays, and the
 * node above the scan says why. To be applied where cached scans are read as columns.
 */
object UseKernels extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (WarmsetConf.Kernels.read(conf)) {
      plan.transformUp {
        case aggregate: HashAggregateExec if isPartial(aggregate) => replaced(aggregate)
        // With keys, its rows would have been sorted for it.
        case aggregate: SortAggregateExec if aggregate.groupingExpressions.isEmpty && isPartial(aggregate) => replaced(aggregate)
        case DroppedGroupsExec(condition, aggregate: WarmsetAggregateExec) =>
          WholeGroups.of(aggregate.keys, ReadCacheAsColumns.scan(aggregate.child).map(_.relation)).fold[SparkPlan](aggregate) { whole =>
            aggregate.copy(having = Some(condition), whole = Some(whole))
          }
        case DroppedGroupsExec(_, other) => other
      }
    } else {
      plan
    }

  private def isPartial(aggregate: BaseAggregateExec): Boolean =
    aggregate.aggregateExpressions.nonEmpty && aggregate.aggregateExpressions.forall(_.mode == Partial) &&
      aggregate.requiredChildDistributionExpressions.isEmpty && !aggregate.isStreaming

  private def replaced(aggregate: BaseAggregateExec): SparkPlan =
    Below.of(aggregate).fold[SparkPlan](aggregate) { below =>
      compiled(aggregate, below) match {
        case Right(plan) =>
          val node = WarmsetAggregateExec(below.keys, below.aggregates, below.conditions, aggregate.output,
            aggregate.outputPartitioning, plan, None, None, below.columns)
          aggregate.logicalLink.foreach(node.setLogicalLink)
          node
        case Left(reason) => because(aggregate, below.columns, reason)
      }
    }

  private def compiled(aggregate: BaseAggregateExec, below: Below): Either[String, KernelPlan] = {
    val expected = aggregate.groupingExpressions.map(_.toAttribute) ++
      aggregate.aggregateExpressions.flatMap(_.aggregateFunction.inputAggBufferAttributes)
    if (aggregate.output.map(_.exprId) != expected.map(_.exprId)) {
      Left("the aggregate gives out other columns than keys and buffers")
    } else {
      for {
        _ <- withoutLibrary.toLeft(())
        groups <- GroupEstimate.of(below.keys, below.aggregates.length, ReadCacheAsColumns.scan(below.columns).map(_.relation))
        plan <- KernelCompiler.compile(below.keys, below.aggregates, below.conditions, below.columns.output, groups)
      } yield plan
    }
  }

  /** On such an executor batches would be aggregated row by row, without Spark's generated code. */
  private def withoutLibrary: Option[String] =
    SparkSession.getActiveSession.flatMap(session => StatsHistory.of(session.sparkContext)).flatMap(_.withoutLibrary)
      .map(id => s"executor $id has no native library")

  private def because(aggregate: SparkPlan, columns: SparkPlan, reason: String): SparkPlan = aggregate.transformUp {
    case rows: ColumnarToRowExec if rows.child eq columns =>
      ColumnarToRowExec(columns match {
        case above: CachedColumnsExec => above.copy(noKernels = Some(reason))
        case scan => CachedColumnsExec(scan, scan.vectorTypes, noKernels = Some(reason))
      })
  }

  /** What an aggregate does, in terms of the columns that a cached scan gives. */
  private final case class Below(
      keys: Seq[NamedExpression],
      aggregates: Seq[AggregateExpression],
      conditions: Seq[Expression],
      columns: SparkPlan)

  private object Below {
    def of(aggregate: BaseAggregateExec): Option[Below] =
      through(Below(aggregate.groupingExpressions, aggregate.aggregateExpressions, Nil, aggregate.child))

    private def through(below: Below): Option[Below] = below.columns match {
      case project: ProjectExec if project.projectList.forall(_.deterministic) =>
        val of = project.projectList.collect { case alias: Alias => alias.exprId -> alias.child }.toMap
        def inlined[E <: Expression](e: E): E = e.transform {
          case a: Attribute if of.contains(a.exprId) => of(a.exprId)
        }.asInstanceOf[E]
        through(Below(
          below.keys.map {
            case a: Attribute => of.get(a.exprId).fold[NamedExpression](a) {
              case named: NamedExpression => named
              case other => Alias(other, a.name)(a.exprId)
            }
            case other => inlined(other)
          },
          below.aggregates.map(inlined), below.conditions.map(inlined), project.child))
      case filter: FilterExec if filter.condition.deterministic =>
        through(below.copy(conditions = filter.condition +: below.conditions, columns = filter.child))
      case rows: ColumnarToRowExec if ReadCacheAsColumns.scan(rows.child).isDefined => Some(below.copy(columns = rows.child))
      case _ => None
    }
  }
}
