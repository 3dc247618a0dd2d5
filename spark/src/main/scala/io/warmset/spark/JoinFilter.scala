package io.warmset.spark

import io.warmset.columns.KeySet
import org.apache.spark.broadcast.Broadcast
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.codegen.CodegenFallback
import org.apache.spark.sql.catalyst.optimizer.{BuildLeft, BuildRight}
import org.apache.spark.sql.catalyst.plans.{InnerLike, LeftSemi, QueryPlan}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarToRowExec, FilterExec, ProjectExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.BroadcastQueryStageExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.columnar.warmset.BroadcastKeys
import org.apache.spark.sql.execution.joins.BroadcastHashJoinExec
import org.apache.spark.sql.types._

/**
 * One key of a broadcast join whose other side has been made: only rows with one of these keys come
 * out of the join.
 *
 * @param key the attribute of the rows that are looked up
 * @param build the stage that holds the other side
 * @param buildKeys all keys of the join, on that side
 * @param index which of them belongs to `key`
 */
final case class JoinFilter(key: Attribute, build: SparkPlan, buildKeys: Seq[Expression], index: Int) {
  import JoinFilter._

  /** Equal for filters that take the same rows out of scans with these columns. */
  def canonicalized(columns: Seq[Attribute]): JoinFilter = JoinFilter(
    QueryPlan.normalizeExpressions(key, columns), build.canonicalized,
    buildKeys.map(QueryPlan.normalizeExpressions(_, build.output)), index)

  /** Predicates on `key` that are true of every row that the join lets pass; none where they would hardly take rows out. */
  def predicates(scan: InMemoryTableScanExec): Seq[Expression] = {
    val distinct = scan.relation.computeStats().attributeStats.get(key).flatMap(_.distinctCount)
    val most = distinct.fold(KeysMax)(n => math.min(KeysMax, (n.toDouble * WorthShare).toLong))
    BroadcastKeys.collect(build, buildKeys, index, most).fold(Seq.empty[Expression]) { found =>
      val all = new KeySet(found, found.length)
      val among = AmongKeys(key, scan.session.sparkContext.broadcast(all))
      if (all.isEmpty) {
        Seq(In(key, Nil), among)
      } else {
        Seq(GreaterThanOrEqual(key, literal(all.min, key.dataType)),
          LessThanOrEqual(key, literal(all.max, key.dataType))) ++
          (if (found.length <= ListedMax) Some(In(key, found.toSeq.map(literal(_, key.dataType)))) else None) :+ among
      }
    }
  }
}

object JoinFilter {
  /** Keys that are worth collecting: a set of them takes a few MiB. */
  private val KeysMax = 2L << 20
  /** Of the distinct values of a column: with more of them, most rows would stay. */
  private val WorthShare = 0.5
  /** So few keys are compared with each batch's bounds one by one. */
  private val ListedMax = 8

  def supports(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType | TimestampNTZType => true
    case _ => false
  }

  private def literal(value: Long, dataType: DataType): Literal = dataType match {
    case ByteType => Literal(value.toByte, ByteType)
    case ShortType => Literal(value.toShort, ShortType)
    case IntegerType | DateType => Literal(value.toInt, dataType)
    case _ => Literal(value, dataType)
  }
}

/** Whether a whole number may be one of the keys. True of some others, where the set is not exact. */
final case class AmongKeys(child: Expression, keys: Broadcast[KeySet])
  extends UnaryExpression with Predicate with CodegenFallback {

  override def nullable: Boolean = child.nullable

  override protected def nullSafeEval(value: Any): Any =
    keys.value.mayContain(value.asInstanceOf[Number].longValue)

  override def toString: String = s"$child among join keys"

  override protected def withNewChildInternal(newChild: Expression): AmongKeys = copy(child = newChild)
}

/**
 * Hands the keys of broadcast joins to the cached scans whose rows are looked up in them.
 *
 * Invariant: the join stays and decides. Rows are taken out only where the join is one that drops
 * rows without a match, and only where nothing between scan and join depends on rows that the join
 * drops: projections and filters that are deterministic, and the looked-up side of other broadcast
 * joins. Applies under adaptive execution, when the other side has been made.
 */
object FilterCacheByJoins extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan =
    if (WarmsetConf.JoinFilters.read(conf)) pass(plan, Nil) else plan

  private def pass(plan: SparkPlan, filters: Seq[JoinFilter]): SparkPlan = plan match {
    case join: BroadcastHashJoinExec =>
      val below = filters ++ ofJoin(join)
      val (left, right) = join.buildSide match {
        case BuildLeft => (pass(join.left, Nil), pass(join.right, within(below, join.right)))
        case BuildRight => (pass(join.left, within(below, join.left)), pass(join.right, Nil))
      }
      join.withNewChildren(Seq(left, right))
    case filter: FilterExec if filter.condition.deterministic =>
      filter.withNewChildren(Seq(pass(filter.child, filters)))
    case project: ProjectExec if project.projectList.forall(_.deterministic) =>
      project.withNewChildren(Seq(pass(project.child, filters.flatMap(renamed(_, project.projectList)))))
    case rows: ColumnarToRowExec => rows.withNewChildren(Seq(pass(rows.child, filters)))
    case columns: CachedColumnsExec if columns.joinFilters.isEmpty =>
      columns.copy(joinFilters = within(filters, columns))
    case other => other.withNewChildren(other.children.map(pass(_, Nil)))
  }

  private def within(filters: Seq[JoinFilter], plan: SparkPlan): Seq[JoinFilter] =
    filters.filter(f => plan.outputSet.contains(f.key))

  private def renamed(filter: JoinFilter, list: Seq[NamedExpression]): Option[JoinFilter] = list.collectFirst {
    case a: Attribute if a.exprId == filter.key.exprId => filter
    case alias @ Alias(a: Attribute, _) if alias.exprId == filter.key.exprId => filter.copy(key = a)
  }

  private def ofJoin(join: BroadcastHashJoinExec): Seq[JoinFilter] = {
    val (build, buildKeys, lookedUp) = join.buildSide match {
      case BuildLeft => (join.left, join.leftKeys, join.rightKeys)
      case BuildRight => (join.right, join.rightKeys, join.leftKeys)
    }
    (join.joinType, build) match {
      case (_: InnerLike, stage: BroadcastQueryStageExec) => ofKeys(stage, buildKeys, lookedUp)
      case (LeftSemi, stage: BroadcastQueryStageExec) if join.buildSide == BuildRight =>
        ofKeys(stage, buildKeys, lookedUp)
      case _ => Nil
    }
  }

  private def ofKeys(stage: BroadcastQueryStageExec, buildKeys: Seq[Expression], lookedUp: Seq[Expression]) =
    lookedUp.zipWithIndex.collect {
      case (a: Attribute, i) if JoinFilter.supports(a.dataType) => JoinFilter(a, stage, buildKeys, i)
    }
}
