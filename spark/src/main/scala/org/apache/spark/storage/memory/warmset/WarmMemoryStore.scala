package org.apache.spark.storage.memory.warmset

import java.io.{FilterInputStream, OutputStream}
import java.lang.invoke.{MethodHandle, MethodHandles, MethodType}
import java.nio.channels.Channels
import java.util.{LinkedHashMap => JLinkedHashMap}
import java.util.zip.Checksum

import scala.collection.mutable.ArrayBuffer
import scala.jdk.CollectionConverters._
import scala.reflect.ClassTag

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.internal.config
import org.apache.spark.memory.{MemoryManager, MemoryMode}
import org.apache.spark.serializer.SerializerManager
import org.apache.spark.storage.{BlockId, BlockInfo, BlockInfoManager, BlockManager, StorageLevel}
import org.apache.spark.storage.memory.{BlockEvictionHandler, DeserializedMemoryEntry, MemoryEntry}
import org.apache.spark.storage.memory.MemoryStore
import org.apache.spark.storage.memory.{PartiallySerializedBlock, PartiallyUnrolledIterator}
import org.apache.spark.util.io.ChunkedByteBuffer
import org.apache.spark.util.io.warmset.StreamedBytes

/**
 * Spark's memory store, which in addition lets blocks hold handles on memory outside the heap.
 *
 * Spark closes the values of a block that it drops, but says nothing of blocks that it did not
 * store in the end: hence `commit`. Invariant: a value is committed only after its block is in the
 * store. The value may have been closed by then (another task evicted the block), so commit and
 * close must be harmless in either order. Handles are charged as heap memory, whatever the level:
 * what they stand for is not Spark's memory. Blocks that may stay as objects are packed in their place
 * before Spark drops any. Everything else is Spark's.
 */
