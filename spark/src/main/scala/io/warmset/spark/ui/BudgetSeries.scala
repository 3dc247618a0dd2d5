package io.warmset.spark.ui

import io.warmset.spark.StatsReport

/**
 * The executors' reports over time, summed into one series for the chart.
 *
 * Invariant: the times rise strictly; the value at a time is the sum of each executor's last report
 * up to then, and an executor counts from its first report until it is gone. The work is bounded:
 * at most `PointsMax` points and `ReadsMax` reports read, whatever was kept. Where there are more
 * reports than that, the points are evenly spaced samples.
 */
object BudgetSeries {
  val PointsMax = 400
  val PointsMin = 40
  val ReadsMax = 40000

  /**
   * @param reports of one executor, oldest first
   * @param endMs when it went, if it has gone
   */
  final case class Source(reports: IndexedSeq[StatsReport], endMs: Option[Long])

  def of(sources: Seq[Source], nowMs: Long): Seq[BudgetPoint] = {
    val known = sources.filter(_.reports.nonEmpty)
    if (known.isEmpty) Nil
    else {
      val walkers = known.map(new Walker(_))
      times(known, nowMs).map { t =>
        walkers.flatMap(_.at(t)).foldLeft(BudgetPoint(t, 0, 0, 0, 0)) { (sum, s) =>
          BudgetPoint(t, sum.budgetBytes + s.budgetBytes, sum.usedBytes + s.usedBytes,
            sum.residentBytes + s.residentBytes, sum.flashBytes + s.flashBytes,
            sum.poolBytes + s.poolBytes, sum.heapBytes + s.split.fold(0L)(_.heapCommittedBytes),
            sum.totalBytes + s.split.fold(0L)(_.totalBudgetBytes))
        }
      }
    }
  }

  private def times(known: Seq[Source], nowMs: Long): Seq[Long] = {
    val first = known.map(_.reports.head.timeMs).min
    val last = math.max(nowMs, known.map(_.reports.last.timeMs).max)
    val most = math.max(PointsMin, math.min(PointsMax, ReadsMax / known.length))
    val changes = known.iterator.flatMap(s => s.reports.iterator.map(_.timeMs) ++ s.endMs)
      .filter(t => t >= first && t <= last)
    val exact = changes.take(most * 4).toArray.distinct
    if (!changes.hasNext && exact.length < most) {
      (exact :+ last).distinct.sorted.toSeq
    } else {
      (0 until most).map(i => first + ((last - first).toDouble * i / (most - 1)).toLong).distinct
    }
  }

  /** Follows one executor's reports; asked for rising times only. */
  private final class Walker(source: Source) {
    private var next = 0
    private var current: Option[StoreStats] = None

    def at(timeMs: Long): Option[StoreStats] = {
      val before = next
      while (next < source.reports.length && source.reports(next).timeMs <= timeMs) next += 1
      if (next != before) {
        current = ReportJson.stats(source.reports(next - 1).json).orElse(current)
      }
      if (source.endMs.exists(_ <= timeMs)) None else current
    }
  }
}
