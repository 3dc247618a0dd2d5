package org.apache.spark.storage.memory.warmset

import java.util.{LinkedHashMap => JLinkedHashMap}

import scala.collection.mutable.ArrayBuffer
import scala.reflect.ClassTag

import org.apache.spark.{SparkConf, SparkEnv}
import org.apache.spark.memory.{MemoryManager, MemoryMode}
import org.apache.spark.serializer.SerializerManager
import org.apache.spark.storage.{BlockId, BlockInfoManager, BlockManager}
import org.apache.spark.storage.memory.{BlockEvictionHandler, MemoryStore, PartiallyUnrolledIterator}

/**
 * What a memory store must know of values that own memory outside the heap.
 *
 * `adopt` may replace a value on its way into the store; `commit` is called once for each value of
 * the block that the store now owns, and which it will close when the block goes.
 */
trait OwnedValues {
  def adopt(values: Iterator[Any]): Iterator[Any]
  def commit(value: AutoCloseable, block: BlockId): Unit
}

/**
 * Spark's memory store, which in addition tells who owns closeable values: Spark closes the values
 * of a block that it drops, but says nothing of blocks that it did not store in the end.
 *
 * Invariant: a value is committed only after its block is in the store. The value may have been
 * closed by then (another task evicted the block), so commit and close must be harmless in either
 * order. Everything else is Spark's.
 */
private[spark] class WarmMemoryStore(
    conf: SparkConf,
    blockInfoManager: BlockInfoManager,
    serializerManager: SerializerManager,
    memoryManager: MemoryManager,
    blockEvictionHandler: BlockEvictionHandler,
    owned: OwnedValues)
  extends MemoryStore(
    conf, blockInfoManager, serializerManager, memoryManager, blockEvictionHandler) {

  private[storage] override def putIteratorAsValues[T](
      blockId: BlockId,
      values: Iterator[T],
      memoryMode: MemoryMode,
      classTag: ClassTag[T]): Either[PartiallyUnrolledIterator[T], Long] = {
    if (!blockId.isRDD) {
      super.putIteratorAsValues(blockId, values, memoryMode, classTag)
    } else {
      val closeable = new ArrayBuffer[AutoCloseable]
      val seen = owned.adopt(values).map { value =>
        value match {
          case c: AutoCloseable => closeable += c
          case _ =>
        }
        value.asInstanceOf[T]
      }
      val result = super.putIteratorAsValues(blockId, seen, memoryMode, classTag)
      if (result.isRight) {
        closeable.foreach(owned.commit(_, blockId))
      }
      result
    }
  }
}

object WarmMemoryStore {
  /**
   * Puts a WarmMemoryStore in the place of this process's memory store, with the blocks that are in
   * it; throws ReflectiveOperationException, with nothing changed, where Spark is not as expected.
   */
  def install(env: SparkEnv, owned: OwnedValues): Unit = {
    val manager = env.blockManager
    val old = manager.memoryStore // forces the lazy value, so that it is not set after us
    val storeField = field(classOf[BlockManager], "memoryStore")
    val entriesField = field(classOf[MemoryStore], "entries")
    val store = new WarmMemoryStore(manager.conf, manager.blockInfoManager,
      manager.serializerManager, env.memoryManager, manager, owned)
    env.memoryManager.synchronized {
      val from = entries(entriesField, old)
      val to = entries(entriesField, store)
      from.synchronized { to.putAll(from) }
      storeField.set(manager, store)
      env.memoryManager.setMemoryStore(store)
    }
  }

  private def entries(entriesField: java.lang.reflect.Field, store: MemoryStore) =
    entriesField.get(store).asInstanceOf[JLinkedHashMap[BlockId, AnyRef]]

  private def field(owner: Class[_], name: String): java.lang.reflect.Field = {
    val found = owner.getDeclaredField(name)
    found.setAccessible(true)
    found
  }
}