private[spark] class WarmMemoryStore(
    manager: BlockManager,
    memory: MemoryManager,
    blockEvictionHandler: BlockEvictionHandler,
    owned: OwnedValues)
  extends MemoryStore(manager.conf, manager.blockInfoManager, manager.serializerManager, memory,
    blockEvictionHandler) {
  import WarmMemoryStore.{closeIfOpen, closingOnFailure, HandlesBytes}

  private val serializerManager = manager.serializerManager
  private val handlesBytes =
    math.max(HandlesBytes, 2 * manager.conf.get(config.STORAGE_UNROLL_MEMORY_THRESHOLD))
  private val blocks = WarmMemoryStore.entries(this)
  private val objects = new ObjectPacking(manager, memory, blocks, owned)

  private[storage] override def putIteratorAsValues[T](
      blockId: BlockId,
      values: Iterator[T],
      memoryMode: MemoryMode,
      classTag: ClassTag[T]): Either[PartiallyUnrolledIterator[T], Long] = {
    if (!blockId.isRDD) {
      super.putIteratorAsValues(blockId, values, memoryMode, classTag)
    } else owned.putting(blockId) {
      // The one level of objects outside the heap is ours: see WarmLevel.
      val warm = memoryMode == MemoryMode.OFF_HEAP
      val source = values.buffered
      val mayStay = !warm && source.headOption.exists(owned.keptAsObjects)
      if (mayStay && !objects.blocks.overflowed(rddOf(blockId))) {
        putObjects(blockId, owned.guarded(source).asInstanceOf[Iterator[T]], classTag)
      } else {
        if (mayStay) objects.packSome(rddOf(blockId))
        putAdopted(blockId, source, warm, classTag)
      }
    }
  }

  private def rddOf(block: BlockId): Int = block.asRDDId.get.rddId

  /** Puts objects as Spark does; if there is no room, its RDD is packed from now on. */
  private def putObjects[T](
      blockId: BlockId,
      values: Iterator[T],
      classTag: ClassTag[T]): Either[PartiallyUnrolledIterator[T], Long] = closingOnFailure(values) {
    var taken = 0L
    val counted = values.map { value =>
      taken += 1
      value
    }
    super.putIteratorAsValues(blockId, counted, MemoryMode.ON_HEAP, classTag) match {
      case Right(size) =>
        objects.stored(blockId.asRDDId.get, size)
        closeIfOpen(values)
        Right(size)
      case Left(partial) =>
        objects.overflow(rddOf(blockId))
        val rest = new Unrolled(this, memory, blockId, partial, taken, values)
        try closingOnFailure(rest) {
          objects.packSome(rddOf(blockId))
          rest.lend(handlesBytes)
          putAdopted(blockId, rest, warm = false, classTag)
        } finally objects.blocks.forgetIfEmpty(rddOf(blockId))
    }
  }

  private def putAdopted[T](
      blockId: BlockId,
      values: Iterator[T],
      warm: Boolean,
      classTag: ClassTag[T]): Either[PartiallyUnrolledIterator[T], Long] = {
    val adopted = owned.adopt(values, warm)
    putOwned(blockId, adopted, classTag) match {
      case Right(size) =>
        closeIfOpen(values)
        Right(size)
      case Left(partial) => Left(new Presented(partial, Seq(adopted, values)))
    }
  }

  override def remove(blockId: BlockId): Boolean = {
    objects.blocks.remove(blockId)
    super.remove(blockId)
  }

  override def clear(): Unit = {
    objects.blocks.clear()
    super.clear()
  }

  /** Blocks of objects stay cached: they are packed first. What takes next to nothing stays, too. */
  private[spark] override def evictBlocksToFreeSpace(
      blockId: Option[BlockId],
      space: Long,
      memoryMode: MemoryMode): Long = {
    val putting = blockId.flatMap(_.asRDDId).map(_.rddId)
    val freed =
      if (memoryMode != MemoryMode.ON_HEAP) 0L
      else objects.free(space, besides = putting.filterNot(objects.blocks.overflowed))
    if (freed >= space || memoryMode == MemoryMode.ON_HEAP && !onlyHeapBlocksGo(space - freed, putting)) freed
    else freed + super.evictBlocksToFreeSpace(blockId, space - freed, memoryMode)
  }

  /**
   * Spark takes the blocks that were used longest ago, and handles would go for their few bytes with all that they
   * stand for. So they are made the most recently used ones; and where the other blocks that Spark may take are too few,
   * nothing is to go, as where Spark finds nothing that it may take. If handles fill half of the memory they go as others.
   *
   * @param putting the RDD whose blocks Spark leaves alone
   */
  private def onlyHeapBlocksGo(space: Long, putting: Option[Int]): Boolean = blocks.synchronized {
    val onHeap = blocks.asScala.toVector.filter { case (_, entry) => entry.memoryMode == MemoryMode.ON_HEAP }
    val (handles, others) = onHeap.partition {
      case (_, entry: DeserializedMemoryEntry[_]) => entry.value.headOption.exists(owned.isRegionHandle)
      case _ => false
    }
    def idle(block: BlockId) = manager.blockInfoManager.get(block)
      .exists(info => info.readerCount == 0 && info.writerTask == BlockInfo.NO_WRITER)
    val mayGo = others.collect {
      case (block, entry) if putting.forall(!block.asRDDId.map(_.rddId).contains(_)) && idle(block) => entry.size
    }
    handles.foreach { case (block, _) => blocks.get(block) }
    mayGo.sum >= space || handles.map(_._2.size).sum > memory.maxOnHeapStorageMemory / 2
  }

  /** Packs idle blocks of objects until so many bytes are free that were not. */
  def packIdle(bytes: Long): Unit = objects.free(bytes, besides = None)

  private[storage] override def putIteratorAsBytes[T](
      blockId: BlockId,
      values: Iterator[T],
      classTag: ClassTag[T],
      memoryMode: MemoryMode): Either[PartiallySerializedBlock[T], Long] =
    putAsBytes(blockId, values, classTag)(super.putIteratorAsBytes(blockId, _, classTag, memoryMode))

  /** What Spark 4.3 calls. Blocks whose checksum it wants to know stay with it. */
  private[storage] def putIteratorAsBytes[T](
      blockId: BlockId,
      values: Iterator[T],
      classTag: ClassTag[T],
      memoryMode: MemoryMode,
      checksum: Option[Checksum]): Either[PartiallySerializedBlock[T], Long] = {
    def stock(elements: Iterator[T]) = WarmMemoryStore.putIteratorAsBytes43
      .invokeWithArguments(this, blockId, elements, classTag, memoryMode, checksum)
      .asInstanceOf[Either[PartiallySerializedBlock[T], Long]]
    if (checksum.isDefined) stock(values) else putAsBytes(blockId, values, classTag)(stock)
  }

  private def putAsBytes[T](blockId: BlockId, values: Iterator[T], classTag: ClassTag[T])(
      stock: Iterator[T] => Either[PartiallySerializedBlock[T], Long])
    : Either[PartiallySerializedBlock[T], Long] = {
    def serializer(out: OutputStream) =
      serializerManager.getSerializer(classTag, autoPick = true).newInstance()
        .serializeStream(serializerManager.wrapForCompression(blockId, out))
    if (!blockId.isRDD) stock(values)
    else owned.putting(blockId) {
      owned.adoptBytes(values, serializer) match {
        case None => stock(values)
        case Some(adopted) => putOwned(blockId, adopted, classTag) match {
          case Right(size) => Right(size)
          // Spark has no room even for handles: it decides what becomes of the elements.
          case Left(partial) => closingOnFailure(adopted) {
            val stream = new FilterInputStream(owned.stream(partial)) {
              override def close(): Unit = try super.close() finally closeIfOpen(adopted)
            }
            stock(serializerManager.dataDeserializeStream(blockId, stream)(classTag))
          }
        }
      }
    }
  }

  /**
   * Puts values or what stands for them, and commits what owns memory if the block is stored. They
   * are closed unless the store does not take them all.
   */
  private def putOwned[T](
      blockId: BlockId,
      values: Iterator[Any],
      classTag: ClassTag[T])
    : Either[PartiallyUnrolledIterator[T], Long] = closingOnFailure(values) {
    val closeable = new ArrayBuffer[AutoCloseable]
    val source = values.buffered
    // The array in which Spark keeps the values has room for the tag's class only.
    val tag = if (source.headOption.exists(owned.packed)) ClassTag.Any else classTag
    val seen = source.map { value =>
      value match {
        case c: AutoCloseable => closeable += c
        case _ =>
      }
      value.asInstanceOf[T]
    }
    val result = super.putIteratorAsValues(
      blockId, seen, MemoryMode.ON_HEAP, tag.asInstanceOf[ClassTag[T]])
    if (result.isRight) blockId.asRDDId.foreach(objects.blocks.putOther)
    try if (result.isRight) closeable.foreach(owned.commit(_, blockId))
    catch {
      // Spark would do so too, but not where the task has ended and given its locks back.
      case refused: Throwable =>
        remove(blockId)
        throw refused
    }
    if (result.isRight) closeIfOpen(values)
    result
  }

  override def getValues(blockId: BlockId): Option[Iterator[_]] = packed(blockId) match {
    case Some(values) => Some(owned.present(values.iterator))
    case None => super.getValues(blockId)
  }

  override def getBytes(blockId: BlockId): Option[ChunkedByteBuffer] = packed(blockId) match {
    case Some(values) =>
      Some(StreamedBytes.of(owned.bytes(values.iterator), () => owned.stream(values.iterator)))
    case None => super.getBytes(blockId)
  }

  /** What stands for the values of the block, if something does; without its lock they may be closed any time. */
  private def packed(blockId: BlockId): Option[Array[_]] =
    blocks.synchronized(blocks.get(blockId)) match {
      case entry: DeserializedMemoryEntry[_] if entry.value.headOption.exists(owned.packed) =>
        Some(entry.value)
      case _ => None
    }

  /**
   * What did not fit the store, as elements. Closing it gives the unroll memory back, and what was
   * made for the put. It closes itself when all elements have been made of what stood for them.
   */
  private final class Presented[T](inner: PartiallyUnrolledIterator[T], sources: Seq[Iterator[Any]])
    extends PartiallyUnrolledIterator[T](
      this, MemoryMode.ON_HEAP, 0L, Iterator.empty, Iterator.empty) {
    private lazy val source = inner.buffered
    private lazy val packed = source.headOption.exists(owned.packed)
    private lazy val elements =
      (if (packed) owned.present(source) else source).asInstanceOf[Iterator[T]]
    private var exhausted = false

    override def hasNext: Boolean = !exhausted && (elements.hasNext || {
      exhausted = true
      if (packed) close()
      false
    })

    override def next(): T = elements.next()
    override def close(): Unit = try inner.close() finally sources.foreach(closeIfOpen)
  }
}

