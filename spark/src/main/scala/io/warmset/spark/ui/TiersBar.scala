package io.warmset.spark.ui

import scala.xml.Node

import io.warmset.spark.Units

/**
 * Where the cached bytes are: in memory, or on disk only, as stacked bars.
 *
 * Invariant: the widths of a bar are shares of its whole and sum to at most 100 %; each part is also
 * said in words. At most `BarsMax` executors get a bar of their own, the fullest first.
 */
object TiersBar {
  val BarsMax = 12

  def render(view: WarmsetView): Seq[Node] = {
    val rows = view.executors.filter(e => e.active && e.stats.isDefined)
    val all = bar("all", view.totals.residentBytes, view.totals.diskOnlyBytes)
    val single =
      if (rows.length < 2) Nil
      else rows.sortBy(e => -e.stats.get.liveBytes).take(BarsMax)
        .flatMap(e => bar(e.id, e.stats.get.residentBytes, e.stats.get.diskOnlyBytes))
    val rest = if (rows.length > BarsMax) {
      Html.note(s"The ${BarsMax} executors that hold most, of ${rows.length}.")
    } else {
      Nil
    }
    <div class="warmset-legend">
      {key("--w-resident", "in memory")}
      {key("--w-disk", "on disk only")}
    </div> ++
      <div class="warmset-bars">{all ++ single}</div> ++ rest
  }

  private def bar(label: String, resident: Long, onDisk: Long): Seq[Node] = {
    val whole = resident.toDouble + onDisk
    val said = s"${Units.bytes(resident)} in memory (${Tables.share(resident, resident + onDisk)}), " +
      s"${Units.bytes(onDisk)} on disk only"
    <div>{label}</div>
    <div class="warmset-bar" role="img" aria-label={said} title={said}>
      {part("--w-resident", resident, whole)}{part("--w-disk", onDisk, whole)}
    </div>
    <div class="warmset-note">{said}</div>
  }

  private def part(colour: String, bytes: Long, whole: Double): Seq[Node] =
    if (bytes <= 0) Nil
    else {
      val width = "%.3f".formatLocal(java.util.Locale.US, 100 * bytes / whole)
      <div style={s"width: $width%; background: var($colour)"}></div>
    }

  private def key(colour: String, text: String): Node =
    <span><svg width="14" height="14" aria-hidden="true"><rect width="14" height="14" rx="2"
      style={s"fill: var($colour)"}></rect></svg>{text}</span>
}
