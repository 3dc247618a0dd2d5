package io.warmset.spark.ui

import java.io.StringReader
import javax.xml.parsers.DocumentBuilderFactory

import scala.xml.Node

import org.xml.sax.InputSource

import io.warmset.spark.StatsReport

/** Views, reports and parsed pages for the tab's suites. */
object Views {
  val MiB: Long = 1L << 20
  val Hostile = """<script>alert(1)</script>"' onmouseover="x" &amp; <img src=x onerror=y>"""

  def stats(
      budget: Long = 1024 * MiB,
      used: Long = 512 * MiB,
      resident: Long = 500 * MiB,
      live: Long = 700 * MiB,
      waits: Long = 7): StoreStats =
    StoreStats.Zero.copy(budgetBytes = budget, poolBytes = used, usedBytes = used, hugeBytes = used,
      residentBytes = resident, liveBytes = live, flashBytes = 200 * MiB, waits = waits,
      waitNs = 1500000, regions = 4, segments = 350, ioBackend = "io_uring", pagePolicy = "huge")

  def executor(id: String, of: Option[StoreStats] = Some(stats())): ExecutorRow =
    ExecutorRow(id, Some("host:1"), active = true, of, of.map(_ => 1000L), None)

  def cache(name: String, rddId: Int = 3, bytes: Long = 700 * MiB): CacheRow =
    CacheRow(Some(rddId), name, 4, Some(4), 350, bytes, bytes / 2, bytes / 3)

  def points(n: Int): Seq[BudgetPoint] = (0 until n).map { i =>
    BudgetPoint(1700000000000L + i * 3000L, 1024 * MiB, i * MiB, i * MiB / 2, i * MiB / 4)
  }

  def view(
      executors: Seq[ExecutorRow] = Seq(executor("driver")),
      caches: Seq[CacheRow] = Seq(cache("lineitem")),
      series: Seq[BudgetPoint] = points(10),
      state: StoreState = StoreState.Running): WarmsetView =
    WarmsetView(state, executors, caches, series, 1700000600000L)

  def statsJson(used: Long, budget: Long = 1000, waits: Long = 1): String =
    s"""{"budget_bytes":$budget,"pool_bytes":$used,"used_bytes":$used,"huge_bytes":$used,
       |"resident_bytes":$used,"live_bytes":${used * 2},"waits_total":$waits,"wait_ns_total":5,
       |"flash_bytes":$used,"regions":1,"segments":2,"io_backend":"threads","page_policy":"base"}"""
      .stripMargin

  def report(executor: String, timeMs: Long, used: Long, regions: String = "[]"): StatsReport =
    StatsReport(executor, timeMs, statsJson(used), regions)

  /** What a browser would get, read back by a strict parser: fails on anything malformed. */
  def parse(content: Seq[Node]): org.w3c.dom.Document = {
    val factory = DocumentBuilderFactory.newInstance()
    val text = content.map(_.toString).mkString("<div>", "", "</div>")
    factory.newDocumentBuilder().parse(new InputSource(new StringReader(text)))
  }

  def elements(document: org.w3c.dom.Document, name: String): Seq[org.w3c.dom.Element] = {
    val list = document.getElementsByTagName(name)
    (0 until list.getLength).map(list.item(_).asInstanceOf[org.w3c.dom.Element])
  }
}
