package org.apache.spark.sql.execution.columnar.warmset

import org.apache.spark.sql.catalyst.expressions.{Attribute, AttributeMap, AttributeSet, SortOrder}
import org.apache.spark.sql.catalyst.plans.logical.{LogicalPlan, Statistics}
import org.apache.spark.sql.catalyst.plans.logical.statsEstimation.EstimationUtils
import org.apache.spark.sql.execution.columnar.{CachedRDDBuilder, InMemoryRelation}

/**
 * A cached relation that tells the optimiser what its batches are known to hold, and how many bytes
 * those columns of it take that its query reads.
 *
 * Invariant: apart from its statistics it is the relation it was made of. The number of rows stays
 * the one that Spark counts itself, since adaptive execution removes plans by it. Until the whole
 * relation has been made, its statistics are Spark's.
 */
final class CountedRelation(
    columns: Seq[Attribute],
    @transient builder: CachedRDDBuilder,
    ordering: Seq[SortOrder])
  extends InMemoryRelation(columns, builder, ordering) {
  import CountedRelation._

  /** The numbers of the columns that are read. */
  private var read: Seq[Int] = columns.indices
  private var seenByParents: Statistics = _

  /** Of the columns that are read: what the scan itself is taken for, also by adaptive execution. */
  override def computeStats(): Statistics = exact.getOrElse(super.computeStats())

  /**
   * What parents start from. Without the cost-based optimiser they take all columns to share a
   * relation's bytes as their types' widths are, so that a projection of the columns that are read
   * comes to the bytes of these only if the relation has as much more. EXPLAIN shows the bytes of
   * `computeStats`.
   */
  override def stats: Statistics = {
    if (statsCache.isEmpty) {
      val found = exact
      statsCache = Some(found.getOrElse(super.computeStats()))
      seenByParents = found.filterNot(_ => conf.cboEnabled).fold(statsCache.get)(widened)
    }
    seenByParents
  }

  /** Where the values of its columns are found, by column, as far as this was counted; none before all of it has been made. */
  def placement: Option[TablePlacement] = CachedBatches.totals(this).map { totals =>
    val known = computeStats().attributeStats
    val columns = for {
      (column, of) <- output.zip(totals.columns)
      distinct <- known.get(column).flatMap(_.distinctCount)
      if of.batchValues > 0
    } yield column -> ColumnPlacement(math.max(1, of.batchValues / distinct.toDouble),
      math.max(1, of.partitionValues / distinct.toDouble))
    TablePlacement(totals.rows, cacheBuilder.cachedColumnBuffers.getNumPartitions, AttributeMap(columns))
  }

  /** The ranges of a column of whole numbers in which the batches of each partition ascend, where none shares more than an end. */
  def runs(column: Attribute): Option[IndexedSeq[Seq[(Long, Long)]]] = output.indexWhere(_.exprId == column.exprId) match {
    case -1 => None
    case at => CachedBatches.runs(this, at).filter(of => ColumnTotals.areApart(of.flatten))
  }

  private def exact: Option[Statistics] = CachedBatches.totals(this).map { totals =>
    val theirs = super.computeStats()
    val bytes = read.map(totals.columns(_).bytes).sum
    val known = output.zip(totals.columns).flatMap { case (a, of) =>
      TableStatistics.columnStat(a.dataType, totals.rows, of).map { stat =>
        a -> stat.copy(histogram = theirs.attributeStats.get(a).flatMap(_.histogram))
      }
    }
    theirs.copy(
      sizeInBytes = BigInt(math.max(bytes, math.max(1L, totals.rows * RowBytesMin))),
      attributeStats = AttributeMap(known))
  }

  private def widened(own: Statistics): Statistics = {
    val all = EstimationUtils.getSizePerRow(output)
    val some = EstimationUtils.getSizePerRow(read.map(output))
    own.copy(sizeInBytes = (own.sizeInBytes * all + some - 1) / some)
  }

  private def reading(columns: Seq[Int], from: InMemoryRelation): CountedRelation = {
    read = columns
    statsOfPlanToCache = from.statsOfPlanToCache
    this
  }

  override def withOutput(newOutput: Seq[Attribute]): InMemoryRelation =
    of(super.withOutput(newOutput), read)

  override def newInstance(): this.type = of(super.newInstance(), read).asInstanceOf[this.type]

  override def clone(): LogicalPlan = of(this, read)

  override def makeCopy(newArgs: Array[AnyRef]): LogicalPlan =
    super.makeCopy(newArgs) match {
      case copied: CountedRelation => copied.reading(read, this)
      case other => other
    }

  /** Scans of the same cache are the same, whatever is known of it. */
  override def doCanonicalize(): LogicalPlan =
    InMemoryRelation(output, cacheBuilder, outputOrdering, statsOfPlanToCache).canonicalized

  // A rule's result that equals what was there before is thrown away.
  override def canEqual(other: Any): Boolean = other.isInstanceOf[CountedRelation]

  override def equals(other: Any): Boolean = other match {
    case counted: CountedRelation => super.equals(counted)
    case _ => false
  }

  override def hashCode(): Int = super.hashCode()

  override def nodeName: String = "InMemoryRelation"
}

/**
 * In how many batches, and in how many partitions, a value of a column is found, on average.
 */
final case class ColumnPlacement(batches: Double, partitions: Double)

/** The same of all columns of which it is known. */
final case class TablePlacement(rows: Long, partitions: Int, columns: AttributeMap[ColumnPlacement])

object CountedRelation {
  /**
   * A hash table of rows takes no less for each, however few bytes an encoded column takes; what
   * Spark's own estimates take for a row without columns.
   */
  private val RowBytesMin = 8L

  /** @param read the attributes that the query reads */
  def of(relation: InMemoryRelation, read: AttributeSet): CountedRelation =
    of(relation, relation.output.indices.filter(c => read.contains(relation.output(c))))

  private def of(relation: InMemoryRelation, read: Seq[Int]): CountedRelation =
    new CountedRelation(relation.output, relation.cacheBuilder, relation.outputOrdering)
      .reading(read, relation)
}
