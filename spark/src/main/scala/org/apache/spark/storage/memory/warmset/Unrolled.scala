package org.apache.spark.storage.memory.warmset

import org.apache.spark.memory.{MemoryManager, MemoryMode}
import org.apache.spark.storage.BlockId
import org.apache.spark.storage.memory.{MemoryStore, PartiallyUnrolledIterator}

/**
 * What was unrolled of a block for which there was no room, and the rest of it.
 *
 * Invariant: what was unrolled holds its unroll memory until the last of it has been taken, or until
 * it is closed, less what it lends; no more than that is given back then. For the thread that put
 * the block, as all unroll memory.
 *
 * @param count of elements that were unrolled
 */
private[warmset] final class Unrolled[T](
    store: MemoryStore,
    memory: MemoryManager,
    block: BlockId,
    partial: PartiallyUnrolledIterator[T],
    count: Long,
    rest: Iterator[T])
  extends Iterator[T] with AutoCloseable {
  // What the thread holds has no say: all replicas that come share theirs.
  private val bytes = Unrolled.bytesOf(partial)
  private var left = count
  private var lent = 0L
  private var held = true

  /** The handles come before what they stand for goes: they are charged to a part of its memory. */
  def lend(most: Long): Unit = {
    lent = math.min(bytes, most)
    store.releaseUnrollMemoryForThisTask(MemoryMode.ON_HEAP, lent)
  }

  override def hasNext: Boolean = left > 0 || {
    giveBack()
    rest.hasNext
  }

  override def next(): T =
    if (left > 0) {
      left -= 1
      partial.next()
    } else {
      giveBack()
      rest.next()
    }

  override def close(): Unit = {
    giveBack()
    WarmMemoryStore.closeIfOpen(rest)
  }

  /** Spark gives back all of it; what was lent has been given back already. */
  private def giveBack(): Unit = if (held) {
    held = false
    memory.synchronized {
      val before = store.currentUnrollMemoryForThisTask
      partial.close()
      val tooMuch = before - store.currentUnrollMemoryForThisTask - (bytes - lent)
      if (tooMuch > 0) store.reserveUnrollMemoryForThisTask(block, tooMuch, MemoryMode.ON_HEAP)
    }
  }
}

private[warmset] object Unrolled {
  private lazy val unrollMemory =
    WarmMemoryStore.field(classOf[PartiallyUnrolledIterator[_]], "unrollMemory")

  /** Of unroll memory that was taken for what was unrolled. */
  private def bytesOf(partial: PartiallyUnrolledIterator[_]): Long = unrollMemory.getLong(partial)

  /** Throws ReflectiveOperationException where Spark is not as expected. */
  def check(): Unit = unrollMemory
}
