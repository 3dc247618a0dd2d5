package io.warmset.spark

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

/**
 * Which of Spark's blocks each region of this process belongs to, for people to know it by.
 *
 * Invariant: a region that has gone is forgotten at the next look, so that the map is no larger than
 * the store's list of regions plus what was added since. It holds names only, and keeps nothing alive.
 */
private[spark] object RegionBlocks {
  private val blocks = new ConcurrentHashMap[Long, String]
  private val mapper = new ObjectMapper

  def put(region: Long, block: String): Unit = blocks.put(region, block)

  /** The JSON array that `regions` gives, with the block's name as "block" in each that is known. */
  def annotate(regions: () => String): String = {
    // Taken first: what is added later may not be in the list yet.
    val known = blocks.keySet.asScala.toSet
    val list = mapper.readTree(regions())
    val seen = list.elements.asScala.collect { case region: ObjectNode =>
      val id = region.path("id").asLong
      Option(blocks.get(id)).foreach(region.put("block", _))
      id
    }.toSet
    (known -- seen).foreach(blocks.remove(_))
    list.toString
  }
}
