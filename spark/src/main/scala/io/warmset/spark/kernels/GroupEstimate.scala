package io.warmset.spark.kernels

import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.columnar.warmset.{CountedRelation, TablePlacement}
import org.apache.spark.sql.types._

/**
 * How native code should keep an aggregate's groups, by the table's statistics.
 *
 * Spark's partial aggregate gives out each group once per partition. Native code does so while a partition's groups fit
 * its memory; otherwise it gives them out several times. Invariant: where the figures are right, it gives out hardly more rows
 * than Spark's. Filters, of which nothing is known here, leave fewer rows and groups, and change nothing of that.
 */
private[spark] object GroupEstimate {
  import KernelPlan.{Clustered, Groups, Kept}

  /** Groups that there is room for whatever they hold, where it is not known how partitions share them. */
  private val GroupsMax = 131072
  /** Groups that are given out, to those of Spark's partial aggregate. */
  private val MoreGroupsMax = 1.25
  /** Of the rows: an upper bound of the groups that is no more says something. */
  private val SomeGroups = 0.5
  // Memory of a group, from the layout of native code's tables, which may be half empty.
  private val TableSlack = 1.5
  private val GroupBytes = 8
  private val KeyBytes = 24
  private val SlotBytes = 24

  /** @return how to keep them, or why they are too many */
  def of(keys: Seq[NamedExpression], slots: Int, relation: Option[InMemoryRelation]): Either[String, Groups] = {
    val statistics = relation.map(_.computeStats())
    val rows = statistics.flatMap(_.rowCount)
    def stat(a: Attribute): Option[ColumnStat] = statistics.flatMap(_.attributeStats.get(a))
    def distinct(a: Attribute): Option[BigInt] = stat(a).flatMap(_.distinctCount)
    val counts = keys.map(values(_, distinct))
    val unbounded = keys.zip(counts).collectFirst { case (key, None) if !isSmall(key.dataType) => key }
    // Several keys of one column have no more combinations than it has values, and no keys have more than there are rows.
    val groups = (Seq(counts.flatten.product) ++ product(keys.flatMap(_.references).distinct.map(distinct)) ++ rows).min
    val placement = relation.collect { case counted: CountedRelation if !counts.contains(None) => counted.placement }.flatten
    def lengths = keys.flatMap(column).map(a => if (isText(a)) stat(a).flatMap(_.avgLen).getOrElse(0L) else 0L).sum
    if (groups <= GroupsMax) {
      unbounded.map(key => s"how many values ${key.name} has is not known: spark.warmset.statistics.enabled").toLeft(Kept)
    } else {
      placement.flatMap(byPlacement(keys, groups.toDouble, _, memory(keys.length, slots) + lengths))
        .toRight(s"about $groups groups")
    }
  }

  private def byPlacement(keys: Seq[NamedExpression], groups: Double, table: TablePlacement, bytes: Double): Option[Groups] = {
    // A group is in no more batches and partitions than each of its keys' values.
    val places = keys.flatMap(column).flatMap(table.columns.get)
    val isExact = keys.length == 1 && places.nonEmpty
    val rows = table.rows.toDouble
    val byPartition = math.min(rows, groups * places.map(_.partitions).minOption.getOrElse(table.partitions.toDouble))
    val byBatch = math.min(rows, groups * places.map(_.batches).minOption.getOrElse(Double.PositiveInfinity))
    val least = if (isExact) byPartition else if (groups <= rows * SomeGroups) groups else 0
    if (byPartition / table.partitions * bytes <= Kept.bytesMax) Some(Kept)
    else if (byBatch <= least * MoreGroupsMax) Some(Clustered)
    else None
  }

  private def memory(keys: Int, slots: Int): Double = TableSlack * (GroupBytes + keys * KeyBytes + slots * SlotBytes)

  private[kernels] def column(key: NamedExpression): Option[Attribute] = key match {
    case a: Attribute => Some(a)
    case Alias(a: Attribute, _) => Some(a)
    case _ => None
  }

  /** How many values an expression has at most, but for null. */
  private def values(e: Expression, distinct: Attribute => Option[BigInt]): Option[BigInt] = {
    def sum(of: Seq[Expression]): Option[BigInt] = {
      val counts = of.map(values(_, distinct))
      if (counts.contains(None)) None else Some(counts.flatten.sum)
    }
    e match {
      case a: Attribute => distinct(a)
      case Alias(child, _) => values(child, distinct)
      case _: Literal => Some(1)
      case _ if e.dataType == BooleanType => Some(2)
      case If(_, yes, no) => sum(Seq(yes, no))
      case CaseWhen(branches, otherwise) => sum(branches.map(_._2) ++ otherwise)
      case _: Quarter => Some(4)
      case _: Month => Some(12)
      case _: DayOfMonth => Some(31)
      case other => product(other.references.toSeq.map(distinct))
    }
  }

  private def product(counts: Seq[Option[BigInt]]): Option[BigInt] =
    if (counts.contains(None)) None else Some(counts.flatten.product)

  /** Types of which few values are to be expected. */
  private def isSmall(dataType: DataType): Boolean = dataType match {
    case ByteType | ShortType | _: StringType => true
    case _ => false
  }

  private def isText(a: Attribute): Boolean = a.dataType.isInstanceOf[StringType]
}
