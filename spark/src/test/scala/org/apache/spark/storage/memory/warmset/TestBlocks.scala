package org.apache.spark.storage.memory.warmset

import java.nio.ByteBuffer

import scala.reflect.ClassTag
import scala.util.Try

import org.apache.spark.SparkEnv
import org.apache.spark.memory.MemoryMode
import org.apache.spark.network.buffer.NioManagedBuffer
import org.apache.spark.storage.{BlockId, StorageLevel}
import org.apache.spark.storage.memory.{BlockEvictionHandler, DeserializedMemoryEntry}
import org.apache.spark.storage.memory.{MemoryEntry, MemoryStore}

/** Evicts blocks by the steps that Spark's memory store takes. */
object TestBlocks {
  def rddBlocks(env: SparkEnv): Seq[BlockId] =
    env.blockManager.getMatchingBlockIds(_.isRDD).distinct.toSeq

  def inMemory(env: SparkEnv, block: BlockId): Boolean = env.blockManager.memoryStore.contains(block)

  def file(env: SparkEnv, block: BlockId): java.io.File =
    env.blockManager.diskBlockManager.getFile(block)

  def locations(env: SparkEnv, blocks: Seq[BlockId]): Seq[Seq[String]] =
    env.blockManager.master.getLocations(blocks.toArray).map(_.map(_.executorId))

  def unrollMemory(env: SparkEnv): Long = env.blockManager.memoryStore.currentUnrollMemory

  /** Has Spark free memory as when a task needs some; how much was used before, and how much it says is free. */
  def free(env: SparkEnv, bytes: Long): (Long, Long) = env.memoryManager.synchronized {
    val used = env.memoryManager.storageMemoryUsed
    (used, env.blockManager.memoryStore.evictBlocksToFreeSpace(None, bytes, MemoryMode.ON_HEAP))
  }

  def storageMemory(env: SparkEnv): Long = env.memoryManager.storageMemoryUsed

  def evict(env: SparkEnv, block: BlockId): Unit = {
    val manager = env.blockManager
    val locks = manager.blockInfoManager
    require(locks.lockForWriting(block).isDefined, s"$block is not there")
    val entry = field("entries").asInstanceOf[java.util.Map[BlockId, MemoryEntry[Any]]].get(block)
    val values = entry.asInstanceOf[DeserializedMemoryEntry[Any]].value
    val handler = field("blockEvictionHandler").asInstanceOf[BlockEvictionHandler]
    val level = handler.dropFromMemory[Any](block, () => Left(values))(entry.classTag)
    if (level.isValid) locks.unlock(block) else locks.removeBlock(block)
    require(!manager.memoryStore.contains(block), s"$block was not evicted")
  }

  /**
   * Takes a replica in as from another executor, hence without a task; whether it is kept.
   *
   * @param spoil may change the bytes on their way
   */
  def receive(env: SparkEnv, block: BlockId, elements: Iterator[Any], level: StorageLevel)(
      spoil: Array[Byte] => Unit): Boolean = {
    val bytes = env.serializerManager.dataSerialize(block, elements)(ClassTag.Any).toArray
    spoil(bytes)
    env.blockManager.putBlockData(
      block, new NioManagedBuffer(ByteBuffer.wrap(bytes)), level, ClassTag.Any)
  }

  def putAnonymously(env: SparkEnv, block: BlockId, values: Iterator[Any], level: StorageLevel): Unit =
    env.blockManager.putIterator(block, values, level, tellMaster = false)(ClassTag.Any)

  def drop(env: SparkEnv, block: BlockId): Unit = env.blockManager.removeBlock(block, tellMaster = false)

  /** What the memory store gives the readers of a block. */
  def values(env: SparkEnv, block: BlockId): Iterator[Any] =
    env.blockManager.memoryStore.getValues(block).get

  /** Reads a little of the block, and forgets the reader. */
  def beginReading(env: SparkEnv, block: BlockId): Unit = {
    val store = env.blockManager.memoryStore
    if (env.blockManager.blockInfoManager.get(block).get.level.deserialized) {
      require(store.getValues(block).get.hasNext)
    } else {
      require(store.getBytes(block).get.toInputStream().read() >= 0)
    }
  }

  /**
   * Puts elements by a store of this process whose values are `owned`; whether they are in it then,
   * and what the put threw.
   */
  def put(env: SparkEnv, owned: OwnedValues, block: BlockId, elements: Seq[Any]): (Boolean, Try[_]) = {
    val manager = env.blockManager
    val store = new WarmMemoryStore(manager, env.memoryManager,
      field("blockEvictionHandler").asInstanceOf[BlockEvictionHandler], owned)
    val result =
      Try(store.putIteratorAsValues(block, elements.iterator, MemoryMode.ON_HEAP, ClassTag.Any))
    val stored = store.contains(block)
    store.remove(block)
    (stored, result)
  }

  /** What Spark's memory store keeps to itself. */
  private def field(name: String): AnyRef = {
    val found = classOf[MemoryStore].getDeclaredField(name)
    found.setAccessible(true)
    found.get(SparkEnv.get.blockManager.memoryStore)
  }
}
