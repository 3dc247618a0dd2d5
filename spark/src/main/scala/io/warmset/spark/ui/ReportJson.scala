package io.warmset.spark.ui

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}

/**
 * Reads what executors report: the JSON of NativeStore.stats and NativeStore.regions.
 *
 * Invariant: any text gives a result; what is missing is 0 or empty, and what is no JSON object or
 * array is None or no regions. It does not check that the numbers agree with one another.
 */
object ReportJson {
  private val mapper = new ObjectMapper

  /** One region or several; `rddId` where they are known to hold partitions of an RDD. */
  final case class RegionEntry(
      rddId: Option[Int],
      regions: Int,
      segments: Long,
      bytes: Long,
      residentBytes: Long,
      fileBytes: Long)

  def stats(json: String): Option[StoreStats] = parse(json).filter(_.isObject).map { o =>
    def number(key: String) = math.max(0L, o.path(key).asLong)
    StoreStats(
      number("budget_bytes"),
      number("pool_bytes"),
      number("used_bytes"),
      number("window_bytes"),
      number("staging_bytes"),
      number("huge_bytes"),
      number("resident_bytes"),
      number("live_bytes"),
      number("flash_bytes"),
      number("written_bytes_total"),
      number("read_bytes_total"),
      number("promotions_total"),
      number("demotions_total"),
      number("waits_total"),
      number("wait_ns_total"),
      number("streamed_total"),
      number("bounces_total"),
      number("mapped_total"),
      number("evictions_total"),
      number("regions"),
      number("segments"),
      o.path("io_backend").asText(""),
      o.path("page_policy").asText(""),
      Some(o).filter(_.has("total_budget_bytes")).map(_ => SplitStats(
        number("total_budget_bytes"),
        number("heap_committed_bytes"),
        number("heap_used_bytes"),
        number("heap_allowed_bytes"),
        number("outside_bytes"),
        number("split_moves_total"),
        number("split_collections_total"),
        number("split_over_ns_total"))))
  }

  /** Why an executor that reported has no store. */
  def problem(json: String): Option[String] =
    parse(json).map(_.path("problem").asText("")).filter(_.nonEmpty)

  def regions(json: String): Seq[RegionEntry] =
    parse(json).filter(_.isArray).map(_.elements.asScala.filter(_.isObject).map(region).toSeq)
      .getOrElse(Nil)

  /**
   * The same array with the regions of each RDD summed into one entry ("rdd" instead of "block",
   * "regions" for their number), and those of no known block into another; the largest `most`.
   */
  def perRdd(json: String, most: Int = 100): String = {
    val array = mapper.createArrayNode()
    val sums = regions(json).groupBy(_.rddId).toSeq.map { case (id, of) =>
      (id, of.map(_.regions).sum, of.map(_.segments).sum, of.map(_.bytes).sum,
        of.map(_.residentBytes).sum, of.map(_.fileBytes).sum)
    }
    sums.sortBy(-_._4).take(most).foreach { case (id, count, segments, bytes, resident, file) =>
      val o = array.addObject()
      id.foreach(o.put("rdd", _))
      o.put("regions", count).put("segments", segments).put("bytes", bytes)
        .put("resident_bytes", resident).put("file_bytes", file)
    }
    array.toString
  }

  private def region(o: JsonNode): RegionEntry = RegionEntry(
    if (o.path("rdd").isInt) Some(o.path("rdd").asInt) else rddOf(o.path("block").asText("")),
    o.path("regions").asInt(1),
    o.path("segments").asLong,
    o.path("bytes").asLong,
    o.path("resident_bytes").asLong,
    o.path("file_bytes").asLong)

  private val RddBlock = "rdd_(\\d{1,9})_\\d+".r

  private def rddOf(block: String): Option[Int] = block match {
    case RddBlock(id) => Some(id.toInt)
    case _ => None
  }

  private def parse(json: String): Option[JsonNode] =
    try Option(json).filter(_.nonEmpty).map(mapper.readTree)
    catch { case NonFatal(_) => None }
}
