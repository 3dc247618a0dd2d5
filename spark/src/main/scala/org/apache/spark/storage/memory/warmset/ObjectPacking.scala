package org.apache.spark.storage.memory.warmset

import java.lang.reflect.{InvocationTargetException, Method}
import java.util.{LinkedHashMap => JLinkedHashMap}

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.internal.Logging
import org.apache.spark.memory.{MemoryManager, MemoryMode}
import org.apache.spark.storage.{BlockId, BlockInfo, BlockManager, BlockStatus, RDDBlockId, StorageLevel}
import org.apache.spark.storage.memory.DeserializedMemoryEntry
import org.apache.spark.util.SizeEstimator

/**
 * Packs RDD blocks that the memory store has as objects, in their place: where Spark would drop them,
 * or their memory is wanted for something else.
 *
 * Invariant: nobody reads or writes the block meanwhile (its lock for writing is taken, without
 * waiting), it stays in the store throughout, and Spark's memory gets back exactly what is reported.
 * A block that cannot be packed, or would become no smaller, stays as it is.
 */
private[warmset] final class ObjectPacking(
    manager: BlockManager,
    memory: MemoryManager,
    entries: JLinkedHashMap[BlockId, AnyRef],
    owned: OwnedValues)
  extends Logging {
  import ObjectPacking._

  val blocks = new ObjectBlocks

  /**
   * Packs idle blocks, those first that were used longest ago, until so many bytes of Spark's memory
   * are free that were not, or no block is left; gives how many it became.
   *
   * @param besides an RDD whose blocks stay
   */
  def free(bytes: Long, besides: Option[Int]): Long = {
    val idle = leastRecentlyUsed.iterator.filterNot(block => besides.contains(block.rddId))
    var freed = 0L
    while (freed < bytes && idle.hasNext) freed += pack(idle.next())
    freed
  }

  /** Packs a few idle blocks of an RDD that did not all fit. */
  def packSome(rdd: Int): Unit = blocks.oldest(rdd, AtATime).foreach(pack)

  private def leastRecentlyUsed: Seq[RDDBlockId] = entries.synchronized {
    entries.keySet.asScala.iterator.collect { case block: RDDBlockId if blocks.contains(block) => block }
      .toVector
  }

  private def pack(block: BlockId): Long =
    manager.blockInfoManager.lockForWriting(block, blocking = false) match {
      case None => 0L
      case Some(info) =>
        try {
          entries.synchronized(entries.get(block)) match {
            case objects: DeserializedMemoryEntry[_] if blocks.contains(block) =>
              replace(block.asInstanceOf[RDDBlockId], info, objects)
            case _ => 0L
          }
        } catch {
          case NonFatal(cause) =>
            logWarning(s"Block $block could not be packed; it stays on the Java heap", cause)
            0L
        } finally manager.blockInfoManager.unlock(block)
    }

  private def replace(block: RDDBlockId, info: BlockInfo, old: DeserializedMemoryEntry[_]): Long =
    owned.packing(old.value.iterator) { handles =>
      val size = SizeEstimator.estimate(handles)
      if (size > old.size / 2) 0L
      else {
        entries.synchronized {
          entries.put(block,
            new DeserializedMemoryEntry[Any](handles, size, MemoryMode.ON_HEAP, ClassTag.Any))
        }
        blocks.putPacked(block)
        memory.releaseStorageMemory(old.size - size, MemoryMode.ON_HEAP)
        handles.foreach {
          case handle: AutoCloseable => owned.commit(handle, block)
          case _ =>
        }
        if (info.tellMaster) report(block, info, old.size, size)
        old.size - size
      }
    }.getOrElse(0L)

  /** As Spark would tell of a block that left memory, and of one that came. */
  private def report(block: BlockId, info: BlockInfo, before: Long, now: Long): Unit = {
    val onDisk = if (info.level.useDisk) manager.diskStore.getSize(block) else 0L
    def level(inMemory: Boolean) = StorageLevel(useDisk = onDisk > 0, useMemory = inMemory,
      useOffHeap = false, deserialized = info.level.deserialized, replication = info.level.replication)
    // The size of what comes would be added to what is known of the block already.
    reporting.tell(manager, block, BlockStatus(level(inMemory = false), 0L, 0L), before)
    reporting.tell(manager, block, BlockStatus(level(inMemory = true), now, onDisk), 0L)
  }
}

private[warmset] object ObjectPacking {
  /** For each block that came too late for Spark's memory, so many leave it. */
  private val AtATime = 2

  /** How the master is told; Spark 4.3 has one more parameter, which is optional. */
  private final class Reporting(method: Method) {
    def tell(manager: BlockManager, block: BlockId, status: BlockStatus, dropped: Long): Unit = {
      val arguments = Seq[AnyRef](block, status, Long.box(dropped)) ++
        Seq.fill(method.getParameterCount - Parameters)(None)
      try method.invoke(manager, arguments: _*)
      catch { case failed: InvocationTargetException => throw failed.getCause }
    }
  }

  private val Parameters = 3

  private lazy val reporting: Reporting = {
    val found = classOf[BlockManager].getDeclaredMethods.find { method =>
      method.getName == "reportBlockStatus" && method.getParameterCount >= Parameters &&
        method.getParameterTypes.drop(Parameters).forall(_ == classOf[Option[_]])
    }.getOrElse(throw new NoSuchMethodException("BlockManager.reportBlockStatus"))
    found.setAccessible(true)
    new Reporting(found)
  }

  /** Throws ReflectiveOperationException where Spark is not as expected. */
  def check(): Unit = reporting
}