/**
 * Drops blocks as Spark does, but writes packed ones to disk itself, as what they stand for: Spark
 * would write the handles.
 */
private final class PackedEviction(manager: BlockManager, owned: OwnedValues)
  extends BlockEvictionHandler {

  override private[storage] def dropFromMemory[T: ClassTag](
      blockId: BlockId,
      data: () => Either[Array[T], ChunkedByteBuffer]): StorageLevel = {
    data() match {
      case Left(values) if values.headOption.exists(owned.packed) =>
        val info = manager.blockInfoManager.assertBlockIsLockedForWriting(blockId)
        if (info.level.useDisk && !manager.diskStore.contains(blockId)) {
          manager.diskStore.put(blockId) { channel =>
            val out = Channels.newOutputStream(channel)
            if (info.level.deserialized) {
              val elements = owned.present(values.iterator)
              try {
                manager.serializerManager.dataSerializeStream(blockId, out, elements)(
                  info.classTag.asInstanceOf[ClassTag[Any]])
              } finally WarmMemoryStore.closeIfOpen(elements)
            } else {
              val in = owned.stream(values.iterator)
              try in.transferTo(out) finally in.close()
            }
          }
        }
      case _ =>
    }
    manager.dropFromMemory(blockId, data)
  }
}

object WarmMemoryStore {
  /** More than the handles of a block are charged, but for one of some terabytes. */
  private val HandlesBytes = 4L << 20

