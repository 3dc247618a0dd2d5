package io.warmset.spark.cachedframes

import java.io.IOException
import java.util.{Collections, IdentityHashMap}

import scala.collection.mutable

import io.warmset.columns.WarmVector
import io.warmset.region.{NativeStore, Region}
import io.warmset.spark.{Prefetch, RegionHandle, StoreRoom, TaskReaders, TransientMemory, WarmBatch}
import org.apache.spark.TaskKilledException
import org.apache.spark.sql.columnar.CachedBatch
import org.apache.spark.sql.types.DataType
import org.apache.spark.sql.vectorized.{ColumnarBatch, ColumnVector}
import org.apache.spark.unsafe.Platform

/**
 * Cached batches of one partition as column vectors over the regions' own bytes.
 *
 * Invariant: the same ColumnarBatch is handed out again and again, bound to the next batch; what it
 * showed before, and what it showed before that, stays pinned until the batch after is asked for.
 * Segments of the selected columns are started ahead, within a window that begins with one batch
 * and doubles. Each region it meets is retained until `close`, so that one released in mid-scan
 * stays readable. Addresses are bound only while pinned. Read to its end, it goes on showing what
 * came last until a few more readers of its task have been read to theirs. `close` is idempotent;
 * after it there are no more batches, which is an error if the task closed it before all were read.
 * Without a task it gives everything back when it is exhausted. A task may end while another thread
 * of it (one that feeds a process) is inside a row: what is shown then stays until nobody can reach
 * the reader any more, which whoever goes on iterating can.
 */
private[spark] final class ColumnarReader(
    batches: Iterator[CachedBatch],
    columns: Array[Int],
    types: Array[DataType],
    prefetchBytesMax: Long,
    task: Option[TaskReaders])
  extends Iterator[ColumnarBatch] with AutoCloseable {
  import ColumnarReader._

  private val vectors: Array[WarmVector] = types.map(WarmVector.create)
  private val shown = new ColumnarBatch(vectors.toArray[ColumnVector])
  private val pins = new PinTable
  private val ahead = new mutable.ArrayDeque[Planned]
  private var aheadBytes = 0L
  private var windowBytes = 0L
  private var previous: Planned = _
  private var current: Planned = _
  private var selector: RowSelector = _
  private var closed = false
  private var exhausted = false
  private var readBy: Thread = _
  private var readByMany = false

  override def hasNext: Boolean = {
    val (more, ends) = synchronized {
      val before = exhausted
      (advance(), exhausted && !before)
    }
    if (ends) task.foreach(_.finish(this))
    more
  }

  private def advance(): Boolean = {
    if (closed && task.isDefined && !exhausted) {
      throw new TaskKilledException("the task ended before it had read all of a cached partition")
    }
    val more = !closed && (ahead.nonEmpty || batches.hasNext)
    exhausted = !more
    if (!more && task.isEmpty) {
      close()
    } else if (!more && previous != null) {
      pins.drop(previous)
      previous = null
    }
    more
  }

  override def next(): ColumnarBatch = synchronized {
    if (!advance()) throw new NoSuchElementException("no more cached batches")
    noteThread()
    if (previous != null) pins.drop(previous)
    previous = current
    current = null
    if (ahead.isEmpty) plan()
    current = ahead.removeHead()
    aheadBytes -= current.bytesStarted
    lookAhead()
    show(current)
    shown
  }

  /** Gives back every pin, region and transient buffer, or sees to it that they are given back. */
  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      task.foreach(_.remove(this))
      ahead.foreach(pins.drop)
      ahead.clear()
      val last = new Shown(Seq(previous, current).filter(_ != null), pins)
      previous = null
      current = null
      if (readElsewhere) TaskReaders.Unreachable.register(this, last) else last.run()
    }
  }

  private def noteThread(): Unit = {
    val thread = Thread.currentThread
    readByMany |= readBy != null && (readBy ne thread)
    readBy = thread
  }

  private def readElsewhere: Boolean =
    readByMany || (readBy != null && (readBy ne Thread.currentThread) && readBy.isAlive)

  private def lookAhead(): Unit = {
    // Batches on the heap and batches of no columns have nothing to start: they wait upstream.
    var useful = current.hasPins
    while (useful && aheadBytes < windowBytes && ahead.length < AheadMax && !pins.full &&
        batches.hasNext) {
      plan()
      useful = ahead.last.hasPins
    }
    pins.full = false
    windowBytes = math.min(prefetchBytesMax, math.max(StoreRoom.FrameBytes, windowBytes * 2))
  }

  /** Takes one more batch from upstream and starts its segments. */
  private def plan(): Unit = batches.next() match {
    case SelectedBatch(batch, filter) => start(batch, rowSelector(filter))
    case batch: WarmBatch => start(batch, null)
    case other =>
      throw new IllegalStateException(s"not a Warmset batch: ${other.getClass.getName}")
  }

  /** One for all batches: a scan has one filter. */
  private def rowSelector(filter: RowFilter): RowSelector = {
    if (selector == null) selector = new RowSelector(filter, columns, vectors)
    selector
  }

  private def start(batch: WarmBatch, selector: RowSelector): Unit = {
    columns.find(!batch.has(_)).foreach { c =>
      throw RegionHandle.lost(batch, new IOException(
        s"damaged batch description: no column $c of ${batch.meta.numColumns}"))
    }
    val before = pins.bytesStarted
    val planned = new Planned(batch, selector, columns.map { c =>
      if (batch.inRegion(c)) {
        reading(batch) {
          pins.start(batch.region, batch.segments(c), batch.offsets(c) + batch.meta.bytes(c))
        }
      } else {
        null
      }
    })
    planned.bytesStarted = pins.bytesStarted - before
    aheadBytes += planned.bytesStarted
    ahead += planned
  }

  private def show(planned: Planned): Unit = {
    val batch = planned.batch
    var bytes = 0L
    var i = 0
    while (i < columns.length) {
      val c = columns(i)
      val address = if (planned.pins(i) != null) {
        pinned(batch, planned.pins(i)) + batch.offsets(c)
      } else {
        planned.copyIn(batch.heap(c))
      }
      reading(batch)(batch.check(c, types(i), address))
      vectors(i).bind(batch.meta, c, address)
      bytes += batch.meta.bytes(c)
      i += 1
    }
    shown.setNumRows(
      if (planned.selector == null) batch.numRows
      else planned.selector.show(batch.numRows, bytes, size => planned.allocate(size)))
  }

  private def pinned(batch: WarmBatch, pin: Pin): Long =
    if (pin.address != 0) pin.address else reading(batch)(pins.address(pin))

  /** Whatever the store cannot give any more is lost, and Spark is told so. */
  private def reading[T](batch: WarmBatch)(body: => T): T =
    try body
    catch {
      // The data are whole, and the task's next try may find room.
      case full: io.warmset.region.NoSpaceException => throw full
      case cause: IOException => throw RegionHandle.lost(batch, cause)
      case cause: IllegalArgumentException => throw RegionHandle.lost(batch, cause)
    }
}

