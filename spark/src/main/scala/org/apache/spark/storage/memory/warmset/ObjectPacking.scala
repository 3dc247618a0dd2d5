package org.apache.spark.storage.memory.warmset

import java.lang.reflect.{InvocationTargetException, Method}
import java.util.{LinkedHashMap => JLinkedHashMap}
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag
import scala.util.control.NonFatal

import org.apache.spark.TaskContext
import org.apache.spark.internal.Logging
import org.apache.spark.memory.{MemoryManager, MemoryMode}
import org.apache.spark.storage.{BlockId, BlockInfo, BlockManager, BlockStatus, RDDBlockId, StorageLevel}
import org.apache.spark.storage.memory.{DeserializedMemoryEntry, MemoryEntry}
import org.apache.spark.util.SizeEstimator

/**
 * Packs RDD blocks that the memory store has as objects, in their place: where Spark would drop them,
 * or their memory is wanted for something else.
 *
 * Invariant: nobody reads or writes the block meanwhile (its lock for writing is taken, without
 * waiting, and not in the name of a task, which may end), it stays in the store throughout, and
 * Spark's memory gets back exactly what is reported. A block that cannot be packed, or would become
 * no smaller, stays as it is and is not tried again; while there is no room for packed blocks, none
 * is. May be called with the memory manager's lock held: it waits for the disk, for no other block.
 */
