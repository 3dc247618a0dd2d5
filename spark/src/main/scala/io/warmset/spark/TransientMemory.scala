package io.warmset.spark

import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicBoolean, AtomicInteger, AtomicLong}

import scala.collection.mutable.ArrayBuffer

import io.warmset.region.{NativeLibrary, NativeStore}
import org.apache.spark.unsafe.Platform

/**
 * Native memory that a task needs for a while: bytes handed out from chunks, all given back at
 * once.
 *
 * Invariant: an address is valid until `reset` or `close`; `close` may be called from another
 * thread and any number of times, after which `allocate` throws. Chunks of the usual size go
 * through a bounded process-wide list while there is a store, because fresh memory is slow to
 * touch first; `trim` and `freeKept` empty that list. It never gives huge pages: that is for data that is read again.
 */
final class TransientMemory extends AutoCloseable {
  import TransientMemory._

  private val chunks = new ArrayBuffer[Chunk]
  private var at = -1
  private var used = 0L
  private var closed = false

  /** Space for `bytes` bytes, at a multiple of 64. */
  def allocate(bytes: Long): Long = synchronized {
    if (closed) throw new IllegalStateException("the task's transient memory has been freed")
    val needed = (bytes + 63) & ~63L
    if (at < 0 || used + needed > chunks(at).bytes) advance(needed)
    val address = chunks(at).start + used
    used += needed
    address
  }

  /** Makes all addresses invalid and keeps the usual chunks for what comes next. */
  def reset(): Unit = synchronized {
    val (usual, odd) = chunks.partition(_.bytes == ChunkBytes)
    odd.foreach(free)
    chunks.clear()
    chunks ++= usual
    at = if (chunks.isEmpty) -1 else 0
    used = 0
  }

  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      chunks.foreach(giveBack)
      chunks.clear()
    }
  }

  /** Goes on to a chunk with room: the next of the usual size, or an odd one put before it. */
  private def advance(needed: Long): Unit = {
    val next = at + 1
    if (needed > ChunkBytes || next == chunks.length) {
      chunks.insert(next, take(needed))
    }
    at = next
    used = 0
  }
}

object TransientMemory {
  val ChunkBytes: Long = 4L << 20
  private val ChunksKeptMin = 32
  private val ChunksKeptPerSlot = 4

  private final case class Chunk(allocation: Long, start: Long, bytes: Long)

  private val kept = new ConcurrentLinkedQueue[Chunk]
  private val keptCount = new AtomicInteger
  private val allocated = new AtomicLong
  /** The fewest that were kept at any time since the last trim. */
  private val keptLeast = new AtomicInteger
  private val isFreed = new AtomicBoolean

  /** Bytes this process holds for transient use now, the kept chunks included. */
  def allocatedBytes: Long = allocated.get

  /** As many as the tasks that run at a time use: what is not kept is slow to touch again. */
  private[spark] def mayKeep(count: Int, slots: => Int = TaskSlots.ofThisProcess): Boolean =
    count < ChunksKeptMin || count < ChunksKeptPerSlot * slots

  /** What is kept at most where so many tasks run at a time. */
  private[spark] def keptBytesMax(slots: Int): Long = math.max(ChunksKeptMin, ChunksKeptPerSlot * slots) * ChunkBytes

  /** Frees the kept chunks that nobody needed since the call before; what was freed meanwhile goes back to the kernel. */
  def trim(): Unit = {
    freeKept(keptLeast.get)
    keptLeast.set(keptCount.get)
  }

  def freeKept(): Unit = freeKept(Int.MaxValue)

  private def freeKept(most: Int): Unit = {
    Iterator.continually(kept.poll()).take(most).takeWhile(_ != null).foreach { chunk =>
      noteTaken()
      free(chunk)
    }
    trimFreed()
  }

  private def noteTaken(): Unit = {
    val left = keptCount.decrementAndGet()
    keptLeast.accumulateAndGet(left, math.min(_, _))
  }

  /** Says that native memory was freed elsewhere. */
  private[spark] def noteFreed(): Unit = isFreed.set(true)

  /** The C library's allocator keeps most of it otherwise, in an arena per thread. */
  private def trimFreed(): Unit = if (isFreed.getAndSet(false) && NativeLibrary.isLoaded) NativeStore.trimHeap()

  private def take(needed: Long): Chunk = {
    val reused = if (needed <= ChunkBytes) kept.poll() else null
    if (reused != null) {
      noteTaken()
      reused
    } else {
      val bytes = math.max(needed, ChunkBytes)
      val allocation = Platform.allocateMemory(bytes + 64)
      allocated.addAndGet(bytes)
      Chunk(allocation, (allocation + 63) & ~63L, bytes)
    }
  }

  private def giveBack(chunk: Chunk): Unit =
    if (chunk.bytes == ChunkBytes && StoreHolder.current.isDefined && mayKeep(keptCount.get)) {
      keptCount.incrementAndGet()
      kept.add(chunk)
    } else {
      free(chunk)
    }

  private def free(chunk: Chunk): Unit = {
    Platform.freeMemory(chunk.allocation)
    noteFreed()
    allocated.addAndGet(-chunk.bytes)
  }
}
