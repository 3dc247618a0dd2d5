package io.warmset.spark

import java.util.WeakHashMap

import scala.collection.mutable

import org.apache.spark.SparkContext

/**
 * What an executor sends to the driver: its store's statistics.
 *
 * @param json the object that NativeStore.stats gives
 * @param regionsJson the array that NativeStore.regions gives, summed per cached RDD (see
 *   ReportJson.perRdd); empty in all but the last report of an executor
 */
final case class StatsReport(
    executorId: String,
    timeMs: Long,
    json: String,
    regionsJson: String) extends Serializable

/**
 * The executors' statistics as the driver knows them: the last report of each and a bounded series.
 *
 * Invariant: at most `PointsMax` reports per executor and `ExecutorsMax` executors are kept, the
 * oldest going first, and executors that have gone before those that are alive (one that has
 * nothing new to say does not report); reports of one executor are in the order of their times, and
 * only the last has its regions. No more than `ExecutorsMax` executors without the native library are noted. Safe for
 * use from several threads. It does not parse the JSON.
 *
 * @param alive the executors that Spark has now
 * @param rdds whether executors keep RDDs in regions, where they are asked to
 */
final class StatsHistory(alive: () => Set[String] = () => Set.empty, private[spark] val rdds: Boolean = true) {
  import StatsHistory._

  private var lacking = Set.empty[String]
  private val series = new mutable.LinkedHashMap[String, mutable.ArrayDeque[StatsReport]]

  def add(report: StatsReport): Unit = synchronized {
    val points = series.getOrElseUpdate(report.executorId, {
      if (series.size == ExecutorsMax) forgetOne()
      new mutable.ArrayDeque[StatsReport]
    })
    val at = points.lastIndexWhere(_.timeMs <= report.timeMs) + 1
    val newest = at == points.length
    points.insert(at, if (newest) report else report.copy(regionsJson = ""))
    if (newest && at > 0) points(at - 1) = points(at - 1).copy(regionsJson = "")
    if (points.length > PointsMax) points.removeHead()
  }

  /** Notes an executor in which native code cannot be called. */
  def add(missing: LibraryMissing): Unit = synchronized {
    if (lacking.size >= ExecutorsMax) lacking = lacking.intersect(alive())
    if (lacking.size < ExecutorsMax) lacking += missing.executorId
  }

  /** An executor that Spark has now in which native code cannot be called, if there is one. */
  def withoutLibrary: Option[String] = {
    val noted = synchronized(lacking)
    if (noted.isEmpty) None else noted.intersect(alive()).minOption
  }

  private def forgetOne(): Unit = {
    val here = alive()
    series.remove(series.minBy { case (id, points) => (here(id), points.last.timeMs) }._1)
  }

  def executors: Seq[String] = synchronized(series.keys.toSeq.sorted)

  def last(executorId: String): Option[StatsReport] =
    synchronized(series.get(executorId).flatMap(_.lastOption))

  /** Oldest first. */
  def points(executorId: String): Seq[StatsReport] =
    synchronized(series.get(executorId).map(_.toSeq).getOrElse(Nil))
}

object StatsHistory {
  val PointsMax = 720
  val ExecutorsMax = 1000

  private val attached = new WeakHashMap[SparkContext, StatsHistory]

  private[spark] def attach(sc: SparkContext, history: StatsHistory): Unit =
    attached.synchronized(attached.put(sc, history))

  /** The history of an application whose driver runs Warmset. */
  def of(sc: SparkContext): Option[StatsHistory] =
    attached.synchronized(Option(attached.get(sc)))
}
