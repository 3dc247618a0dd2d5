package io.warmset.spark.cachedframes

import org.apache.spark.sql.execution.columnar.warmset.{ColumnTotals, TableStatistics}

/**
 * The ranges in which a partition's batches ascend in one column of whole numbers: one where it is stored in the order of that
 * column, several where files with an order were read one behind the other.
 *
 * Invariant: all values of the batches so far lie in the ranges, which share no more than ends.
 */
private[cachedframes] final class Runs {
  import Runs._

  /** The last one first; none where a batch lies across others, or there are many. */
  private var ranges: Option[List[Range]] = Some(Nil)
  /** How far the batch before reached, as the values between two batches are usually no further apart. */
  private var usual = 1.0

  def found: Option[Seq[Range]] = ranges

  /** @param halves the batch's values cut at the widest step, if they can be */
  def add(batch: ColumnTotals, rows: Int, halves: => Array[Long]): Unit = for (before <- ranges) {
    ranges = (batch.lower, batch.upper) match {
      case (TableStatistics.WholeNumber(least), TableStatistics.WholeNumber(most)) =>
        val whole = Seq((least, most))
        lazy val cut = Option(halves).map { case Array(a, b, c, d) => Seq((a, b), (c, d)) }
        // One file ends in it and another begins, perhaps with files of other partitions in between.
        val isWide = width(least, most) > WideFrom * usual && cut.exists(isGap)
        val ways = if (isWide) cut.iterator ++ Iterator(whole) else Iterator(whole) ++ cut.iterator
        ways.map(_.foldLeft(Option(before))((of, next) => of.flatMap(extended(_, next)))).collectFirst { case Some(made) => made }
      case _ => if (batch.nulls == rows) ranges else None
    }
  }

  private def extended(before: List[Range], next: Range): Option[List[Range]] = {
    val near = GapMax * math.max(usual, width(next._1, next._2))
    val longer = before match {
      case (from, to) :: rest if next._1 >= to && width(to, next._1) <= near => (from, next._2) :: rest
      case _ => next :: before
    }
    usual = math.max(1, width(next._1, next._2))
    Seq(longer, next :: before).find(of => of.length <= RangesMax && ColumnTotals.areApart(of))
  }
}

private object Runs {
  private type Range = (Long, Long)

  private val RangesMax = 64
  private val WideFrom = 4
  private val GapMax = 2

  private def width(from: Long, to: Long): Double = to.toDouble - from

  /** Whether the halves are further apart than either is wide. */
  private def isGap(halves: Seq[Range]): Boolean = {
    val Seq((a, b), (c, d)) = halves
    math.max(width(b, c), width(d, a)) > math.max(width(a, b), width(c, d))
  }
}