private[warmset] final class ObjectPacking(
    manager: BlockManager,
    memory: MemoryManager,
    entries: JLinkedHashMap[BlockId, MemoryEntry[_]],
    owned: OwnedValues)
  extends Logging {
  import ObjectPacking._

  val blocks = new ObjectBlocks

  @volatile private var fullNs: Option[Long] = None
  /** The master takes a block on disk then for one that the shuffle service has, for ever. */
  private val diskIsServed = Seq("spark.shuffle.service.enabled", "spark.shuffle.service.fetch.rdd.enabled")
    .forall(manager.conf.getBoolean(_, defaultValue = false))

  /**
   * Packs idle blocks, those first that were used longest ago, until so many bytes of Spark's memory
   * are free that were not, or no block is left; gives how many it became.
   *
   * @param besides an RDD whose blocks stay
   */
  def free(bytes: Long, besides: Option[Int]): Long = {
    val idle = leastRecentlyUsed.iterator.filterNot(block => besides.contains(block.rddId))
    var freed = 0L
    while (freed < bytes && !isFull && idle.hasNext) freed += pack(idle.next())
    freed
  }

  /**
   * A block of objects has come. Its RDD counts as overflowed if it will be, going by the blocks that
   * came so far: most of a large RDD is not made objects on the heap first.
   */
  def stored(block: RDDBlockId, bytes: Long): Unit = {
    val average = blocks.putObjects(block, bytes)
    if (blocks.shouldAsk(block.rddId)) {
      owned.blocksHere(block.rddId).foreach(blocks.expect(block.rddId, _))
    }
    val here = blocks.expected(block.rddId).getOrElse(0.0)
    if (average * here > ClearlyMore * memory.maxOnHeapStorageMemory) overflow(block.rddId)
  }

  /** From now on the RDD's blocks are packed as they come. */
  def overflow(rdd: Int): Unit = if (blocks.overflow(rdd)) {
    logInfo(s"RDD $rdd does not all fit Spark's memory as objects; what is put from now on goes to regions")
  }

  /** Packs a few idle blocks of an RDD that does not all fit. */
  def packSome(rdd: Int): Unit = {
    val candidates = blocks.oldest(rdd, TriedMax).iterator
    var packed = 0
    while (packed < AtATime && !isFull && candidates.hasNext) {
      if (pack(candidates.next()) > 0) packed += 1
    }
  }

  /** In this order. Without the entries: a block may be dropped, and put again, before its turn comes. */
  private def leastRecentlyUsed: Seq[RDDBlockId] = entries.synchronized {
    entries.keySet.asScala.iterator.collect { case block: RDDBlockId if blocks.contains(block) => block }.toVector
  }

  private def isFull: Boolean = fullNs.exists(System.nanoTime - _ < FullNs)

  /** Gives by how much the block became smaller; 0 if it is in use, or is none of ours by now. */
  private def pack(block: RDDBlockId): Long = inNoTask {
    manager.blockInfoManager.lockForWriting(block, blocking = false) match {
      case None => 0L
      case Some(info) =>
        try packLocked(block, info)
        catch {
          case NonFatal(cause) =>
            blocks.putOther(block)
            logWarning(s"Block $block could not be packed; it stays on the Java heap", cause)
            0L
        } finally manager.blockInfoManager.unlock(block)
    }
  }

  private def packLocked(block: RDDBlockId, info: BlockInfo): Long =
    if (!blocks.contains(block)) 0L
    else entries.synchronized(entries.get(block)) match {
      case objects: DeserializedMemoryEntry[_] =>
        val freed = replace(block, info, objects)
        if (freed > 0 && info.tellMaster) tell(block, info, objects.size)
        freed
      case _ => 0L
    }

  /** Packed is packed, whether or not the master can be told. */
  private def tell(block: RDDBlockId, info: BlockInfo, before: Long): Unit =
    try report(block, info, before, info.size)
    catch { case NonFatal(cause) => logWarning(s"The master could not be told that $block was packed", cause) }

  private def inNoTask[T](body: => T): T = {
    val task = TaskContext.get()
    TaskContext.unset()
    try body finally if (task != null) TaskContext.setTaskContext(task)
  }

  private def replace(block: RDDBlockId, info: BlockInfo, old: DeserializedMemoryEntry[_]): Long = {
    val freed = owned.packing(old.value.iterator) { handles =>
      val size = SizeEstimator.estimate(handles)
      if (size > old.size / 2) {
        blocks.putOther(block)
        0L
      } else {
        exchange(block, old, new DeserializedMemoryEntry[Any](handles, size, MemoryMode.ON_HEAP, ClassTag.Any))
        info.size = size
        old.size - size
      }
    }
    if (freed.isEmpty) fullNs = Some(System.nanoTime)
    freed.getOrElse(0L)
  }

  /** Once the handles are the store's nothing may fail any more; that comes before others see them. */
  private def exchange(
      block: RDDBlockId,
      old: DeserializedMemoryEntry[_],
      now: DeserializedMemoryEntry[Any]): Unit = {
    now.value.foreach {
      case handle: AutoCloseable => owned.commit(handle, block)
      case _ =>
    }
    blocks.putOther(block)
    entries.synchronized { entries.put(block, now) }
    memory.releaseStorageMemory(old.size - now.size, MemoryMode.ON_HEAP)
  }

  /** As Spark would tell of a block that left memory for its disk, and of one that came. */
  private def report(block: BlockId, info: BlockInfo, before: Long, now: Long): Unit = {
    val onDisk = if (info.level.useDisk) manager.diskStore.getSize(block) else 0L
    def level(inMemory: Boolean, onDisk: Boolean) = StorageLevel(useDisk = onDisk, useMemory = inMemory,
      useOffHeap = false, deserialized = info.level.deserialized, replication = info.level.replication)
    // The size of what comes would be added to what is known of the block already. With a level that
    // is no level the master would forget where the block is, for a moment. Without this only the UI's
    // sums are wrong.
    if (!diskIsServed) {
      reporting.tell(manager, block, BlockStatus(level(inMemory = false, onDisk = true), 0L, 0L), before)
    }
    reporting.tell(manager, block, BlockStatus(level(inMemory = true, onDisk > 0), now, onDisk), 0L)
  }
}

private[warmset] object ObjectPacking {
  /** For each block that came too late for Spark's memory, so many leave it. */
  private val AtATime = 2
  /** What others pack or read at the moment is passed over. */
  private val TriedMax = 64

  /** Times Spark's memory: an RDD that is a little larger is best left there as far as it fits. */
  private val ClearlyMore = 1.5

  /** After a block found no room, so long none is tried. */
  private val FullNs = TimeUnit.SECONDS.toNanos(10)

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
