package io.warmset.spark.cachedframes

import java.io.IOException

import scala.collection.mutable.ArrayBuffer

import io.warmset.columns.BatchMeta
import io.warmset.region.{NoSpaceException, Region, Store}
import io.warmset.spark.{Eviction, StoreHolder, StoreRoom, WarmBatch, WritingRdds}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.unsafe.Platform

/**
 * Encoded columns of one batch on their way into a region.
 *
 * Invariant: column `c` is `meta.bytes(c)` bytes, at `addresses(c)` in native memory, or in `heap(c)`
 * where `addresses` is null. `foreign` says that this process did not encode them.
 */
private[spark] final class EncodedBatch(
    val meta: BatchMeta,
    val stats: InternalRow,
    val addresses: Array[Long],
    val heap: Array[Array[Byte]],
    val foreign: Boolean = false) {

  val bytes: Long = meta.bytes()
  def columns: Int = meta.numColumns

  def copyTo(column: Int, address: Long): Unit =
    if (addresses != null) {
      Platform.copyMemory(null, addresses(column), null, address, meta.bytes(column))
    } else {
      Platform.copyMemory(heap(column), Platform.BYTE_ARRAY_OFFSET, null, address, meta.bytes(column))
    }

  def toHeap(column: Int): Array[Byte] =
    if (addresses != null) {
      val bytes = new Array[Byte](Math.toIntExact(meta.bytes(column)))
      Platform.copyMemory(null, addresses(column), bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length)
      bytes
    } else {
      heap(column)
    }

  def onHeap: WarmBatch =
    WarmBatch.onHeap(meta, stats, Array.tabulate(columns)(toHeap), foreign)
}

/**
 * Lays row groups out in one region, column by column: all batches' vectors of a column lie side by
 * side, so that a query on few columns touches few segments.
 *
 * Invariant: every vector lies whole in one sealed segment, at a multiple of 64 bytes, or on the
 * heap when the store had no room for it, also after evictions, or failed to take it: no batch is
 * lost. At most one segment is open at a time. The region is made with the first group and lives on in the batches;
 * `close` gives the writer's own reference back.
 */
private[spark] final class RegionWriter(newRegion: () => Region, store: Store)
  extends AutoCloseable {
  import RegionWriter._

  def this(holder: StoreHolder.Running) = this(() => holder.store.newRegion(), holder.store)

  private var region: Region = _
  private var writing = Set.empty[Int]
  private var closed = false

  /** Places a row group; the batches come out in their order. */
  def layOut(group: IndexedSeq[EncodedBatch]): Seq[WarmBatch] = {
    if (region == null && !closed) {
      region = newRegion()
      // What is not stored as a block in the end is still written on behalf of one.
      writing = WritingRdds.current
    }
    val placing = new Placing(group)
    (0 until group.head.columns).foreach(placing.column)
    placing.seal()
    group.indices.map(placing.batch)
  }

  override def close(): Unit = if (!closed) {
    closed = true
    if (region != null) region.release()
  }

  /** The state of laying one group out. */
  private final class Placing(group: IndexedSeq[EncodedBatch]) {
    private val segments = Array.fill(group.length)(Array.fill(group.head.columns)(-1))
    private val offsets = Array.fill(group.length)(new Array[Int](group.head.columns))
    private val inOpen = new ArrayBuffer[(Int, Int)]
    private val address = new Array[Long](1)
    private var open = -1L
    private var capacity = 0L
    private var used = 0L
    private var failed = false

    def column(c: Int): Unit = {
      val mean = group.iterator.map(_.meta.bytes(c)).sum / group.length
      group.indices.foreach { b => if (!failed) place(b, c, mean, group.length - b) }
    }

    def batch(b: Int): WarmBatch = {
      val e = group(b)
      val heap = if (segments(b).contains(-1)) {
        Array.tabulate(e.columns)(c => if (segments(b)(c) < 0) e.toHeap(c) else null)
      } else {
        null
      }
      WarmBatch.inRegion(e.meta, e.stats, region, segments(b), offsets(b), heap, e.foreign)
    }

    private def place(b: Int, c: Int, mean: Long, remaining: Int): Unit = {
      val bytes = group(b).meta.bytes(c)
      if (open < 0 || used + bytes > capacity) {
        seal()
        if (!failed) reserve(segmentBytes(bytes, mean, remaining))
      }
      if (!failed) {
        group(b).copyTo(c, address(0) + used)
        segments(b)(c) = open.toInt
        offsets(b)(c) = used.toInt
        inOpen += (b -> c)
        used = (used + bytes + 63) & ~63L
      }
    }

    private def reserve(bytes: Long): Unit =
      try {
        open = Eviction.whileFull(store, writing)(region.reserve(bytes, address))
        capacity = bytes
        used = 0
      } catch {
        case noRoom: NoSpaceException => fail(noRoom)
        case broken: IOException => fail(broken)
      }

    /** A segment that cannot be sealed is not readable: its vectors go to the heap instead. */
    def seal(): Unit = if (open >= 0) {
      try region.seal(open, used)
      catch {
        case cause: IOException =>
          inOpen.foreach { case (b, c) => segments(b)(c) = -1 }
          fail(cause)
      }
      inOpen.clear()
      open = -1
    }

    private def fail(cause: IOException): Unit = {
      failed = true
      StoreRoom.warnOnHeap(cause)
    }
  }
}

private[spark] object RegionWriter {
  import StoreRoom.FrameBytes

  private val FramesPerSegmentMax = 4
  private val WasteMax = 0.06

  /**
   * Bytes of the next segment: as few frames as leave little of it unused by vectors of about
   * `mean` bytes, of which `remaining` are still to come.
   */
  private[spark] def segmentBytes(bytes: Long, mean: Long, remaining: Int): Long = {
    val least = math.max(1L, (bytes + FrameBytes - 1) / FrameBytes)
    val padded = math.max(64L, (math.max(bytes, mean) + 63) & ~63L)
    val total = padded * remaining
    def waste(frames: Long): Double = {
      val size = frames * FrameBytes
      if (total >= size) (size % padded).toDouble / size else 0.0
    }
    val candidates = least until math.max(least + 1, FramesPerSegmentMax + 1L)
    candidates.find(waste(_) <= WasteMax).getOrElse(candidates.minBy(waste)) * FrameBytes
  }
}
