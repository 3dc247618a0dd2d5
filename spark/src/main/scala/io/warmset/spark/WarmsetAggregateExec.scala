package io.warmset.spark

import io.warmset.region.NativeLibrary
import io.warmset.spark.kernels.{AggregationMetrics, KernelPlan, PartialAggregation, RowAggregate, WantedGroups, WholeGroups}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.AggregateExpression
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.plans.physical.{Partitioning, UnknownPartitioning}
import org.apache.spark.sql.execution.{SparkPlan, UnaryExecNode}
import org.apache.spark.sql.execution.adaptive.TableCacheQueryStageExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.metric.{SQLMetric, SQLMetrics}
import org.apache.spark.sql.types.{BooleanType, DataType}

/**
 * A filter and a partial aggregate over a cached scan of ours, computed on the encoded columns.
 *
 * Invariant: it gives the rows that Spark's final aggregate takes from its own partial one; a group may come several
 * times. From a batch that native code refuses on, and where the native library is not loaded, batches are aggregated
 * by Spark's own expressions. Rows stay in their partitions, so it is partitioned as the aggregate that it replaces: nodes
 * above may have no exchange on account of that.
 */
final case class WarmsetAggregateExec(
    keys: Seq[NamedExpression],
    aggregates: Seq[AggregateExpression],
    conditions: Seq[Expression],
    output: Seq[Attribute],
    override val outputPartitioning: Partitioning,
    private[spark] val plan: KernelPlan,
    having: Option[Expression],
    private[spark] val whole: Option[WholeGroups],
    child: SparkPlan)
  extends UnaryExecNode {

  override def nodeName: String = "WarmsetAggregate"

  override def producedAttributes: AttributeSet = outputSet -- child.outputSet

  override lazy val metrics: Map[String, SQLMetric] = Map(
    "numOutputRows" -> SQLMetrics.createMetric(sparkContext, "number of output rows"),
    "numDroppedRows" -> SQLMetrics.createMetric(sparkContext, "number of groups that HAVING dropped"),
    "numBatches" -> SQLMetrics.createMetric(sparkContext, "number of batches aggregated in native code"),
    "numBatchesByRows" -> SQLMetrics.createMetric(sparkContext, "number of batches aggregated row by row"),
    "nativeTime" -> SQLMetrics.createNanoTimingMetric(sparkContext, "time in native code"))

  /** Nodes that do the same are partitioned alike: what they are partitioned by may be named otherwise. */
  override protected def doCanonicalize(): SparkPlan = super.doCanonicalize() match {
    case node: WarmsetAggregateExec => node.copy(outputPartitioning = UnknownPartitioning(0))
    case other => other
  }

  override protected def doExecute(): RDD[InternalRow] = {
    val counted = AggregationMetrics(longMetric("numOutputRows"), longMetric("numDroppedRows"), longMetric("numBatches"),
      longMetric("numBatchesByRows"), longMetric("nativeTime"))
    val task = WarmsetAggregateExec.Task(plan, output, keys, aggregates, conditions, having, whole, child.output, counted)
    WarmsetAggregateExec.whole(child).executeColumnar().mapPartitionsWithIndex { (partition, batches) =>
      new PartialAggregation(
        batches, task.plan, task.types, NativeLibrary.isLoaded, task.makeRows, task.wanted(partition), task.counted)
    }
  }

  override protected def stringArgs: Iterator[Any] = {
    def shown(name: String, of: Seq[Expression]) = of.mkString(s"$name=[", ", ", "]")
    Iterator(shown("keys", keys), shown("functions", aggregates)) ++
      (if (conditions.isEmpty) Iterator.empty else Iterator(shown("filters", conditions))) ++
      having.map(condition => shown("having", Seq(condition)))
  }

  override protected def withNewChildInternal(newChild: SparkPlan): WarmsetAggregateExec = copy(child = newChild)
}

object WarmsetAggregateExec {
  /** What tasks are sent. */
  private final case class Task(
      plan: KernelPlan,
      output: Seq[Attribute],
      keys: Seq[Expression],
      aggregates: Seq[AggregateExpression],
      conditions: Seq[Expression],
      having: Option[Expression],
      whole: Option[WholeGroups],
      input: Seq[Attribute],
      counted: AggregationMetrics) {
    def types: Seq[DataType] = output.map(_.dataType)

    def makeRows(): RowAggregate = new RowAggregate(keys, aggregates, conditions, input)

    def wanted(partition: Int): Option[WantedGroups] = whole.zip(having).map { case (of, condition) =>
      new WantedGroups(of, partition, Predicate.create(condition, output))
    }
  }

  /** The scan, which skips batches by their bounds and leaves rows to us. */
  private def whole(child: SparkPlan): SparkPlan = child match {
    case columns: CachedColumnsExec => whole(columns.child)
    case stage: TableCacheQueryStageExec => whole(stage.plan)
    case scan: InMemoryTableScanExec =>
      new InMemoryTableScanExec(scan.attributes, scan.predicates :+ WholeBatches(), scan.relation) {
        override lazy val metrics: Map[String, SQLMetric] = scan.metrics
      }
    case other => other
  }
}

/** Among a scan's predicates: rows are not to be taken out of batches. Always true. */
final case class WholeBatches() extends LeafExpression with CodegenFallback {
  override def dataType: DataType = BooleanType
  override def nullable: Boolean = false
  override def eval(input: InternalRow): Any = true
}
