package org.apache.spark.ui.warmset

import io.warmset.spark.{StatsHistory, StatsReport}
import io.warmset.spark.ui._

import org.apache.spark.SparkContext
import org.apache.spark.status.AppStatusStore
import org.apache.spark.status.api.v1.{ExecutorSummary, RDDStorageInfo}

/**
 * Makes the view from what the driver knows: the executors' reports, and Spark's own lists of
 * executors and cached RDDs.
 *
 * Invariant: reads only; a report that cannot be read counts as none. It does not ask executors.
 */
private[warmset] object ViewBuilder {
  private val TablePrefix = "In-memory table "

  /** What Spark says of an executor. */
  final case class Known(host: Option[String], active: Boolean, removedMs: Option[Long])

  /** What Spark says of a cached RDD. */
  final case class Rdd(name: String, partitions: Int)

  def view(history: StatsHistory, store: AppStatusStore, nowMs: Long): WarmsetView =
    build(
      StoreState.Running,
      history.executors.map(id => id -> history.points(id)).toMap,
      store.executorList(false).map(e => e.id -> known(e)).toMap,
      store.rddList().map(r => r.id -> rdd(r)).toMap,
      nowMs)

  /**
   * @param reports of each executor, oldest first
   * @param executors that Spark knows, by id
   * @param rdds that are cached, by id
   */
  def build(
      state: StoreState,
      reports: Map[String, Seq[StatsReport]],
      executors: Map[String, Known],
      rdds: Map[Int, Rdd],
      nowMs: Long): WarmsetView = {
    // A driver that reports nothing is one without a store: that of a cluster.
    val ids = (reports.keySet ++ executors.keySet - SparkContext.DRIVER_IDENTIFIER) ++
      reports.keySet.filter(_ == SparkContext.DRIVER_IDENTIFIER)
    val rows = ids.toSeq.sortBy(order).map { id =>
      executor(id, reports.getOrElse(id, Nil).lastOption, executors.get(id))
    }
    val live = rows.filter(_.active).map(_.id)
    val regions = live.flatMap(id => reports.getOrElse(id, Nil).lastOption)
      .flatMap(r => ReportJson.regions(r.regionsJson))
    val sources = reports.toSeq.map { case (id, points) =>
      BudgetSeries.Source(points.toIndexedSeq, executors.get(id).flatMap(_.removedMs))
    }
    WarmsetView(state, rows, caches(regions, rdds), BudgetSeries.of(sources, nowMs), nowMs)
  }

  private def executor(
      id: String,
      last: Option[StatsReport],
      known: Option[Known]): ExecutorRow = {
    val problem = last.flatMap(r => ReportJson.problem(r.json))
    ExecutorRow(
      id,
      known.flatMap(_.host),
      known.forall(_.active),
      if (problem.isDefined) None else last.flatMap(r => ReportJson.stats(r.json)),
      last.map(_.timeMs),
      problem)
  }

  /** Largest first; the regions of no known block come last, as one row. */
  private def caches(regions: Seq[ReportJson.RegionEntry], rdds: Map[Int, Rdd]): Seq[CacheRow] =
    regions.groupBy(_.rddId).toSeq.map { case (id, of) =>
      CacheRow(
        id,
        id.map(i => rdds.get(i).map(_.name).getOrElse(s"RDD $i")).getOrElse(""),
        of.map(_.regions).sum,
        id.flatMap(rdds.get).map(_.partitions),
        of.map(_.segments).sum,
        of.map(_.bytes).sum,
        of.map(_.residentBytes).sum,
        of.map(_.fileBytes).sum)
    }.sortBy(row => (row.rddId.isEmpty, -row.bytes, row.rddId))

  private[warmset] def known(e: ExecutorSummary): Known =
    Known(Some(e.hostPort).filter(_.nonEmpty), e.isActive, e.removeTime.map(_.getTime))

  private[warmset] def rdd(info: RDDStorageInfo): Rdd = Rdd(displayName(info.name), info.numPartitions)

  /** Spark names the RDD behind CACHE TABLE after the table. */
  private[warmset] def displayName(name: String): String = {
    val flat = name.trim.replaceAll("\\s+", " ")
    if (flat.startsWith(TablePrefix)) unquoted(flat.stripPrefix(TablePrefix)) else flat
  }

  /** A simple name without the quotes that it needed in SQL. */
  private def unquoted(name: String): String =
    if (name.length > 2 && name.startsWith("`") && name.endsWith("`") &&
        name.count(_ == '`') == 2) name.substring(1, name.length - 1)
    else name

  /** The driver first, then numbers by value, then the rest. */
  private def order(id: String): (Int, Long, String) =
    if (id == SparkContext.DRIVER_IDENTIFIER) (0, 0L, id)
    else id.toLongOption.map(n => (1, n, id)).getOrElse((2, 0L, id))
}
