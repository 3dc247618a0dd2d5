package io.warmset.spark.kernels

import io.warmset.columns.NativeAggregate
import io.warmset.spark.WarmsetConf
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BasePredicate, NamedExpression}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.columnar.warmset.CountedRelation
import org.apache.spark.sql.types._

/**
 * A key of whole numbers in whose order a cached table is stored: a group lies in one run unless it is at an end of one.
 *
 * @param key its number among the native plan's keys
 * @param field its place in a row of groups
 * @param runs of each partition, the ranges that its batches go through in order
 */
private[spark] final case class WholeGroups(key: Int, field: Int, dataType: DataType, runs: IndexedSeq[Seq[(Long, Long)]])

private[spark] object WholeGroups {
  /** Each task is sent those of all. */
  private val RunsMax = 1 << 16

  def of(keys: Seq[NamedExpression], relation: Option[InMemoryRelation]): Option[WholeGroups] = relation match {
    case Some(counted: CountedRelation) => keys.iterator.zipWithIndex.flatMap { case (key, field) =>
      for {
        a <- GroupEstimate.column(key) if isWhole(a.dataType)
        runs <- counted.runs(a) if runs.map(_.length + 1).sum <= RunsMax
        // Those of columns come first.
      } yield WholeGroups(keys.take(field).count(GroupEstimate.column(_).isDefined), field, a.dataType, runs)
    }.nextOption()
    case _ => None
  }

  private def isWhole(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | IntegerType | LongType | DateType | TimestampType => true
    case _ => false
  }
}

/**
 * Which groups of a partition go to the shuffle: those that may have rows elsewhere, and those that the condition wants.
 *
 * Invariant: a group is dropped only if all its rows were in it. It lies inside a run, between the least and the greatest of its
 * groups that are given out together; whatever else this partition gives out of the run lies on one side of these, and other
 * partitions have nothing inside of it. The first is looked at while groups come, the second follows if all partitions keep to
 * their runs, as each sees to here.
 */
private[spark] final class WantedGroups(of: WholeGroups, partition: Int, condition: BasePredicate) {
  private val runs = of.runs(partition).sorted.toArray
  private val begins = runs.map(_._1)
  /** What is given out next of each run: the least and the greatest, one behind the other. Where a run begins, another may end. */
  private var ends = new Array[Long](0)
  /** The greatest of each run that was given out before, and now. */
  private val now = Array.fill(runs.length)(Long.MinValue)
  private var before = now.clone()

  /** What comes from here on is given out together. */
  def next(): Unit = before = now.clone()

  /** What native code gives out next. */
  def begin(handle: Long): Unit = begin(NativeAggregate.keyRanges(handle, of.key, begins))

  private[spark] def begin(ranges: Array[Long]): Unit = {
    ends = ranges
    for (run <- runs.indices if ends(2 * run) <= ends(2 * run + 1)) look(run, ends(2 * run), ends(2 * run + 1))
  }

  /** Groups of which some rows may be elsewhere. */
  def pass(groups: Seq[InternalRow]): Unit = for (group <- groups if !group.isNullAt(of.field)) {
    val key = valueOf(group)
    val run = runOf(key)
    if (key != begins(run)) look(run, key, key)
  }

  def apply(group: InternalRow): Boolean = group.isNullAt(of.field) || {
    val key = valueOf(group)
    val run = runOf(key)
    key == begins(run) || key == runs(run)._2 || key <= ends(2 * run) || key >= ends(2 * run + 1) || condition.eval(group)
  }

  private def runOf(key: Long): Int = {
    if (runs.isEmpty) changed()
    val at = java.util.Arrays.binarySearch(begins, key)
    math.max(0, if (at >= 0) at else -at - 2)
  }

  private def look(run: Int, from: Long, to: Long): Unit = {
    if (from < runs(run)._1 || to > runs(run)._2 || from < before(run)) changed()
    now(run) = math.max(now(run), to)
  }

  private def changed(): Nothing = throw new IllegalStateException("rows of a cached table are in another order than when it was " +
    s"cached: cache it again, or set ${WarmsetConf.Kernels.name}=false")

  private def valueOf(group: InternalRow): Long = of.dataType match {
    case ByteType => group.getByte(of.field)
    case ShortType => group.getShort(of.field)
    case IntegerType | DateType => group.getInt(of.field)
    case _ => group.getLong(of.field)
  }
}
