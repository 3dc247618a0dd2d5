package org.apache.spark.warmset

import java.io.File

import scala.collection.mutable

import org.apache.spark.{SparkConf, SparkContext, SparkEnv, TaskContext}
import org.apache.spark.internal.config
import org.apache.spark.rdd.{DeterministicLevel, LocalRDDCheckpointData, RDD, RDDCheckpointData}
import org.apache.spark.storage.BlockId
import org.apache.spark.storage.memory.warmset.{IdleBlocks, OwnedValues, WarmMemoryStore}
import org.apache.spark.util.KnownSizeEstimation

/** A value that tells Spark its heap size itself. Here because the trait is Spark's own. */
abstract class SizedHandle extends KnownSizeEstimation

/**
 * What Warmset asks of Spark that Spark keeps to itself; nothing else of ours refers to these.
 *
 * Invariant: reads only, but for `installMemoryStore`, `removeBlock`, `leaveToDisk`, `removeIfIdle` and
 * `packIdle`.
 */
object SparkInternals {
  def encryptionEnabled(conf: SparkConf): Boolean = conf.get(config.IO_ENCRYPTION_ENABLED)

  /** The executor of a local application has the id of the driver. */
  val DriverId: String = SparkContext.DRIVER_IDENTIFIER

  def isLocal(sc: SparkContext): Boolean = sc.isLocal

  /** Bytes that Spark may take outside the heap on its own account. */
  def offHeapBytes(conf: SparkConf): Long =
    if (conf.get(config.MEMORY_OFFHEAP_ENABLED)) conf.get(config.MEMORY_OFFHEAP_SIZE) else 0L

  /** This process's directories for blocks: they exist, and go when the application ends. */
  def localDirs: Seq[File] = SparkEnv.get.blockManager.diskBlockManager.localDirs.toSeq

  /** Waits until nobody reads the block, then removes it from this process. */
  def removeBlock(block: BlockId): Unit =
    Option(SparkEnv.get).foreach(_.blockManager.removeBlock(block))

  /** Waits as `removeBlock` does, then drops the block from memory if Spark has it on its disk, too. */
  def leaveToDisk(block: BlockId): Unit =
    Option(SparkEnv.get).foreach(IdleBlocks.leaveToDisk(_, block))

  /** Removes the block as `removeBlock` does, but only if nobody reads or writes it now. */
  def removeIfIdle(block: BlockId, recomputable: Boolean): Boolean =
    Option(SparkEnv.get).exists(IdleBlocks.remove(_, block, recomputable))

  /** Has so many bytes of RDDs that lie on the heap as objects, those used longest ago, put into regions. */
  def packIdle(bytes: Long): Unit =
    Option(SparkEnv.get).map(_.blockManager.memoryStore).foreach {
      case store: WarmMemoryStore => store.packIdle(bytes)
      case _ =>
    }

  /** Whether `removeIfIdle` leaves the block alone unless it is told that it is recomputable. */
  def needsLineage(block: BlockId): Boolean =
    Option(SparkEnv.get).exists(IdleBlocks.needsLineage(_, block))

  /**
   * On the driver: those of these RDDs of which Spark can compute any partition again, whatever is
   * unpersisted later. They are persisted, have no mark of a checkpoint, are not computed from a local
   * checkpoint either, and computed again they give the same elements, in whatever order.
   */
  def recomputable(sc: SparkContext, rdds: Seq[Int]): Seq[Int] = {
    val persisted = sc.getPersistentRDDs
    val clear = mutable.HashSet.empty[Int]
    rdds.filter(persisted.get(_).exists { rdd =>
      checkpoint(rdd).isEmpty && !computedFromBlocks(rdd, clear) &&
      rdd.outputDeterministicLevel != DeterministicLevel.INDETERMINATE
    })
  }

  /** On the driver: whether a persisted RDD is of a local checkpoint, or computed from one. */
  def ofLocalCheckpoint(sc: SparkContext, rdd: Int): Boolean =
    sc.getPersistentRDDs.get(rdd).exists(computedFromBlocks(_, mutable.HashSet.empty))

  /** On the driver: how many partitions a persisted RDD has (0: it is not known), and how many executors there are. */
  def spread(sc: SparkContext, rdd: Int): Array[Int] = {
    val partitions = sc.getPersistentRDDs.get(rdd).map(_.getNumPartitions)
    val others = if (sc.isLocal) 0 else 1
    Array(partitions.getOrElse(0), math.max(1, sc.getExecutorMemoryStatus.size - others))
  }

  /** Looks at each RDD once: those known to be computed from none are in `clear`. */
  private def computedFromBlocks(rdd: RDD[_], clear: mutable.HashSet[Int]): Boolean = {
    val seen = mutable.HashSet.empty[Int]
    val open = mutable.Stack[RDD[_]](rdd)
    var found = false
    while (!found && open.nonEmpty) {
      val next = open.pop()
      if (!clear.contains(next.id) && seen.add(next.id)) {
        found = checkpoint(next).exists(_.isInstanceOf[LocalRDDCheckpointData[_]])
        open.pushAll(next.dependencies.map(_.rdd))
      }
    }
    if (!found) clear ++= seen
    found
  }

  /** The lock makes the marks of other threads seen. Spark takes it inside others: only for this. */
  private def checkpoint(rdd: RDD[_]): Option[RDDCheckpointData[_]] =
    RDDCheckpointData.synchronized(rdd.checkpointData)

  /** Throws if this thread's task has been killed. */
  def killTaskIfInterrupted(): Unit =
    Option(TaskContext.get()).foreach(_.killTaskIfInterrupted())

  def installMemoryStore(owned: OwnedValues): Unit =
    WarmMemoryStore.install(SparkEnv.get, owned)
}
