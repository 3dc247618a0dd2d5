package org.apache.spark.storage.memory.warmset

import java.lang.reflect.{InvocationTargetException, Method}

import org.apache.spark.SparkEnv
import org.apache.spark.storage.{BlockId, BlockInfo, BlockManager}

/**
 * Takes cached blocks out of Spark's memory store; `remove` waits for nobody who uses them.
 *
 * Invariant: the block's lock for writing is held from the look to the removal, and nothing is held
 * when `remove` returns. The master is told as by Spark's own removal.
 */
private[spark] object IdleBlocks {
  /** Spark's own removal of a block whose lock is held; `removeBlock` would wait for the lock. */
  private lazy val removeLocked: Method = {
    val found =
      classOf[BlockManager].getDeclaredMethod("removeBlockInternal", classOf[BlockId], classOf[Boolean])
    found.setAccessible(true)
    found
  }

  /** Throws ReflectiveOperationException where Spark is not as expected. */
  def check(): Unit = removeLocked

  /** Whether the block is one that may go for good only if its RDD can be computed again. */
  def needsLineage(env: SparkEnv, block: BlockId): Boolean =
    env.blockManager.blockInfoManager.get(block).exists(needsLineage)

  /**
   * False if the block is not in memory, has to stay, or somebody reads or writes it. A copy on
   * disk stays.
   *
   * @param recomputable whether its RDD is known to be one that can be computed again
   */
  def remove(env: SparkEnv, block: BlockId, recomputable: Boolean): Boolean = {
    val manager = env.blockManager
    val locks = manager.blockInfoManager
    locks.lockForWriting(block, blocking = false) match {
      case None => false
      case Some(info)
          if !recomputable && needsLineage(info) && !manager.diskStore.contains(block) =>
        locks.unlock(block)
        false
      case Some(info) if manager.memoryStore.contains(block) && !manager.diskStore.contains(block) =>
        try removeLocked.invoke(manager, block, Boolean.box(info.tellMaster))
        catch { case failed: InvocationTargetException => throw failed.getCause }
        true
      case Some(_) =>
        try dropFromMemory(manager, block) finally locks.unlock(block)
    }
  }

  /** Waits for those who use the block, then drops it from memory if it is on disk. */
  def leaveToDisk(env: SparkEnv, block: BlockId): Unit = {
    val manager = env.blockManager
    manager.blockInfoManager.lockForWriting(block).foreach { _ =>
      try if (manager.diskStore.contains(block)) dropFromMemory(manager, block)
      finally manager.blockInfoManager.unlock(block)
    }
  }

  /**
   * At a level with disk Spark never drops a block for good, and one of a local checkpoint, or one
   * computed from it, could not be computed again. Only the driver can tell them from others.
   */
  private def needsLineage(info: BlockInfo): Boolean = info.level.useDisk

  /** The block is on disk, or nowhere: nothing is written. */
  private def dropFromMemory(manager: BlockManager, block: BlockId): Boolean = {
    val inMemory = manager.memoryStore.contains(block)
    if (inMemory) {
      manager.dropFromMemory[Any](block, () => throw new IllegalStateException(s"$block is on disk"))
    }
    inMemory
  }
}
