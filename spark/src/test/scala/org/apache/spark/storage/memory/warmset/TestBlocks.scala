package org.apache.spark.storage.memory.warmset

import org.apache.spark.SparkEnv
import org.apache.spark.storage.BlockId

/** Evicts blocks by the steps that Spark's memory store takes. */
object TestBlocks {
  def rddBlocks(env: SparkEnv): Seq[BlockId] =
    env.blockManager.getMatchingBlockIds(_.isRDD).distinct.toSeq

  def inMemory(env: SparkEnv, block: BlockId): Boolean = env.blockManager.memoryStore.contains(block)

  def file(env: SparkEnv, block: BlockId): java.io.File =
    env.blockManager.diskBlockManager.getFile(block)

  def evict(env: SparkEnv, block: BlockId): Unit = {
    val manager = env.blockManager
    val locks = manager.blockInfoManager
    require(locks.lockForWriting(block).isDefined, s"$block is not there")
    val values = manager.memoryStore.getValues(block).get.toArray[Any]
    val level = manager.dropFromMemory[Any](block, () => Left(values))
    if (level.isValid) locks.unlock(block) else locks.removeBlock(block)
    require(!manager.memoryStore.contains(block), s"$block was not evicted")
  }
}
