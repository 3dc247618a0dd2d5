package org.apache.spark.ui.warmset

import io.warmset.spark.{StatsHistory, StatsReport}
import io.warmset.spark.ui._
import org.scalatest.funsuite.AnyFunSuite

/** From reports to the view. */
class ViewBuilderSuite extends AnyFunSuite {
  import ViewBuilder.{Known, Rdd}
  import Views._

  private def build(
      reports: Seq[StatsReport],
      executors: Map[String, Known] = Map.empty,
      rdds: Map[Int, Rdd] = Map.empty): WarmsetView =
    ViewBuilder.build(StoreState.Running, reports.groupBy(_.executorId), executors, rdds, 10000)

  private val alive = Known(Some("h:1"), active = true, None)

  private def region(id: Int, block: String, bytes: Long) =
    s"""{"id":$id,"segments":2,"bytes":$bytes,"resident_bytes":${bytes / 2},"file_bytes":7,""" +
      s""""pins":0${if (block.isEmpty) "" else s""","block":"$block""""}}"""

  test("regions are gathered by the RDD that they belong to, over executors, largest first") {
    val a = Seq(region(1, "rdd_4_0", 100), region(2, "rdd_4_1", 100), region(3, "", 50))
    val b = Seq(region(1, "rdd_4_2", 100), region(2, "rdd_9_0", 1000))
    val view = build(
      Seq(report("0", 1, 5, a.mkString("[", ",", "]")), report("1", 2, 5, b.mkString("[", ",", "]"))),
      Map("0" -> alive, "1" -> alive), Map(4 -> Rdd("lineitem", 3)))
    assert(view.caches == Seq(
      CacheRow(Some(9), "RDD 9", 1, None, 2, 1000, 500, 7),
      CacheRow(Some(4), "lineitem", 3, Some(3), 6, 300, 150, 21),
      CacheRow(None, "", 1, None, 2, 50, 25, 7)))
    assert(view.totals.usedBytes == 10 && view.totals.diskOnlyBytes == 10)
  }

  test("executors that are gone are listed, and do not count") {
    val view = build(Seq(report("0", 1, 5, s"[${region(1, "rdd_1_0", 10)}]"), report("1", 2, 6)),
      Map("0" -> Known(None, active = false, Some(5L)), "1" -> alive))
    assert(view.executors.map(e => e.id -> e.active) == Seq("0" -> false, "1" -> true))
    assert(view.totals.usedBytes == 6 && view.caches.isEmpty)
    assert(view.series.last.usedBytes == 6 && view.series.head.usedBytes == 5)
  }

  test("a cluster's driver is no executor; one that has not reported is listed") {
    val view = build(Nil, Map("driver" -> alive, "10" -> alive, "9" -> alive))
    assert(view.executors.map(_.id) == Seq("9", "10") && view.executors.forall(_.stats.isEmpty))
    assert(build(Seq(report("driver", 1, 5))).executors.map(_.id) == Seq("driver"))
  }

  test("reports that cannot be read count as none") {
    val broken = Seq("", "nonsense", "[1,2", "null", "[]", "7", "{\"used_bytes\":\"x\"}")
    broken.foreach { json =>
      val view = build(Seq(StatsReport("0", 1, json, json)))
      assert(view.caches.isEmpty && view.totals.usedBytes == 0, json)
    }
    assert(build(Seq(StatsReport("0", 1, "{\"problem\":\"no disk\"}", "[]")))
      .executors.head.problem.contains("no disk"))
  }

  test("names of cached tables") {
    assert(ViewBuilder.displayName("In-memory table lineitem") == "lineitem")
    assert(ViewBuilder.displayName("In-memory table `a-b`") == "a-b")
    assert(ViewBuilder.displayName("In-memory table `a`.`b`") == "`a`.`b`")
    assert(ViewBuilder.displayName("*(1) Range\n +- x\t") == "*(1) Range +- x")
  }

  test("the sums per RDD that are recorded give the same rows") {
    val all = Seq(region(1, "rdd_4_0", 100), region(2, "rdd_4_1", 100), region(3, "", 50))
      .mkString("[", ",", "]")
    assert(build(Seq(report("0", 1, 5, all))).caches ==
      build(Seq(report("0", 1, 5, ReportJson.perRdd(all)))).caches)
  }

  test("the history keeps the regions of an executor's last report only") {
    val history = new StatsHistory
    (1 to 3).foreach(t => history.add(report("0", t, t, "[1]")))
    history.add(report("0", 1, 9, "[2]"))
    assert(history.points("0").map(p => p.timeMs -> p.regionsJson) ==
      Seq(1L -> "", 1L -> "", 2L -> "", 3L -> "[1]"))
  }

  test("what is recorded: the first, the last, and at most one per interval") {
    val posted = scala.collection.mutable.ArrayBuffer.empty[SparkListenerWarmsetReport]
    val recorder = new HistoryRecorder(
      { case r: SparkListenerWarmsetReport => posted += r; case _ => }, 100)
    Seq(0, 10, 50, 120, 130, 140).foreach(t => recorder.add(report("a", t, t)))
    recorder.add(report("b", 60, 1))
    recorder.flush()
    recorder.flush()
    assert(posted.map(r => r.executorId -> r.timeMs) ==
      Seq("a" -> 0L, "a" -> 120L, "b" -> 60L, "a" -> 140L))
  }

  test("the totals for a cluster's metrics") {
    val sums = new TotalsGauges.Sums(Seq("used_bytes", "waits_total", "absent"),
      () => Seq(statsJson(5), statsJson(6)))
    assert(Seq("used_bytes", "waits_total", "absent").map(sums(_)) == Seq(11, 2, 0))
  }
}
