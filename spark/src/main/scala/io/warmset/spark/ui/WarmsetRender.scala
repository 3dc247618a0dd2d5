package io.warmset.spark.ui

import java.time.ZoneId

import scala.xml.Node

import io.warmset.spark.Units

/**
 * The tab's content: a pure function of the view.
 *
 * Invariant: whatever the view holds gives well-formed elements with every name escaped; when there
 * is nothing to show, words say why.
 */
object WarmsetRender {
  private val ProblemsMax = 5

  /** @param link the address of the storage page of an RDD */
  def content(
      view: WarmsetView,
      link: Int => Option[String],
      zone: ZoneId = ZoneId.systemDefault()): Seq[Node] =
    Html.style ++ <div class="warmset">{view.state match {
      case StoreState.Stock(reason) => stock(reason)
      case _ if view.executors.forall(e => e.stats.isEmpty && e.problem.isEmpty) => silent(view)
      case _ => messages(view) ++ parts(view, link, zone)
    }}</div>

  private def parts(view: WarmsetView, link: Int => Option[String], zone: ZoneId): Seq[Node] = {
    val cached = if (view.caches.isEmpty) Nil else {
      Html.section("warmset-tiers", "Where the cached bytes are",
        "Memory is fastest; what it does not hold is read from region files when it is needed.",
        TiersBar.render(view)) ++
        Html.section("warmset-cached", "Cached tables and RDDs",
          "What is cached in regions, under the names of Spark's Storage tab.",
          Tables.caches(view, link))
    }
    cached ++
      Html.section("warmset-budget", "Memory budget over time",
        "All executors together. A value holds until the next report.",
        BudgetChart.render(view.series, zone)) ++
      Html.section("warmset-stores", "Executors",
        "Each executor has one region store. Point at a column's head to see what it means.",
        Tables.executors(view)) ++
      Html.note(s"As of ${Units.time(view.asOfMs, zone)} (${zone.getId})." + (view.state match {
        case StoreState.Running =>
          " Executors report when something has changed. Reload the page for newer numbers."
        case _ => ""
      }))
  }

  private def stock(reason: String): Seq[Node] =
    alert("warning", "Warmset is not used in this application; Spark caches as it does without it.",
      Seq(reason))

  private def silent(view: WarmsetView): Seq[Node] = view.state match {
    case StoreState.Recorded => alert("info", "The event log holds no executor's report.", Nil)
    case _ =>
      alert("info", "No executor has reported yet.", Seq("Executors send their statistics a few " +
        "seconds after they start (spark.warmset.stats.interval). Reload the page to see them."))
  }

  private def messages(view: WarmsetView): Seq[Node] = {
    val problems = view.executors.filter(e => e.active && e.problem.isDefined)
    val recorded = if (view.state != StoreState.Recorded) Nil else {
      alert("info", "From the event log.", Seq("These are the last numbers that were recorded."))
    }
    val broken = if (problems.isEmpty) Nil else {
      val said = problems.take(ProblemsMax).map(e => s"Executor ${e.id}: ${e.problem.get}")
      val rest = problems.length - said.length
      alert("warning", "Some executors have no region store; what they cache is on the Java heap, " +
        "under Spark's own rules.", said ++ (if (rest > 0) Seq(s"… and $rest more") else Nil))
    }
    val empty = if (view.caches.nonEmpty) Nil else {
      alert("info", "Nothing is cached in regions yet.", Seq("DataFrame.cache(), persist() and CACHE " +
        "TABLE fill them with the first action that reads the data, and so do RDDs with " +
        "spark.warmset.rdd.enabled or persistWarm(). Small partitions stay on the " +
        "Java heap (spark.warmset.smallPartition), and so do RDDs for which Spark's memory has " +
        "room (spark.warmset.rdd.heapFirst)."))
    }
    recorded ++ broken ++ empty
  }

  private def alert(kind: String, title: String, lines: Seq[String]): Seq[Node] =
    <div class={s"alert alert-$kind"} role="status"><strong>{title}</strong>{lines.map(l =>
      <div>{l}</div>)}</div>
}
