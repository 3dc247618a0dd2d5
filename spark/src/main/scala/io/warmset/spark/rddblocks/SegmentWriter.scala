package io.warmset.spark.rddblocks

import java.io.IOException

import io.warmset.rdd.ByteSink
import io.warmset.region.Region
import io.warmset.spark.{Eviction, StoreHolder, StoreRoom, WritingRdds}
import org.apache.spark.unsafe.Platform

/**
 * Puts bytes of one RDD block into a region, a segment at a time.
 *
 * Invariant: where the store has no room, also after evictions, nothing is put: the bytes stay with
 * the caller. The region is made with the first segment and lives on in the handles; `close`, which
 * is idempotent, gives the writer's own reference back.
 */
private[spark] final class SegmentWriter(holder: StoreHolder.Running) extends AutoCloseable {
  import SegmentWriter._

  private var region: Region = _
  private var writing = Set.empty[Int]
  private var closed = false

  /** About how many bytes to gather for one segment. A small pool is given out in small pieces. */
  val targetBytes: Long = math.max(StoreRoom.FrameBytes,
    math.min(SegmentBytesMax, holder.budgetNow / 32))

  /** Whether a block of so few bytes in all is not worth a huge page. */
  def small(bytes: Long): Boolean = region == null && bytes < holder.conf.smallPartitionBytes

  /**
   * Copies the `bytes` bytes of `sink` from `start` on into a segment; none where there is no room.
   * Each place in a region has a reference of its own.
   */
  def put(sink: ByteSink, start: Long, bytes: Long): Option[Place] =
    try {
      if (region == null) {
        region = holder.store.newRegion()
        writing = WritingRdds.current
      }
      val address = new Array[Long](1)
      val segment = Eviction.whileFull(holder.store, writing)(region.reserve(bytes, address))
      Platform.copyMemory(null, sink.address + start, null, address(0), bytes)
      region.seal(segment, bytes)
      require(region.retain(), "the region of a writer must not have been released")
      Some(Place(region, segment, heap = null))
    } catch {
      case cause: IOException =>
        StoreRoom.warnOnHeap(cause)
        None
    }

  override def close(): Unit = if (!closed) {
    closed = true
    if (region != null) region.release()
  }
}

private[spark] object SegmentWriter {
  /**
   * About how many bytes to keep in one piece on the heap: Spark looks at the size of what it
   * unrolls after every 16 values only.
   */
  val HeapPieceBytes: Long = 256L << 10

  /** The most bytes in one piece on the heap: a longer array is more than some JVMs make. */
  val HeapPieceBytesMax: Long = Int.MaxValue - 15L

  /** Copies the `bytes` bytes of `sink` from `start` on to the heap. */
  def onHeap(sink: ByteSink, start: Long, bytes: Long): Place = {
    val heap = new Array[Byte](Math.toIntExact(bytes))
    Platform.copyMemory(null, sink.address + start, heap, Platform.BYTE_ARRAY_OFFSET, bytes)
    Place(region = null, segment = -1, heap)
  }

  /** Large enough for one fast read, small enough that a few of them pipeline. */
  private val SegmentBytesMax = 4 * StoreRoom.FrameBytes
}
