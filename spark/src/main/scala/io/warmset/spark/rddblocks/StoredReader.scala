package io.warmset.spark.rddblocks

import java.io.IOException

import scala.collection.mutable

import io.warmset.region.{NativeStore, NoSpaceException}
import io.warmset.spark.{RegionHandle, StoreRoom, TransientMemory}
import org.apache.spark.unsafe.Platform

/**
 * The values of one RDD block, one at a time, with the bytes of those that are handles.
 *
 * Invariant: only the current value is pinned; those after it are started within a window, which is
 * one segment until `goOn` or the second `advance`, and nothing where the maximum is 0. Each has a
 * reference on its region, so that one released in mid-scan stays readable. Not safe for use from
 * several threads. `close` is idempotent, and nothing can be read after it.
 */
private[spark] final class StoredReader(values: Iterator[Any], prefetchBytesMax: Long)
  extends AutoCloseable {
  import StoredReader._

  private val ahead = new mutable.ArrayDeque[Started]
  private var aheadBytes = 0L
  private var windowBytes = NotBegun
  private var noRoom = false
  private var current: Started = _

  /** Goes on to the next value; false at the end. */
  def advance(): Boolean = {
    if (current != null) current.drop()
    current = null
    if (ahead.isEmpty && values.hasNext) plan(values.next())
    val more = ahead.nonEmpty
    if (more) {
      current = ahead.removeHead()
      aheadBytes -= current.bytes
      lookAhead()
    }
    more
  }

  /** More of the first value was wanted than its beginning: the others will be wanted too. */
  def goOn(): Unit = if (windowBytes < prefetchBytesMax) lookAhead()

  /** The current value: a handle, or an element that was kept as it is. */
  def value: Any = current.value

  /** Where the bytes of the current value, a handle, lie until the next `advance`. */
  def address(): Long = reading(current.stored)(current.address())

  /** Whatever the store cannot give any more, or is damaged, is lost, and Spark is told so. */
  def reading[T](stored: StoredBytes)(body: => T): T =
    try body
    catch {
      // The data are whole, and the task's next try may find room.
      case full: NoSpaceException => throw full
      case cause @ (_: IOException | _: IllegalArgumentException | _: IllegalStateException) =>
        throw RegionHandle.lost(stored, cause)
    }

  override def close(): Unit = {
    if (current != null) current.drop()
    ahead.foreach(_.drop())
    current = null
    ahead.clear()
  }

  private def lookAhead(): Unit = {
    // A reader that goes on past its beginning goes on to the end, nearly always.
    windowBytes =
      if (windowBytes == NotBegun) math.min(StoreRoom.FrameBytes, prefetchBytesMax) else prefetchBytesMax
    // What is on the heap needs no start: it waits upstream.
    var useful = current.inRegion
    while (useful && aheadBytes < windowBytes && !noRoom && values.hasNext) {
      plan(values.next())
      useful = ahead.last.inRegion
    }
    noRoom = false
  }

  /** Starts a value's segment; what cannot be read is lost. */
  private def plan(value: Any): Unit = value match {
    case stored: StoredBytes => reading(stored)(add(stored))
    case element => add(element)
  }

  private def add(value: Any): Unit = {
    val started = new Started(value)
    noRoom |= started.refused
    aheadBytes += started.bytes
    ahead += started
  }
}

private[spark] object StoredReader {
  private val NotBegun = -1L

  /** A value of a block, with its hold if it is a handle. */
  private final class Started(val value: Any) {
    /** Null if it is an element. */
    val stored: StoredBytes = value match {
      case stored: StoredBytes => stored
      case _ => null
    }
    val inRegion: Boolean = stored != null && stored.region != null
    val bytes: Long = if (inRegion) stored.bytes else 0L
    if (inRegion && !stored.region.retain()) {
      throw new IOException("a cached block was removed before it was read")
    }
    private var held = inRegion && start()
    private var copy: TransientMemory = _

    def refused: Boolean = inRegion && !held

    def address(): Long = if (inRegion) pinned() else copied(stored.place.heap)

    def drop(): Unit = {
      if (held) {
        held = false
        stored.region.unpin(stored.place.segment)
      }
      if (inRegion) stored.region.release()
      if (copy != null) copy.close()
    }

    private def start(): Boolean =
      try stored.region.pinStart(stored.place.segment) != NativeStore.NO_ROOM
      catch {
        case cause: Throwable =>
          stored.region.release()
          throw cause
      }

    private def pinned(): Long = {
      val started = held
      // A failing pinWait has given its hold back.
      held = false
      val segment = stored.place.segment
      val found = if (started) stored.region.pinWait(segment) else stored.region.pin(segment)
      held = true
      found
    }

    private def copied(heap: Array[Byte]): Long = {
      copy = new TransientMemory
      val found = copy.allocate(math.max(1, heap.length))
      Platform.copyMemory(heap, Platform.BYTE_ARRAY_OFFSET, null, found, heap.length)
      found
    }
  }
}
