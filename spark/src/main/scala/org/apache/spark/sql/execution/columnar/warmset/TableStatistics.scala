package org.apache.spark.sql.execution.columnar.warmset

import scala.collection.mutable

import io.warmset.columns.DistinctSketch
import org.apache.spark.SparkContext
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow
import org.apache.spark.sql.catalyst.plans.logical.ColumnStat
import org.apache.spark.sql.catalyst.util.HyperLogLogPlusPlusHelper
import org.apache.spark.sql.types._
import org.apache.spark.util.AccumulatorV2

/**
 * What is known of one column of a partition, or of several.
 *
 * @param bytes what it takes in the cache
 * @param plainBytes what Spark's own cache would say that it takes
 * @param lower the least value, in Spark's internal form; null where there is none or none is kept
 * @param batchValues the sum over its batches of the distinct values that each has, about; 0 where they are not counted
 * @param partitionValues the same over its partitions
 * @param registers those of a DistinctSketch; null where none is made
 * @param runs of a partition of whole numbers, the ranges in which its batches ascend, which share no more than ends; none where
 *   there are others, or many
 */
final class ColumnTotals(
    val bytes: Long,
    val plainBytes: Long,
    val nulls: Long,
    val batchValues: Double,
    val partitionValues: Double,
    val lower: Any,
    val upper: Any,
    val registers: Array[Byte],
    val runs: Option[Seq[(Long, Long)]] = None)
  extends Serializable {

  /** About how many distinct values the registers have seen. Rules of the optimiser ask for it hundreds of times in a query. */
  @transient lazy val seen: Long = TableStatistics.distinctOf(registers)

  def and(other: ColumnTotals): ColumnTotals = new ColumnTotals(
    bytes + other.bytes, plainBytes + other.plainBytes, nulls + other.nulls, batchValues + other.batchValues,
    partitionValues + other.partitionValues,
    ColumnTotals.outer(lower, other.lower, -1), ColumnTotals.outer(upper, other.upper, 1),
    ColumnTotals.merged(registers, other.registers))

  def in(runs: Option[Seq[(Long, Long)]]): ColumnTotals =
    new ColumnTotals(bytes, plainBytes, nulls, batchValues, partitionValues, lower, upper, registers, runs)
}

object ColumnTotals {
  /** Whether no two of these ranges share more than an end. */
  def areApart(ranges: Seq[(Long, Long)]): Boolean = {
    val inOrder = ranges.sorted
    inOrder.zip(inOrder.drop(1)).forall { case ((_, most), (least, _)) => most <= least }
  }

  val Nothing = new ColumnTotals(0, 0, 0, 0, 0, null, null, null)

  private def outer(a: Any, b: Any, side: Int): Any =
    if (a == null) b
    else if (b == null || a.asInstanceOf[Comparable[Any]].compareTo(b) * side >= 0) a
    else b

  private def merged(a: Array[Byte], b: Array[Byte]): Array[Byte] =
    if (a == null) b
    else if (b == null) a
    else {
      val both = a.clone()
      DistinctSketch.merge(both, b)
      both
    }
}

/** A partition of a cached relation, or all of them. */
final class TableTotals(val rows: Long, val columns: Array[ColumnTotals]) extends Serializable {
  /** What adds up. */
  def counts: TableTotals = new TableTotals(rows, columns.map(c =>
    new ColumnTotals(c.bytes, c.plainBytes, c.nulls, c.batchValues, c.partitionValues, null, null, null, c.runs)))

  /** What does not. */
  def spread: TableTotals = new TableTotals(0, columns.map(c =>
    new ColumnTotals(0, 0, 0, 0, 0, c.lower, c.upper, c.registers)))

  def and(other: TableTotals): TableTotals = new TableTotals(rows + other.rows,
    columns.zip(other.columns).map { case (a, b) => a.and(b) })
}

/**
 * Statistics of a cached relation, as its tasks make them.
 *
 * Invariant: a partition is counted once however often it is computed, by what the last of its tasks
 * said, and only if that task has seen all of it. Bounds and registers, which merging twice does not
 * change, are kept for all partitions together. `totals` is there when all partitions are. These
 * are figures for the optimiser: no answer may depend on them.
 */
final class TableStatistics extends AccumulatorV2[(Int, TableTotals), Option[TableTotals]] {
  /** By partition, rows and each column's counts. */
  private val parts = mutable.HashMap.empty[Int, TableTotals]
  /** What bounds and registers come to. */
  private var spread: TableTotals = _
  /** What all of it comes to, once somebody has asked. */
  private var all: Option[TableTotals] = None

  override def isZero: Boolean = synchronized(parts.isEmpty)

  override def copy(): TableStatistics = {
    val made = new TableStatistics
    synchronized {
      made.parts ++= parts
      made.spread = spread
    }
    made
  }

  override def reset(): Unit = synchronized {
    parts.clear()
    spread = null
    all = None
  }

  override def add(part: (Int, TableTotals)): Unit =
    take(Seq(part._1 -> part._2.counts), part._2.spread)

  override def merge(other: AccumulatorV2[(Int, TableTotals), Option[TableTotals]]): Unit = other match {
    case theirs: TableStatistics =>
      val (more, reaches) = theirs.synchronized((theirs.parts.toSeq, theirs.spread))
      if (more.nonEmpty) take(more, reaches)
    case _ => throw new UnsupportedOperationException(s"cannot merge with ${other.getClass.getName}")
  }

