package io.warmset.spark.ui

import org.json4s.JsonAST.{JArray, JBool, JField, JInt, JNull, JObject, JString, JValue}

/**
 * The view as JSON, for scripts: what the tab shows, in bytes, counts and milliseconds.
 *
 * Invariant: `schema` changes when a key changes its meaning or goes; statistics have the keys of
 * docs/reference/metrics.md. The rows are not bounded, unlike the page's.
 */
object ViewJson {
  val Schema = 1

  def of(view: WarmsetView): JValue = obj(
    "schema" -> JInt(Schema),
    "state" -> JString(view.state match {
      case StoreState.Running => "running"
      case StoreState.Recorded => "recorded"
      case _: StoreState.Stock => "stock"
    }),
    "reason" -> (view.state match {
      case StoreState.Stock(reason) => JString(reason)
      case _ => JNull
    }),
    "as_of_ms" -> JInt(view.asOfMs),
    "totals" -> stats(view.totals),
    "executors" -> JArray(view.executors.toList.map(executor)),
    "caches" -> JArray(view.caches.toList.map(cache)),
    "series" -> JArray(view.series.toList.map(point)))

  private def executor(e: ExecutorRow): JValue = obj(
    "id" -> JString(e.id),
    "host" -> text(e.host),
    "active" -> JBool(e.active),
    "problem" -> text(e.problem),
    "reported_at_ms" -> number(e.reportedAtMs),
    "stats" -> e.stats.map(stats).getOrElse(JNull))

  private def cache(c: CacheRow): JValue = obj(
    "rdd_id" -> number(c.rddId.map(_.toLong)),
    "name" -> JString(c.name),
    "partitions" -> JInt(c.partitions),
    "partitions_all" -> number(c.partitionsAll.map(_.toLong)),
    "segments" -> JInt(c.segments),
    "bytes" -> JInt(c.bytes),
    "resident_bytes" -> JInt(c.residentBytes),
    "file_bytes" -> JInt(c.diskBytes))

  private def point(p: BudgetPoint): JValue = obj(
    "time_ms" -> JInt(p.timeMs),
    "budget_bytes" -> JInt(p.budgetBytes),
    "used_bytes" -> JInt(p.usedBytes),
    "resident_bytes" -> JInt(p.residentBytes),
    "flash_bytes" -> JInt(p.flashBytes),
    "pool_bytes" -> JInt(p.poolBytes),
    "heap_bytes" -> JInt(p.heapBytes),
    "total_bytes" -> JInt(p.totalBytes))

  private def stats(s: StoreStats): JValue = obj(Seq(
    "budget_bytes" -> JInt(s.budgetBytes),
    "pool_bytes" -> JInt(s.poolBytes),
    "used_bytes" -> JInt(s.usedBytes),
    "window_bytes" -> JInt(s.windowBytes),
    "staging_bytes" -> JInt(s.stagingBytes),
    "huge_bytes" -> JInt(s.hugeBytes),
    "resident_bytes" -> JInt(s.residentBytes),
    "live_bytes" -> JInt(s.liveBytes),
    "flash_bytes" -> JInt(s.flashBytes),
    "written_bytes_total" -> JInt(s.writtenBytes),
    "read_bytes_total" -> JInt(s.readBytes),
    "promotions_total" -> JInt(s.promotions),
    "demotions_total" -> JInt(s.demotions),
    "waits_total" -> JInt(s.waits),
    "wait_ns_total" -> JInt(s.waitNs),
    "streamed_total" -> JInt(s.streamed),
    "bounces_total" -> JInt(s.bounces),
    "mapped_total" -> JInt(s.mapped),
    "evictions_total" -> JInt(s.evictions),
    "regions" -> JInt(s.regions),
    "segments" -> JInt(s.segments),
    "io_backend" -> JString(s.ioBackend),
    "page_policy" -> JString(s.pagePolicy)) ++ s.split.toSeq.flatMap(split): _*)

  private def split(s: SplitStats): Seq[(String, JValue)] = Seq(
    "total_budget_bytes" -> JInt(s.totalBudgetBytes),
    "heap_committed_bytes" -> JInt(s.heapCommittedBytes),
    "heap_used_bytes" -> JInt(s.heapUsedBytes),
    "heap_allowed_bytes" -> JInt(s.heapAllowedBytes),
    "outside_bytes" -> JInt(s.outsideBytes),
    "split_moves_total" -> JInt(s.moves),
    "split_collections_total" -> JInt(s.collections),
    "split_over_ns_total" -> JInt(s.overNs))

  private def obj(fields: (String, JValue)*): JValue =
    JObject(fields.toList.map { case (key, value) => JField(key, value) })

  private def text(value: Option[String]): JValue = value.map(JString(_)).getOrElse(JNull)

  private def number(value: Option[Long]): JValue = value.map(JInt(_)).getOrElse(JNull)
}
