package org.apache.spark.ui.warmset

import java.net.{HttpURLConnection, URI}
import java.nio.file.Files

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.SparkSession
import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

/** An application with the plugin and Spark's web interface on, asked over HTTP. */
trait UiSession extends Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(20, Seconds), Span(100, Millis))

  protected val table = "<script>alert(1)</script>"

  protected def withSession(settings: (String, String)*)(body: (SparkSession, String) => Unit): Unit = {
    SparkSession.getDefaultSession.foreach(_.stop())
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    val directory = Files.createTempDirectory("warmset-ui").toFile
    val all = Map("spark.plugins" -> "io.warmset.spark.WarmsetPlugin",
      "spark.warmset.memory" -> "64m", "spark.warmset.dir" -> directory.getPath,
      "spark.warmset.smallPartition" -> "0", "spark.warmset.stats.interval" -> "100ms",
      "spark.warmset.flashReserve" -> "1g",
      "spark.ui.enabled" -> "true", "spark.ui.port" -> "0",
      "spark.ui.prometheus.enabled" -> "true") ++ settings
    val builder = SparkSession.builder().master("local[2]").appName("ui")
    all.foreach { case (k, v) => builder.config(k, v) }
    val session = builder.getOrCreate()
    try body(session, s"http://127.0.0.1:${session.sparkContext.ui.get.boundPort}")
    finally {
      session.stop()
      SparkSession.clearActiveSession()
      SparkSession.clearDefaultSession()
    }
  }

  protected def get(address: String, headers: (String, String)*): String = {
    val connection = new URI(address).toURL.openConnection().asInstanceOf[HttpURLConnection]
    headers.foreach { case (k, v) => connection.setRequestProperty(k, v) }
    assert(connection.getResponseCode == 200, address)
    new String(connection.getInputStream.readAllBytes(), "UTF-8")
  }

  protected def json(address: String): JsonNode = new ObjectMapper().readTree(get(address))

  protected def cacheTable(spark: SparkSession): Unit = {
    spark.range(0, 100000, 1, 2).selectExpr("id", "xxhash64(id) h").createOrReplaceTempView(s"`$table`")
    spark.sql(s"CACHE TABLE `$table`")
    assert(spark.table(s"`$table`").count() == 100000)
  }
}
