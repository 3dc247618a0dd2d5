package org.apache.spark.ui.warmset

import scala.util.control.NonFatal

import com.codahale.metrics.{Gauge, MetricRegistry}
import com.fasterxml.jackson.databind.ObjectMapper

import io.warmset.spark.StatsHistory
import org.apache.spark.SparkContext
import org.apache.spark.internal.Logging

/**
 * Stores' statistics as gauges of Spark's metric system: those of one store, or the sums over many.
 *
 * Invariant: the statistics are asked for at most once a second, however many gauges are read; a
 * failure is logged and leaves the gauges at their last values.
 */
object TotalsGauges extends Logging {
  private val PollNs = 1000000000L

  /**
   * @param keys of NativeStore.stats, which become the gauges' names
   * @param reports gives the statistics of each store, as JSON objects
   */
  def register(registry: MetricRegistry, keys: Seq[String], reports: () => Seq[String]): Unit = {
    val sums = new Sums(keys, reports)
    keys.foreach { key =>
      val gauge: Gauge[Long] = () => sums(key)
      registry.register(key, gauge)
    }
  }

  /**
   * The last reports of the executors that are alive, for the driver of a cluster: Spark's servlets
   * show the driver's metrics only, and an executor's own reach nobody without a pushing sink.
   */
  def alive(sc: SparkContext, history: StatsHistory): () => Seq[String] = () => {
    history.executors.filter(aliveIds(sc)).flatMap(history.last).map(_.json)
  }

  /** The executors that Spark has now. */
  def aliveIds(sc: SparkContext): Set[String] = sc.statusStore.executorList(true).map(_.id).toSet

  /** The sums over the objects that `reports` gives. */
  private[warmset] final class Sums(keys: Seq[String], reports: () => Seq[String]) {
    private val mapper = new ObjectMapper
    private var polledAtNs = System.nanoTime - PollNs
    private var sums = Map.empty[String, Long]

    def apply(key: String): Long = synchronized {
      if (System.nanoTime - polledAtNs >= PollNs) {
        polledAtNs = System.nanoTime
        try {
          val objects = reports().map(mapper.readTree)
          sums = keys.map(k => k -> objects.map(_.path(k).asLong).sum).toMap
        } catch {
          case NonFatal(cause) => logDebug("Warmset's statistics were not read", cause)
        }
      }
      sums.getOrElse(key, 0L)
    }
  }
}
