package io.warmset.spark.ui

import java.time.{ZoneId, ZoneOffset}

import org.scalatest.funsuite.AnyFunSuite

import io.warmset.spark.StatsReport

/** The chart, and the series that it shows. */
class BudgetChartSuite extends AnyFunSuite {
  import Views._

  private val numbers = "-?\\d+(\\.\\d+)?".r

  private def paths(points: Seq[BudgetPoint], zone: ZoneId = ZoneOffset.UTC): Map[String, String] =
    elements(parse(BudgetChart.render(points, zone)), "path")
      .map(p => p.getAttribute("class") -> p.getAttribute("d"))
      .filterNot(_._2 == "M0 5H26").toMap

  private def withinFrame(points: Seq[BudgetPoint]): Unit =
    paths(points).values.foreach { d =>
      numbers.findAllIn(d).map(_.toDouble).foreach(v => assert(v >= 0 && v <= 1000, d))
    }

  test("no point: words instead of a drawing") {
    assert(parse(BudgetChart.render(Nil)).getDocumentElement.getTextContent.contains("No executor"))
  }

  test("one point: a level line over the whole width") {
    withinFrame(points(1))
    assert(paths(points(1)).keySet == Set("area", "budget", "used", "resident", "flash"))
  }

  test("a thousand points: all lines, at most 120 stripes, marks with units") {
    withinFrame(points(1000))
    val document = parse(BudgetChart.render(points(1000), ZoneOffset.UTC))
    assert(elements(document, "rect").length <= 120)
    val marks = elements(document, "text").map(_.getTextContent.trim)
    assert(marks.contains("1 GiB") && marks.contains("0 B") && marks.contains("bytes"))
    assert(marks.exists(_.matches("\\d\\d:\\d\\d:\\d\\d")) && marks.contains("time of day (Z)"))
  }

  test("zero, enormous and equal values stay within the frame") {
    val times = Seq(0L, 1L, 2L, Long.MaxValue / 4)
    Seq(0L, 1L, Long.MaxValue).foreach { v =>
      withinFrame(times.map(BudgetPoint(_, v, v, v, v)))
    }
  }

  test("where heap and pool share a budget, both are drawn, and their sum") {
    val shared = points(5).map(_.copy(poolBytes = 300 * MiB, heapBytes = 700 * MiB,
      totalBytes = 2048 * MiB))
    withinFrame(shared)
    assert(paths(shared).keySet ==
      Set("area", "budget", "used", "resident", "flash", "heap", "total", "total-budget"))
    val text = parse(BudgetChart.render(shared)).getDocumentElement.getTextContent
    assert(Seq("Java heap 700.0 MiB", "heap and pool 1000.0 MiB", "total budget 2.0 GiB")
      .forall(text.contains), text)
  }

  test("a report with a split counts in the series, one without does not") {
    val json = statsJson(10).stripSuffix("}") + ""","total_budget_bytes":50,"heap_committed_bytes":30,
      |"heap_used_bytes":20,"split_moves_total":3}""".stripMargin
    val a = BudgetSeries.Source(Vector(StatsReport("a", 100, json, "[]")), None)
    val b = BudgetSeries.Source(Vector(report("b", 100, 5)), None)
    val point = BudgetSeries.of(Seq(a, b), 200).last
    assert((point.heapBytes, point.totalBytes, point.poolBytes) == ((30, 50, 15)))
    val stats = ReportJson.stats(json).get + ReportJson.stats(statsJson(5)).get
    assert(stats.split.map(_.moves).contains(3) && ReportJson.stats(statsJson(5)).get.split.isEmpty)
    val shown = ViewJson.of(view(Seq(executor("1", Some(stats))))).toString
    assert(shown.contains("heap_committed_bytes") && shown.contains("split_moves_total"))
  }

  test("the marks of the axes are few and round") {
    Seq(1L, 5L, 6L, 1023L, 1L << 30, (5L << 30) + 1, Long.MaxValue).foreach { highest =>
      val step = BudgetChart.stepBytes(highest)
      assert(java.lang.Long.bitCount(step) == 1 && highest.toDouble / step <= 5)
    }
    Seq(1000L, 61000L, 3600000L, 86400000L, 90 * 86400000L).foreach { span =>
      assert(span.toDouble / BudgetChart.stepMs(span) <= 8)
    }
  }

  test("the series sums the last reports of each executor, until it has gone") {
    val a = BudgetSeries.Source(Vector(report("a", 100, 10), report("a", 300, 30)), None)
    val b = BudgetSeries.Source(Vector(report("b", 200, 5)), Some(250))
    val series = BudgetSeries.of(Seq(a, b), 400)
    assert(series.map(p => p.timeMs -> p.usedBytes) ==
      Seq(100L -> 10L, 200L -> 15L, 250L -> 10L, 300L -> 30L, 400L -> 30L))
  }

  test("the series is bounded and keeps its ends, however many reports there are") {
    val sources = (0 until 300).map { e =>
      BudgetSeries.Source((0 until 720).map(i => report(s"$e", 1000L + i * 3000 + e, 1)), None)
    }
    val series = BudgetSeries.of(sources, 5000000)
    assert(series.length <= 134 && series.head.timeMs == 1000 && series.last.timeMs == 5000000)
    assert(series.last.usedBytes == 300)
    assert(series.map(_.timeMs) == series.map(_.timeMs).distinct.sorted)
  }
}
