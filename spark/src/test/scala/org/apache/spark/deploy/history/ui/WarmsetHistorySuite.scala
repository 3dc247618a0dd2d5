package org.apache.spark.deploy.history.ui

import java.nio.file.Files

import org.apache.spark.SparkConf
import org.apache.spark.deploy.history.{FsHistoryProvider, HistoryServer}
import org.apache.spark.ui.warmset.UiSession
import org.scalatest.funsuite.AnyFunSuite

/** The tab in Spark's history server; here because that is closed to other packages. */
class WarmsetHistorySuite extends AnyFunSuite with UiSession {
  test("the history server shows the last numbers of an application that has ended") {
    val logs = Files.createTempDirectory("warmset-events").toFile
    var id = ""
    withSession("spark.eventLog.enabled" -> "true", "spark.eventLog.dir" -> logs.toURI.toString,
        "spark.eventLog.rolling.enabled" -> "false", "spark.eventLog.compress" -> "false") {
      (spark, ui) =>
        cacheTable(spark)
        eventually(assert(json(s"$ui/warmset/json/").path("caches").size == 1))
        id = spark.sparkContext.applicationId
    }
    val conf = new SparkConf(false).set("spark.history.fs.logDirectory", logs.toURI.toString)
      .set("spark.history.ui.port", "0").set("spark.testing", "1")
    val provider = new FsHistoryProvider(conf)
    val server = new HistoryServer(conf, provider, HistoryServer.createSecurityManager(conf), 0)
    server.initialize()
    server.bind()
    try {
      provider.checkForLogs()
      val base = s"http://127.0.0.1:${server.boundPort}/history/$id"
      eventually {
        val page = get(s"$base/warmset/")
        assert(page.contains("From the event log") && page.contains("64.0 MiB"))
        assert(page.contains("&lt;script&gt;alert(1)&lt;/script&gt;"))
      }
      assert(json(s"$base/warmset/json/").path("state").asText == "recorded")
      assert(get(s"$base/jobs/").contains(s"/history/$id/warmset/"))
    } finally server.stop()
  }
}
