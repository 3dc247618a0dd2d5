package io.warmset.spark

import java.util.concurrent.{Executors, ScheduledExecutorService, TimeUnit}

import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.ObjectMapper

import io.warmset.region.NativeLibrary
import io.warmset.spark.ui.ReportJson
import org.apache.spark.api.plugin.PluginContext
import org.apache.spark.internal.Logging
import org.apache.spark.ui.warmset.TotalsGauges
import org.apache.spark.warmset.SparkInternals

/**
 * An executor's statistics: gauges in Spark's metric system, and reports to the driver.
 *
 * Invariant: a report goes out only when something changed, and its size is bounded: regions are
 * summed per RDD. What the native store warns of is logged before each. A failure here is logged and
 * never reaches a task. In local mode the gauges are the driver's: Spark registers an executor's there
 * before the application has its name.
 */
private[spark] final class StatsReporter(holder: StoreHolder.Running, context: PluginContext)
  extends Logging {
  import StatsReporter._

  private var sent: (String, String) = _
  private var timer: ScheduledExecutorService = _

  def start(): Unit = {
    if (context.executorID != SparkInternals.DriverId) {
      TotalsGauges.register(context.metricRegistry, NumberKeys, () => Seq(holder.stats()))
    }
    timer = Executors.newSingleThreadScheduledExecutor { task =>
      val thread = new Thread(task, "warmset-stats")
      thread.setDaemon(true)
      thread
    }
    val interval = holder.conf.statsIntervalMs
    timer.scheduleWithFixedDelay(() => report(), interval, interval, TimeUnit.MILLISECONDS)
  }

  /** Sends what changed since the last report, and ends. */
  def stop(): Unit = if (timer != null) {
    timer.shutdownNow()
    report()
  }

  private def report(): Unit =
    try {
      StoreRoom.logWarnings()
      TransientMemory.trim()
      val regions = RegionBlocks.annotate(() => holder.store.regions())
      val now = (holder.stats(), ReportJson.perRdd(regions, RddsMax))
      if (now != sent) {
        context.send(StatsReport(context.executorID, System.currentTimeMillis, now._1, now._2))
        sent = now
      }
    } catch {
      case NonFatal(cause) => logDebug("Warmset's statistics were not sent", cause)
    }
}

/** What an executor says that must have a store, and has none. */
final case class StoreRefused(executorId: String, why: String) extends Serializable

/** What an executor says in which native code cannot be called. */
final case class LibraryMissing(executorId: String) extends Serializable

private[spark] object StatsReporter extends Logging {
  /** RDDs that a report lists, the largest: enough for a page, and a bound for the message. */
  private val RddsMax = 500

  /** Tells the driver that this executor has no store, and why; and whether it has no native library either. */
  def sendProblem(context: PluginContext, cause: Throwable): Unit =
    try {
      val why = Option(cause.getMessage).getOrElse(cause.toString)
      val json = new ObjectMapper().createObjectNode().put("problem", why).toString
      context.send(StatsReport(context.executorID, System.currentTimeMillis, json, "[]"))
      if (!NativeLibrary.isLoaded) context.send(LibraryMissing(context.executorID))
    } catch {
      case NonFatal(failure) => logDebug("The driver was not told", failure)
    }

  /** Has the driver stop the application; waits for its answer, since this process ends next. */
  def sendRefusal(context: PluginContext, why: String): Unit =
    try context.ask(StoreRefused(context.executorID, why))
    catch { case NonFatal(failure) => logDebug("The driver was not told", failure) }

  /** The numbers of StoreHolder.Running.stats (those of the split are 0 without one), all of which become gauges. */
  val NumberKeys: Seq[String] = Seq("budget_bytes", "pool_bytes", "used_bytes", "window_bytes", "staging_bytes", "huge_bytes",
    "resident_bytes", "live_bytes", "written_bytes_total", "read_bytes_total", "promotions_total",
    "demotions_total", "waits_total", "wait_ns_total", "streamed_total", "bounces_total",
    "mapped_total", "evictions_total", "regions", "segments", "flash_bytes", "heap_committed_bytes", "heap_used_bytes",
    "heap_allowed_bytes", "outside_bytes", "total_budget_bytes", "split_moves_total",
    "split_collections_total", "split_over_ns_total")
}
