package io.warmset.spark.ui

import java.time.ZoneOffset

import org.scalatest.funsuite.AnyFunSuite

/** The tab's content, from views of every kind. */
class WarmsetRenderSuite extends AnyFunSuite {
  import Views._

  private def content(view: WarmsetView) =
    WarmsetRender.content(view, id => Some(s"/storage/rdd/?id=$id"), ZoneOffset.UTC)

  private def text(view: WarmsetView): String =
    parse(content(view)).getDocumentElement.getTextContent

  test("no report yet: says so and shows no table") {
    val document = parse(content(view(executors = Nil, caches = Nil, series = Nil)))
    assert(document.getDocumentElement.getTextContent.contains("No executor has reported yet"))
    assert(elements(document, "table").isEmpty)
  }

  test("nothing cached: says what to do, and shows the executors and the budget") {
    val document = parse(content(view(caches = Nil)))
    assert(document.getDocumentElement.getTextContent.contains("Nothing is cached in regions yet"))
    assert(elements(document, "table").map(_.getAttribute("id")) == Seq("warmset-executors"))
  }

  test("not in use: gives the reason, escaped, and nothing else") {
    val document = parse(content(view(state = StoreState.Stock(s"spark.warmset.dir: $Hostile"))))
    assert(document.getDocumentElement.getTextContent.contains(s"spark.warmset.dir: $Hostile"))
    assert(elements(document, "script").isEmpty && elements(document, "table").isEmpty)
  }

  test("one executor: its numbers with units, and the same as total") {
    val said = text(view())
    Seq("1.0 GiB", "512.0 MiB", "500.0 MiB", "1.5 ms", "io_uring", "lineitem", "4 / 4", "50 %",
      "1 reporting").foreach(part => assert(said.contains(part), part))
    val rows = elements(parse(content(view())), "tfoot")
    assert(rows.length == 2)
  }

  test("many executors: totals count those that are alive, rows and bars are bounded") {
    val many = (0 until 500).map(i => executor(s"$i")) :+ executor("dead").copy(active = false)
    val document = parse(content(view(executors = many)))
    val table = elements(document, "table").find(_.getAttribute("id") == "warmset-executors").get
    assert(table.getElementsByTagName("tr").getLength == Tables.ExecutorsMax + 2)
    val said = document.getDocumentElement.getTextContent
    assert(said.contains("500 reporting") && said.contains("500.0 GiB"))
    assert(said.contains("and 301 more executors"))
    val bars = elements(document, "div").count(_.getAttribute("class") == "warmset-bar")
    assert(bars == 1 + TiersBar.BarsMax)
  }

  test("many caches: the largest are shown, and a line says how many are not") {
    val many = (0 until 130).map(i => cache(s"t$i", i))
    val said = text(view(caches = many))
    assert(said.contains("t0") && !said.contains("t129") && said.contains("and 30 more tables"))
  }

  test("hostile names are inert in text, attributes and the drawing") {
    val hostile = view(
      executors = Seq(
        executor(Hostile).copy(host = Some(Hostile)),
        executor("x", Some(stats().copy(ioBackend = Hostile, pagePolicy = Hostile))),
        executor("y", None).copy(problem = Some(Hostile))),
      caches = Seq(cache(Hostile), cache("a\u0000b\u001b[31m", 4), cache("", 5)))
    val rendered = content(hostile)
    val document = parse(rendered)
    assert(elements(document, "script").isEmpty && elements(document, "img").isEmpty)
    val attributes = elements(document, "*").flatMap { e =>
      (0 until e.getAttributes.getLength).map(e.getAttributes.item(_).getNodeName)
    }
    assert(!attributes.exists(_.startsWith("on")))
    assert(document.getDocumentElement.getTextContent.contains(Hostile))
    // A browser's parser is not an XML parser: neither may see a tag of the user's.
    assert(!rendered.map(_.toString).mkString.contains("<script"))
  }

  test("long names are cut") {
    val document = parse(content(view(caches = Seq(cache("x" * 5000)))))
    val name = elements(document, "a").map(_.getTextContent).find(_.startsWith("xx")).get
    assert(name.length < 300)
  }

  test("links go to the storage page below the given base") {
    val links = elements(parse(content(view())), "a").map(_.getAttribute("href"))
    assert(links == Seq("/storage/rdd/?id=3"))
  }

  test("huge numbers") {
    val huge = stats(Long.MaxValue, Long.MaxValue, Long.MaxValue, Long.MaxValue, Long.MaxValue)
    val series = Seq(BudgetPoint(0, Long.MaxValue, Long.MaxValue, 0, 1),
      BudgetPoint(Long.MaxValue / 2, Long.MaxValue, 0, Long.MaxValue, 1))
    val said = text(view(executors = Seq(executor("1", Some(huge))),
      caches = Seq(cache("t", bytes = Long.MaxValue)), series = series))
    assert(said.contains("8.0 EiB") && said.contains("9,223,372,036,854,775,807"))
  }

  test("executors without a store are named with the reason") {
    val said = text(view(executors =
      Seq(executor("1"), executor("2", None).copy(problem = Some("no room in /data")))))
    assert(said.contains("Executor 2: no room in /data") && said.contains("no store"))
  }

  test("every column and title explains itself") {
    val document = parse(content(view()))
    val heads = elements(document, "th").flatMap(h => Option(h.getElementsByTagName("span").item(0)))
    assert(heads.length == elements(document, "th").length)
    heads.foreach { h =>
      val explain = h.asInstanceOf[org.w3c.dom.Element].getAttribute("title")
      assert(explain.length > 15, h.getTextContent)
    }
  }

  test("no element is closed in a way that HTML does not know") {
    val html = content(view()).map(_.toString).mkString
    val closed = "<([a-z]+)[^>]*/>".r.findAllMatchIn(html).map(_.group(1)).toSet
    assert(closed.isEmpty, closed)
  }
}
