package io.warmset.spark

import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSessionExtensions
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.planning.PhysicalOperation
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan
import org.apache.spark.sql.catalyst.plans.physical.Partitioning
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarRule, ColumnarToRowExec, ColumnarToRowTransition}
import org.apache.spark.sql.execution.{RowToColumnarTransition, SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.adaptive.TableCacheQueryStageExec
import org.apache.spark.sql.execution.columnar.{InMemoryRelation, InMemoryTableScanExec}
import org.apache.spark.sql.execution.columnar.warmset.CountedRelation
import org.apache.spark.sql.execution.metric.SQLMetric
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * The session extension: has cached scans read as columns, and tells the optimiser what caches hold.
 *
 * A cached scan says that it can give rows as well as columns, so Spark takes rows wherever rows
 * are wanted, and whole-stage code generation never sees the vectors. The rule puts Spark's own
 * columns-to-rows step above our scans, which does see them.
 */
class WarmsetExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = {
    extensions.injectPreCBORule(_ => CountCachedColumns)
    extensions.injectCheckRule(new AddOptimizerRules(_))
    extensions.injectQueryStagePrepRule(_ => EarlyHaving)
    extensions.injectColumnar(_ => new ColumnarRule {
      override def postColumnarTransitions: Rule[SparkPlan] =
        plan => QuickLike(UseKernels(FilterCacheByJoins(ReadCacheAsColumns(plan))))
    })
  }
}

/**
 * Puts relations that know their statistics in the place of cached ones of ours.
 *
 * Invariant: nothing but statistics changes, and a relation that was treated once is left alone.
 */
object CountCachedColumns extends Rule[LogicalPlan] {
  override def apply(plan: LogicalPlan): LogicalPlan =
    if (WarmsetConf.Statistics.read(conf)) plan.transformDown { case Read(counted) => counted } else plan

  /** A relation below projections and filters, all of them with a relation of which they are known. */
  private object Read {
    def unapply(plan: LogicalPlan): Option[LogicalPlan] = plan match {
      case PhysicalOperation(projects, _, relation: InMemoryRelation) if isOurs(relation) =>
        val counted = CountedRelation.of(relation, AttributeSet.fromAttributeSets(projects.map(_.references)))
        Some(plan.transformDown { case `relation` => counted })
      case _ => None
    }
  }

  private def isOurs(relation: InMemoryRelation): Boolean =
    !relation.isInstanceOf[CountedRelation] &&
      relation.cacheBuilder.serializer.isInstanceOf[WarmsetSerializer] &&
      WarmsetSerializer.ours(relation.output)
}

/**
 * Puts ColumnarToRowExec between a cached scan of ours and a parent that takes its rows.
 *
 * Invariant: a scan whose parent takes columns, or which is the root of the plan, is left alone
 * (what the caller of the root wants is not known here), and a plan that was treated once is not
 * changed again.
 */
object ReadCacheAsColumns extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan match {
    case transition: ColumnarToRowTransition =>
      transition.withNewChildren(transition.children.map(asColumns))
    case aggregate: WarmsetAggregateExec => aggregate
    case parent =>
      val takesColumns = parent.supportsColumnar && !parent.isInstanceOf[RowToColumnarTransition]
      parent.withNewChildren(parent.children.map {
        case scan @ OurScan(_) if takesColumns => scan
        case scan @ OurScan(_) => ColumnarToRowExec(asColumns(scan))
        case other => apply(other)
      })
  }

  private def asColumns(plan: SparkPlan): SparkPlan = plan match {
    case stage @ OurScan(scan) if stage ne scan => CachedColumnsExec(stage, scan.vectorTypes)
    case OurScan(scan) => scan
    case other => apply(other)
  }

  /** The scan of ours that gives these columns. */
  private[spark] def scan(columns: SparkPlan): Option[InMemoryTableScanExec] = columns match {
    case OurScan(scan) => Some(scan)
    case above: CachedColumnsExec => scan(above.child)
    case _ => None
  }

  /** A cached scan of ours that gives columns, alone or as a stage of an adaptive plan. */
  private[spark] object OurScan {
    def unapply(plan: SparkPlan): Option[InMemoryTableScanExec] = plan match {
      case scan: InMemoryTableScanExec if isOurs(scan) => Some(scan)
      case stage: TableCacheQueryStageExec => stage.plan match {
        case scan: InMemoryTableScanExec if isOurs(scan) => Some(scan)
        case _ => None
      }
      case _ => None
    }

    private def isOurs(scan: InMemoryTableScanExec): Boolean =
      scan.supportsColumnar &&
        scan.relation.cacheBuilder.serializer.isInstanceOf[WarmsetSerializer] &&
        WarmsetSerializer.ours(scan.relation.output)
  }
}

/**
 * A cached scan as a stage of an adaptive plan, with the vector classes that the stage does not
 * pass on, and the joins above it whose keys take rows out. Without any it adds nothing to the
 * execution.
 *
 * @param noKernels why the aggregate above is Spark's own, if it is one that could be ours
 */
case class CachedColumnsExec(
    child: SparkPlan,
    classes: Option[Seq[String]],
    joinFilters: Seq[JoinFilter] = Nil,
    noKernels: Option[String] = None)
  extends UnaryExecNode {
  override def nodeName: String = "WarmsetColumns"
  override def output: Seq[Attribute] = child.output
  override def outputPartitioning: Partitioning = child.outputPartitioning
  override def outputOrdering: Seq[SortOrder] = child.outputOrdering
  override def vectorTypes: Option[Seq[String]] = classes
  override def supportsColumnar: Boolean = true

  /** Equal for equal scans, whichever stage each of them is: so that exchanges above them are found to be the same. */
  override protected def doCanonicalize(): SparkPlan = {
    val scan = child match {
      case stage: TableCacheQueryStageExec => stage.plan
      case other => other
    }
    CachedColumnsExec(scan.canonicalized, classes, joinFilters.map(_.canonicalized(output)))
  }

  override protected def doExecute(): RDD[InternalRow] = child.execute()
  override protected def doExecuteColumnar(): RDD[ColumnarBatch] = child match {
    case stage: TableCacheQueryStageExec if joinFilters.nonEmpty => stage.plan match {
      case scan: InMemoryTableScanExec => filtered(scan).executeColumnar()
      case _ => child.executeColumnar()
    }
    case _ => child.executeColumnar()
  }

  /** The stage's scan, which is not of a stage's own work but read here, with more predicates. */
  private def filtered(scan: InMemoryTableScanExec): InMemoryTableScanExec = {
    val more = joinFilters.flatMap(_.predicates(scan))
    new InMemoryTableScanExec(scan.attributes, scan.predicates ++ more, scan.relation) {
      override lazy val metrics: Map[String, SQLMetric] = scan.metrics
    }
  }

  override protected def stringArgs: Iterator[Any] =
    (if (joinFilters.isEmpty) None else Some(joinFilters.map(_.key).mkString("join keys: [", ", ", "]"))).iterator ++
      noKernels.map(reason => s"no kernels: $reason")
  override protected def withNewChildInternal(newChild: SparkPlan): CachedColumnsExec =
    copy(child = newChild)
}