  private def take(more: Seq[(Int, TableTotals)], reaches: TableTotals): Unit = synchronized {
    parts ++= more
    spread = if (spread == null) reaches else spread.and(reaches)
    all = None
  }

  override def value: Option[TableTotals] = synchronized {
    if (all.isEmpty) all = parts.valuesIterator.reduceOption(_.and(_)).map(_.and(spread))
    all
  }

  /** The runs of a column in each of so many partitions. */
  def runs(column: Int, partitions: Int): Option[IndexedSeq[Seq[(Long, Long)]]] = synchronized {
    val found = (0 until partitions).map(p => parts.get(p).flatMap(_.columns(column).runs))
    if (found.contains(None)) None else Some(found.flatten)
  }

  /** Those of a relation of so many partitions, once all of them have been made. */
  def totals(partitions: Int): Option[TableTotals] =
    synchronized(if (parts.size == partitions) value else None)
}

object TableStatistics {
  /** Of the results that Spark lets a job's tasks send; distinct values go uncounted where they would take more. */
  private val ResultsShare = 1.0 / 16
  private val ResultBytesUnlimited = 1L << 30
  /** Bytes of one column's counts and bounds in a task's result, about. */
  private val CountBytes = 128L

  def registered(context: SparkContext): TableStatistics = {
    val made = new TableStatistics
    context.register(made)
    made
  }

  /**
   * How many columns of a relation of so many partitions may have their distinct values counted; none
   * if not even the other counts of all columns may be sent.
   */
  def sketchesMax(context: SparkContext, columns: Int, partitions: Int): Option[Int] = {
    val allowed = context.getConf.getSizeAsBytes("spark.driver.maxResultSize", "1g")
    val bytes = (if (allowed > 0) allowed else ResultBytesUnlimited) * ResultsShare / math.max(1, partitions)
    val left = bytes - columns * CountBytes
    if (left < 0) None else Some(math.min(columns, left / (1 << DistinctSketch.PRECISION)).toInt)
  }

  private val Estimate = new HyperLogLogPlusPlusHelper(
    relativeSD = 1.106 / math.pow(2, DistinctSketch.PRECISION / 2.0))

  /**
   * Whether the optimiser can make use of a column's statistics: those types that ANALYZE TABLE
   * takes. It fails on an estimate for any other.
   */
  def ofUse(dataType: DataType): Boolean = dataType match {
    case _: NumericType | BooleanType | DateType | TimestampType | StringType | BinaryType => true
    case _ => false
  }

  /** Whether bounds are of use: as for ANALYZE TABLE, not those of texts. */
  def bounded(dataType: DataType): Boolean =
    ofUse(dataType) && dataType != StringType && dataType != BinaryType

  /** Whether distinct values are estimated; the bounds of a boolean say as much. */
  def sketched(dataType: DataType): Boolean = ofUse(dataType) && dataType != BooleanType

  /**
   * What Spark is told of a column: nothing where it holds no value or its distinct values were not
   * counted, and nothing where its bounds are no numbers, with which Spark's estimates would fail.
   */
  def columnStat(dataType: DataType, rows: Long, totals: ColumnTotals): Option[ColumnStat] = {
    val values = rows - totals.nulls
    if (!ofUse(dataType) || values <= 0 || sketched(dataType) && totals.registers == null ||
        bounded(dataType) && !(finite(totals.lower) && finite(totals.upper))) {
      None
    } else {
      val distinct = math.max(1L, math.min(distinctValues(totals), values))
      // Of texts that are null in some rows Spark's JoinEstimation fails after a filter for those: it
      // divides by no distinct values, which only bounds would have kept it from.
      val counted = bounded(dataType) || totals.nulls == 0
      val length =
        if (bounded(dataType)) dataType.defaultSize.toLong
        else (totals.plainBytes - 4 * rows + values - 1) / values
      Some(ColumnStat(Option.when(counted)(distinct), Option(totals.lower), Option(totals.upper),
        Option.when(counted)(totals.nulls), Some(length), Option.when(bounded(dataType))(length)))
    }
  }

  private def distinctValues(totals: ColumnTotals): Long = (totals.lower, totals.upper) match {
    case (low: Boolean, high: Boolean) => if (low == high) 1 else 2
    case (WholeNumber(low), WholeNumber(high)) if high - low >= 0 && high - low < Long.MaxValue =>
      math.min(totals.seen, high - low + 1)
    case _ => totals.seen
  }

  object WholeNumber {
    def unapply(value: Any): Option[Long] = value match {
      case v: Byte => Some(v)
      case v: Short => Some(v)
      case v: Int => Some(v)
      case v: Long => Some(v)
      case _ => None
    }
  }

  private def finite(bound: Any): Boolean = bound match {
    case null => false
    case v: Double => !v.isNaN && !v.isInfinite
    case v: Float => !v.isNaN && !v.isInfinite
    case _ => true
  }

  private[warmset] def distinctOf(registers: Array[Byte]): Long = {
    import HyperLogLogPlusPlusHelper.{REGISTER_SIZE, REGISTERS_PER_WORD}
    val words = new GenericInternalRow(Array.fill[Any](Estimate.numWords)(0L))
    registers.grouped(REGISTERS_PER_WORD).zipWithIndex.foreach { case (of, word) =>
      words.setLong(word, of.indices.map(i => of(i).toLong << (i * REGISTER_SIZE)).sum)
    }
    Estimate.query(words, 0)
  }
}
