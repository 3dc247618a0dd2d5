package io.warmset.spark

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.optimizer.{CollapseProject, ColumnPruning, RemoveNoopOperators}
import org.apache.spark.sql.catalyst.plans.Inner
import org.apache.spark.sql.catalyst.plans.logical._
import org.apache.spark.sql.catalyst.rules.Rule

/**
 * Joins a table with what restricts it before it is joined with others: of TPC-H's parts, their suppliers, these suppliers'
 * nations and one nation, the nation with the suppliers first. Spark keeps the order of the text, so that each row of the large
 * tables meets all the suppliers, of which the nation then drops most.
 *
 * Invariant: inner joins only, with all their conditions, so that the rows are the same. A side that is pushed down has about one
 * row for each key, so that no row becomes several earlier than before.
 */
object PushDownJoins extends Rule[LogicalPlan] {
  import PlanEstimates._

  /** Of a side's rows, those that its conditions leave: with more of them it restricts little. */
  private val RowsShareMax = 0.5
  private val PassesMax = 20

  override def apply(plan: LogicalPlan): LogicalPlan =
    if (WarmsetConf.Statistics.read(conf) && !(conf.cboEnabled && conf.joinReorderEnabled) && !plan.isStreaming) {
      val pushed = untilSame(plan)(_.transformUp { case join: Join => pushedDown(join).getOrElse(join) })
      if (pushed.fastEquals(plan)) plan else untilSame(pushed)(p => RemoveNoopOperators(CollapseProject(ColumnPruning(p))))
    } else {
      plan
    }

  private def untilSame(plan: LogicalPlan)(rule: LogicalPlan => LogicalPlan): LogicalPlan = {
    val steps = Iterator.iterate(plan)(rule).sliding(2).take(PassesMax).map(pair => (pair.head, pair.last))
    steps.collectFirst { case (before, after) if after.fastEquals(before) => after }.getOrElse(plan)
  }

  private def pushedDown(join: Join): Option[LogicalPlan] = {
    val ways = Seq(
      (join.left, join.right, join.hint.leftHint, join.hint.rightHint), (join.right, join.left, join.hint.rightHint, join.hint.leftHint))
    ways.view.flatMap { case (into, side, hintOfInto, hint) =>
      if (join.joinType == Inner && hintOfInto.isEmpty && restricts(side, join)) {
        val (keys, others) = join.condition.toSeq.flatMap(Conjuncts.of).partition(equated(_, side, into).isDefined)
        new PushDown(side, hint, keys).into(into)
          .map(below => Project(join.output, others.reduceOption(And).fold(below)(Filter(_, below))))
      } else None
    }.headOption
  }

  /**
   * @param hint what its join was told of `side`
   * @param keys the conditions that compare a column of it with one of the other side
   */
  private final class PushDown(side: LogicalPlan, hint: Option[HintInfo], keys: Seq[Expression]) {
    private val wanted = AttributeSet(keys.flatMap(_.references)) -- side.outputSet

    /** The plan with the side joined further down, if another join lies between. */
    def into(plan: LogicalPlan): Option[LogicalPlan] = plan match {
      case Project(list, child) if list.forall(_.deterministic) && wanted.subsetOf(AttributeSet(list.collect { case a: Attribute => a })) =>
        into(child).map(Project(list ++ side.output, _))
      case Filter(condition, child) if condition.deterministic => into(child).map(Filter(condition, _))
      case join @ Join(left, right, Inner, _, hints) =>
        if (isBelow(left) && !restricts(right, join)) {
          Some(join.copy(left = joined(left), hint = hints.copy(leftHint = hints.leftHint.orElse(broadcast(left, right)))))
        } else if (isBelow(right) && !restricts(left, join)) {
          Some(join.copy(right = joined(right), hint = hints.copy(rightHint = hints.rightHint.orElse(broadcast(right, left)))))
        } else {
          None
        }
      case _ => None
    }

    private def isBelow(plan: LogicalPlan): Boolean = wanted.subsetOf(plan.outputSet)

    private def joined(plan: LogicalPlan): LogicalPlan =
      into(plan).getOrElse(Join(plan, side, Inner, keys.reduceOption(And), JoinHint(None, hint)))
  }

  /** A table that would be broadcast is it still, with fewer rows: Spark takes a join to have those of both sides multiplied. */
  private def broadcast(plan: LogicalPlan, other: LogicalPlan): Option[HintInfo] = {
    val bytes = sizeInBytes(plan)
    Option.when(isSmall(bytes) && bytes <= sizeInBytes(other))(HintInfo(Some(BROADCAST)))
  }

  private def sizeInBytes(plan: LogicalPlan): BigInt = plan match {
    case join @ Join(left, right, Inner, _, _) if restricts(right, join) => sizeInBytes(left)
    case join @ Join(left, right, Inner, _, _) if restricts(left, join) => sizeInBytes(right)
    case Project(_, child) if child.exists(_.isInstanceOf[Join]) => sizeInBytes(child)
    case other => other.stats.sizeInBytes
  }

  /** Whether this side of a join is small, has each key once, and drops many rows of the other side. Estimates of rows cost most. */
  private def restricts(side: LogicalPlan, join: Join): Boolean = {
    val other = if (side eq join.left) join.right else join.left
    val keys = join.condition.toSeq.flatMap(Conjuncts.of).flatMap(equated(_, side, other)).map(_._1).filter(isKey(side, _))
    isSelective(side) && keys.nonEmpty && isSmall(sizeInBytes(side)) && rows(side).exists { left =>
      keys.flatMap(origin(side, _)).flatMap(_._1.computeStats().rowCount).exists(all => left <= all.toDouble * RowsShareMax)
    }
  }
}
