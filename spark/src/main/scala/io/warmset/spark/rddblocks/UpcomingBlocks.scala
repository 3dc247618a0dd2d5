package io.warmset.spark.rddblocks

import java.util.concurrent.{CompletableFuture, TimeUnit}
import java.util.concurrent.atomic.AtomicLong

import scala.collection.mutable
import scala.util.control.NonFatal

import io.warmset.spark.{HeldAhead, Prefetch, TaskSlots}
import org.apache.spark.storage.RDDBlockId

/**
 * Blocks whose first pieces are brought in before a task reads them: at the end of its block a task decodes what it
 * has, ends, and another one begins, and the disk would have nothing to do meanwhile.
 *
 * A reader that has started all of its block gives what is left of its window to the next block of the RDD that this
 * process has. Whoever opens that block gets the reader that was prefetched for it. Invariant: a prefetched reader is here, with
 * the reader before it not closed or closed for less than `KeptMs`; or it was handed out, and belongs to whoever got it;
 * or it is closed. No more are here than tasks run at a time. It is only used under its `Prefetched`'s lock before it is
 * handed out, and `lock` is not held meanwhile.
 */
private[spark] object UpcomingBlocks {
  private val KeptMs = 2000L
  private val SweepsMax = 64

  private val lock = new Object
  private val prefetched = new mutable.HashMap[RDDBlockId, Prefetched]
  private val sweeps = new mutable.LinkedHashMap[Int, BlockSweep]
  private val handedOut = new AtomicLong

  HeldAhead.by(() => letGo())

  /** How many readers were prefetched for others, and used. */
  private[spark] def handedOutCount: Long = handedOut.get

  /**
   * A reader of a block that a task opens.
   *
   * @param find the values of another block, if this process has them
   */
  def reader(block: RDDBlockId, values: Array[_], find: RDDBlockId => Option[Array[_]]): StoredReader = {
    val waiting = lock.synchronized {
      sweep(block.rddId).open(block.splitIndex)
      prefetched.remove(block)
    }
    val taken = waiting.flatMap(_.take(values))
    if (taken.isDefined) handedOut.incrementAndGet()
    val reader = taken.getOrElse(new StoredReader(values.iterator, Prefetch.bytesMax))
    reader.next = new Next(block.rddId, find)
    reader
  }

  /** The block leaves the store. */
  def forget(block: RDDBlockId): Unit = lock.synchronized(prefetched.remove(block)).foreach(_.close())

  private def letGo(): Unit = {
    val all = lock.synchronized {
      val all = prefetched.values.toVector
      prefetched.clear()
      // The next SparkContext counts its RDDs from none again.
      sweeps.clear()
      all
    }
    all.foreach(_.close())
  }

  /** In the order of use: the RDD that was read longest ago is forgotten first. */
  private def sweep(rdd: Int): BlockSweep = {
    val known = sweeps.remove(rdd).getOrElse(new BlockSweep)
    sweeps(rdd) = known
    if (sweeps.size > SweepsMax) sweeps -= sweeps.head._1
    known
  }

  private def begin(rdd: Int, find: RDDBlockId => Option[Array[_]]): Option[Prefetched] = {
    val slots = TaskSlots.ofThisProcess
    lock.synchronized {
      def waits(split: Int) = prefetched.contains(RDDBlockId(rdd, split))
      if (prefetched.size >= slots) None
      else sweep(rdd).next(split => if (waits(split)) None else find(RDDBlockId(rdd, split))).map {
        case (split, values) =>
          val fresh = new Prefetched(RDDBlockId(rdd, split), values)
          prefetched(fresh.block) = fresh
          fresh
      }
    }
  }

  /** What the reader of a block asks for when all of it is started. */
  private final class Next(rdd: Int, find: RDDBlockId => Option[Array[_]]) extends StoredReader.Next {
    private var upcoming: Option[Prefetched] = None

    override def start(bytes: Long): Unit = {
      // There may be one later: another task has only started, or a slot is free again.
      if (upcoming.isEmpty) upcoming = begin(rdd, find)
      upcoming.foreach(_.start(bytes))
    }

    override def close(): Unit = upcoming.foreach(_.expire())
  }

  private final class Prefetched(val block: RDDBlockId, values: Array[_]) {
    // Null once it was handed out or closed.
    private var reader = new StoredReader(values.iterator, Prefetch.bytesMax)

    def start(bytes: Long): Unit = synchronized {
      try if (reader != null) reader.startAhead(bytes)
      catch {
        case cause: Throwable =>
          // One of the values may be gone from it. Who opens the block finds out what is wrong.
          close()
          if (!NonFatal(cause)) throw cause
      }
    }

    /** The reader, if it is one of these very values: the block may have left and come back. */
    def take(of: Array[_]): Option[StoredReader] = synchronized {
      if (values ne of) close()
      val found = Option(reader)
      reader = null
      found
    }

    def close(): Unit = synchronized {
      if (reader != null) reader.close()
      reader = null
    }

    /** Nobody starts more of it: the task that reads it begins soon, or none does. */
    def expire(): Unit =
      if (isHere) CompletableFuture.delayedExecutor(KeptMs, TimeUnit.MILLISECONDS, _.run()).execute { () =>
        lock.synchronized {
          if (isHere) {
            prefetched -= block
            sweep(block.rddId).mistake()
          }
        }
        close()
      }

    private def isHere: Boolean = lock.synchronized(prefetched.get(block).exists(_ eq this))
  }
}
