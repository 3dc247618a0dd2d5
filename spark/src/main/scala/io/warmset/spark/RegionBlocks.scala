package io.warmset.spark

import java.util.concurrent.ConcurrentHashMap

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import org.apache.spark.storage.BlockId

/**
 * Which of Spark's blocks each region of this process belongs to: for people to know it by, and to
 * find the block that goes when a region has to.
 *
 * Invariant: a region that has gone is forgotten at the next look, so that the map is no larger than
 * the store's list of regions plus what was added since. It holds names only, and keeps nothing alive.
 */
private[spark] object RegionBlocks {
  private val blocks = new ConcurrentHashMap[Long, BlockId]
  private val mapper = new ObjectMapper

  def put(region: Long, block: BlockId): Unit = blocks.put(region, block)

  def of(region: Long): Option[BlockId] = Option(blocks.get(region))

  /** The next store counts its regions from one again. */
  def clear(): Unit = blocks.clear()

  /** The JSON array that `regions` gives, with the block's name as "block" in each that is known. */
  def annotate(regions: () => String): String = {
    // Taken first: what is added later may not be in the list yet.
    val known = blocks.keySet.asScala.toSet
    val list = mapper.readTree(regions())
    val seen = list.elements.asScala.collect { case region: ObjectNode =>
      val id = region.path("id").asLong
      of(id).foreach(block => region.put("block", block.name))
      id
    }.toSet
    (known -- seen).foreach(blocks.remove(_))
    list.toString
  }
}
