package io.warmset.spark

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.storage.{BlockId, RDDBlockId, RDDInfo, StorageLevel}
import org.apache.spark.storage.memory.warmset.TestBlocks
import org.apache.spark.warmset.Listeners

/** The store's regions, for tests that break them behind our back. */
object StoreAccess {
  def destroy(region: Long): Unit =
    io.warmset.region.RegionAccess.destroy(StoreHolder.current.get.store, region)

  def regions: Seq[JsonNode] =
    new ObjectMapper().readTree(StoreHolder.current.get.store.regions()).elements.asScala.toSeq

  /** How often segments are held now. */
  def pins: Long = regions.map(_.path("pins").asLong).sum
}

/** The cached blocks of this process, for tests that take them away. */
object BlockAccess {
  def onlyRddBlock(env: SparkEnv): BlockId = {
    val blocks = TestBlocks.rddBlocks(env)
    require(blocks.length == 1, s"expected one cached block, found $blocks")
    blocks.head
  }

  def rddBlocks(env: SparkEnv): Seq[BlockId] = TestBlocks.rddBlocks(env)

  def inMemory(block: BlockId): Boolean = TestBlocks.inMemory(SparkEnv.get, block)

  /** Where the block lies on disk, if it does. */
  def file(env: SparkEnv, block: BlockId): java.io.File = TestBlocks.file(env, block)

  /** For each block, the executors that the master knows it on. */
  def locations(env: SparkEnv, blocks: Seq[BlockId]): Seq[Seq[String]] =
    TestBlocks.locations(env, blocks)

  /** The cached RDDs as Spark's own pages show them, once all events so far have reached those pages. */
  def stored(sc: SparkContext): Seq[RDDInfo] = {
    Listeners.drain(sc)
    sc.getRDDStorageInfo.toSeq
  }

  /** Bytes that Spark holds for blocks on their way into its memory store. */
  def unrollMemory: Long = TestBlocks.unrollMemory(SparkEnv.get)

  /** Of Spark's memory: what blocks take. */
  def storageMemory: Long = TestBlocks.storageMemory(SparkEnv.get)

  /** Has Spark free memory for a task; what blocks took before, and what it says became free. */
  def free(bytes: Long): (Long, Long) = TestBlocks.free(SparkEnv.get, bytes)

  /** Reads a little of the block as the memory store gives it, and forgets the reader. */
  def beginReading(env: SparkEnv, block: BlockId): Unit = TestBlocks.beginReading(env, block)

  /** Puts the first block of an RDD in the name of no task, as those are put that come from other executors. */
  def put(rdd: Int, values: Iterator[Any], level: StorageLevel): Unit =
    TestBlocks.putAnonymously(SparkEnv.get, RDDBlockId(rdd, 0), values, level)

  /** Takes it away; whether it was in memory. */
  def drop(rdd: Int): Boolean = {
    val block = RDDBlockId(rdd, 0)
    val was = inMemory(block)
    TestBlocks.drop(SparkEnv.get, block)
    was
  }

  def evict(env: SparkEnv, block: BlockId): Unit = TestBlocks.evict(env, block)
}