private[spark] object ColumnarReader {
  /** A reader of which the task, if there is one, drops the last pins. */
  def inTask(
      batches: Iterator[CachedBatch],
      columns: Array[Int],
      types: Array[DataType]): ColumnarReader =
    TaskReaders.closing(new ColumnarReader(batches, columns, types, Prefetch.bytesMax, _))

  /** A batch with its segments' pins, one per selected column; null for a column on the heap. */
  private final class Planned(
      val batch: WarmBatch,
      val selector: RowSelector,
      val pins: Array[Pin]) {
    val hasPins: Boolean = pins.exists(_ != null)
    var bytesStarted = 0L
    private var copies: TransientMemory = _

    /** Space that lasts as long as the pins. */
    def allocate(bytes: Long): Long = {
      if (copies == null) copies = new TransientMemory
      copies.allocate(math.max(1L, bytes))
    }

    def copyIn(bytes: Array[Byte]): Long = {
      val address = allocate(bytes.length)
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, address, bytes.length)
      address
    }

    def free(): Unit = if (copies != null) copies.close()
  }

  /** What a reader showed last. Must not refer to the reader, or it would never be unreachable. */
  private final class Shown(batches: Seq[Planned], pins: PinTable) extends Runnable {
    override def run(): Unit = {
      batches.foreach(pins.drop)
      pins.close()
    }
  }

  /** One hold on a segment, shared by all batches of this reader that lie in it. */
  private final class Pin(val region: Region, val segment: Int, val key: Long) {
    var users = 0
    var held = false
    var address = 0L
  }

  /** The segments this reader holds or wants. */
  private final class PinTable extends AutoCloseable {
    private val table = new mutable.LongMap[Pin]
    private val regions = Collections.newSetFromMap(new IdentityHashMap[Region, java.lang.Boolean])
    private var lastRegion: Region = _

    /** Set when the store had no room for one more segment ahead. */
    var full = false
    var bytesStarted = 0L

    def start(region: Region, segment: Int, endOffset: Long): Pin = {
      retain(region)
      val key = region.id << 24 | segment
      val pin = table.getOrElseUpdate(key, {
        val fresh = new Pin(region, segment, key)
        fresh.held = region.pinStart(segment) != NativeStore.NO_ROOM
        full |= !fresh.held
        bytesStarted += math.max(StoreRoom.FrameBytes, endOffset)
        fresh
      })
      pin.users += 1
      pin
    }

    def address(pin: Pin): Long = {
      val started = pin.held
      // A failing pinWait has given its hold back.
      pin.held = false
      pin.address =
        if (started) pin.region.pinWait(pin.segment) else pin.region.pin(pin.segment)
      pin.held = true
      pin.address
    }

    def drop(planned: Planned): Unit = {
      planned.pins.foreach(pin => if (pin != null) letGo(pin))
      planned.free()
    }

    private def letGo(pin: Pin): Unit = {
      pin.users -= 1
      if (pin.users == 0) {
        table.remove(pin.key)
        if (pin.held) {
          pin.held = false
          pin.region.unpin(pin.segment)
        }
      }
    }

    override def close(): Unit = {
      table.valuesIterator.filter(_.held).foreach(pin => pin.region.unpin(pin.segment))
      table.clear()
      regions.forEach(_.release())
      regions.clear()
    }

    private def retain(region: Region): Unit = {
      if ((region ne lastRegion) && !regions.contains(region)) {
        if (!region.retain()) {
          throw new IOException("a cached block was removed before its batches were read")
        }
        regions.add(region)
      }
      lastRegion = region
    }
  }

  private val AheadMax = 512
}