  /**
   * Puts a WarmMemoryStore in the place of this process's memory store, with the blocks that are in
   * it; throws ReflectiveOperationException, with nothing changed, where Spark is not as expected.
   */
  def install(env: SparkEnv, owned: OwnedValues): Unit = {
    IdleBlocks.check()
    ObjectPacking.check()
    Unrolled.check()
    val manager = env.blockManager
    val old = manager.memoryStore // forces the lazy value, so that it is not set after us
    val storeField = field(classOf[BlockManager], "memoryStore")
    val store =
      new WarmMemoryStore(manager, env.memoryManager, new PackedEviction(manager, owned), owned)
    env.memoryManager.synchronized {
      val from = entries(old)
      val to = entries(store)
      from.synchronized { to.putAll(from) }
      storeField.set(manager, store)
      env.memoryManager.setMemoryStore(store)
    }
  }

  private[warmset] def closeIfOpen(values: Iterator[Any]): Unit = values match {
    case adopted: AutoCloseable => adopted.close()
    case _ =>
  }

  private def closingOnFailure[T](values: Iterator[Any])(body: => T): T =
    try body
    catch {
      case cause: Throwable =>
        closeIfOpen(values)
        throw cause
    }

  private def entries(store: MemoryStore) =
    field(classOf[MemoryStore], "entries").get(store).asInstanceOf[JLinkedHashMap[BlockId, MemoryEntry[_]]]

  /** MemoryStore's own method, which 4.2, against which this is compiled, does not have. */
  private lazy val putIteratorAsBytes43: MethodHandle =
    MethodHandles.privateLookupIn(classOf[WarmMemoryStore], MethodHandles.lookup())
      .findSpecial(classOf[MemoryStore], "putIteratorAsBytes",
        MethodType.methodType(classOf[Either[_, _]], classOf[BlockId], classOf[Iterator[_]],
          classOf[ClassTag[_]], classOf[MemoryMode], classOf[Option[_]]), classOf[WarmMemoryStore])

  private[warmset] def field(owner: Class[_], name: String): java.lang.reflect.Field = {
    val found = owner.getDeclaredField(name)
    found.setAccessible(true)
    found
  }
}
