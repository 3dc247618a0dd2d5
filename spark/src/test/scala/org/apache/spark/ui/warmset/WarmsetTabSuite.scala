package org.apache.spark.ui.warmset

import scala.jdk.CollectionConverters._

import io.warmset.spark.ui.Views
import org.scalatest.funsuite.AnyFunSuite

/** The tab of a running application, over HTTP, and its metrics. */
class WarmsetTabSuite extends AnyFunSuite with UiSession {
  test("the tab is in the navigation, and shows and counts what is cached") {
    withSession() { (spark, ui) =>
      assert(get(s"$ui/jobs/").contains("href=\"/warmset/\""))
      cacheTable(spark)
      eventually {
        val view = json(s"$ui/warmset/json/")
        assert(view.path("state").asText == "running")
        val row = view.path("caches").path(0)
        assert(row.path("name").asText == table && row.path("partitions").asInt == 2)
        assert(row.path("partitions_all").asInt == 2 && row.path("bytes").asLong >= 100000 * 8)
      }
      val page = get(s"$ui/warmset/")
      assert(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;") && !page.contains("<script>alert"))
      assert(page.contains("<svg class=\"warmset-chart\""))
      spark.catalog.clearCache()
      eventually(assert(json(s"$ui/warmset/json/").path("caches").size == 0))
    }
  }

  test("links are below the base that a proxy gives") {
    withSession() { (spark, ui) =>
      cacheTable(spark)
      eventually {
        val page = get(s"$ui/warmset/", "X-Forwarded-Context" -> "/behind/proxy")
        assert(page.contains("href=\"/behind/proxy/storage/rdd/?id="))
        assert(page.contains("href=\"/behind/proxy/warmset/\""))
      }
    }
  }

  test("where Warmset is not used, the tab gives the reason") {
    withSession("spark.warmset.dir" -> "/nowhere/at/all") { (_, ui) =>
      val page = get(s"$ui/warmset/")
      assert(page.contains("Warmset is not used") && page.contains("/nowhere/at/all"))
      assert(json(s"$ui/warmset/json/").path("state").asText == "stock")
    }
    withSession("spark.sql.cache.serializer" ->
        "org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer") { (_, ui) =>
      assert(get(s"$ui/warmset/").contains("spark.sql.cache.serializer is set to"))
    }
  }

  test("switched off: no tab") {
    withSession("spark.warmset.enabled" -> "false") { (_, ui) =>
      assert(!get(s"$ui/jobs/").contains("/warmset/"))
    }
  }

  test("Spark's metrics hold the store's numbers, as JSON and for Prometheus") {
    withSession("spark.metrics.namespace" -> "ns",
        "spark.metrics.conf.*.sink.prometheusServlet.class" ->
          "org.apache.spark.metrics.sink.PrometheusServlet",
        "spark.metrics.conf.*.sink.prometheusServlet.path" -> "/metrics/prometheus") { (spark, ui) =>
      cacheTable(spark)
      val prefix = "ns.driver.plugin.io.warmset.spark.WarmsetPlugin."
      eventually {
        val gauges = json(s"$ui/metrics/json/").path("gauges")
        Seq("budget_bytes", "pool_bytes", "used_bytes", "resident_bytes", "live_bytes", "huge_bytes",
          "flash_bytes", "promotions_total", "demotions_total", "waits_total", "wait_ns_total",
          "read_bytes_total", "written_bytes_total", "streamed_total", "bounces_total",
          "mapped_total", "evictions_total", "regions", "segments").foreach { key =>
          assert(gauges.has(prefix + key), key)
        }
        assert(gauges.path(prefix + "budget_bytes").path("value").asLong == 64 * Views.MiB)
        assert(gauges.path(prefix + "regions").path("value").asLong == 2)
      }
      assert(get(s"$ui/metrics/prometheus/")
        .contains("metrics_ns_driver_plugin_io_warmset_spark_WarmsetPlugin_used_bytes_Value{"))
    }
  }

  test("without a namespace the metrics have the application's id, each once") {
    withSession() { (spark, ui) =>
      cacheTable(spark)
      val names = json(s"$ui/metrics/json/").path("gauges").fieldNames.asScala
        .filter(_.endsWith("WarmsetPlugin.used_bytes")).toSeq
      assert(names == Seq(s"${spark.sparkContext.applicationId}.driver.plugin." +
        "io.warmset.spark.WarmsetPlugin.used_bytes"))
    }
  }
}
