package org.apache.spark.ui.warmset

import scala.collection.mutable

import io.warmset.spark.StatsReport
import io.warmset.spark.ui.{ReportJson, StoreState, WarmsetView}
import org.apache.spark.{SparkConf, SparkContext}
import org.apache.spark.internal.config.EVENT_LOG_ENABLED
import org.apache.spark.scheduler.{SparkListener, SparkListenerEvent}
import org.apache.spark.status.{AppHistoryServerPlugin, AppStatusStore, ElementTrackingStore}
import org.apache.spark.status.KVUtils.KVIndexParam
import org.apache.spark.ui.SparkUI

/**
 * An executor's statistics in the event log.
 *
 * @param stats the object that NativeStore.stats gives
 * @param caches its regions, summed per cached RDD (see ReportJson.perRdd)
 */
case class SparkListenerWarmsetReport(
    executorId: String,
    timeMs: Long,
    stats: String,
    caches: String) extends SparkListenerEvent

/**
 * Puts executors' statistics into the event log, for the tab in Spark's history server.
 *
 * Invariant: where the event log is on, each executor's first and last report are in it, and in
 * between one per `intervalMs` at most, so that the log grows little. It writes nothing otherwise.
 */
final class HistoryRecorder private[warmset] (post: SparkListenerEvent => Unit, intervalMs: Long) {
  private val postedAtMs = new mutable.HashMap[String, Long]
  private val waiting = new mutable.LinkedHashMap[String, StatsReport]

  def add(report: StatsReport): Unit = synchronized {
    if (postedAtMs.get(report.executorId).forall(report.timeMs - _ >= intervalMs)) send(report)
    else waiting(report.executorId) = report
  }

  /** To be called when the application ends. */
  def flush(): Unit = synchronized(waiting.values.toSeq.foreach(send))

  private def send(report: StatsReport): Unit = {
    postedAtMs(report.executorId) = report.timeMs
    waiting.remove(report.executorId)
    post(SparkListenerWarmsetReport(report.executorId, report.timeMs, report.json,
      ReportJson.perRdd(report.regionsJson)))
  }
}

object HistoryRecorder {
  private val IntervalMs = 60000L

  def of(sc: SparkContext): HistoryRecorder = {
    val post: SparkListenerEvent => Unit =
      if (sc.conf.get(EVENT_LOG_ENABLED)) sc.listenerBus.post else _ => ()
    new HistoryRecorder(post, IntervalMs)
  }
}

/** A recorded report, as the history server stores it; `caches` is empty in all but the last. */
private[spark] class RecordedReport(
    @KVIndexParam val id: String,
    val executorId: String,
    val timeMs: Long,
    val stats: String,
    val caches: String)

/**
 * The tab in Spark's history server, found by ServiceLoader where the plugin's jar is on the history
 * server's class path.
 *
 * Invariant: applications that recorded nothing have no tab; at most `ReportsMax` reports of an
 * executor are kept, the oldest going first.
 */
class WarmsetHistoryPlugin extends AppHistoryServerPlugin {
  override def createListeners(conf: SparkConf, store: ElementTrackingStore): Seq[SparkListener] =
    Seq(new WarmsetHistoryListener(store))

  override def setupUI(ui: SparkUI): Unit =
    if (ui.store.store.count(classOf[RecordedReport]) > 0) {
      ui.attachTab(new WarmsetTab(ui, () => WarmsetHistory.view(ui.store)))
    }
}

private[warmset] final class WarmsetHistoryListener(store: ElementTrackingStore)
  extends SparkListener {
  import WarmsetHistory.ReportsMax

  private val kept = new mutable.HashMap[String, mutable.Queue[RecordedReport]]

  override def onOtherEvent(event: SparkListenerEvent): Unit = event match {
    case SparkListenerWarmsetReport(executorId, timeMs, stats, caches) =>
      val queue = kept.getOrElseUpdate(executorId, new mutable.Queue[RecordedReport])
      queue.lastOption.foreach { last =>
        store.write(new RecordedReport(last.id, executorId, last.timeMs, last.stats, ""))
      }
      val report = new RecordedReport(s"$executorId/$timeMs", executorId, timeMs, stats, caches)
      store.write(report)
      queue += report
      if (queue.length > ReportsMax) store.delete(classOf[RecordedReport], queue.dequeue().id)
    case _ =>
  }
}

private[warmset] object WarmsetHistory {
  val ReportsMax = 720

  /** As of the last report. */
  def view(store: AppStatusStore): WarmsetView = {
    val reports = new mutable.ArrayBuffer[StatsReport]
    val iterator = store.store.view(classOf[RecordedReport]).closeableIterator()
    try iterator.forEachRemaining(r =>
      reports += StatsReport(r.executorId, r.timeMs, r.stats, r.caches))
    finally iterator.close()
    val last = reports.map(_.timeMs).max
    // Executors that went with the application count to the end.
    val executors = store.executorList(false).map { e =>
      val known = ViewBuilder.known(e)
      e.id -> (if (known.removedMs.exists(_ < last)) known
        else known.copy(active = true, removedMs = None))
    }.toMap
    ViewBuilder.build(
      StoreState.Recorded,
      reports.groupBy(_.executorId).view.mapValues(_.sortBy(_.timeMs).toSeq).toMap,
      executors,
      store.rddList(cachedOnly = false).map(r => r.id -> ViewBuilder.rdd(r)).toMap,
      last)
  }
}
