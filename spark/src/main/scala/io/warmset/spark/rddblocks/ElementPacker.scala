package io.warmset.spark.rddblocks

import java.util.concurrent.ConcurrentHashMap

import io.warmset.rdd.{ByteSource, ElementCoder, ElementFallbacks}
import io.warmset.region.NoSpaceException
import io.warmset.spark.{StoreHolder, StoreRoom, TaskScope}
import org.apache.spark.internal.Logging

/**
 * The elements of one partition on their way into a region.
 *
 * Invariant: elements keep their order, and none is lost. An element that nothing can serialise
 * stays as it is, between the handles; the elements before it, back to the one that stayed before,
 * stay on the heap as bytes if they would leave most of a frame unused. A partition of fewer than
 * `smallPartitionBytes` in all stays there too, and so does what the store has no room for, but for
 * an element of more than `heapPieceBytesMax`, which stays as an object. The first value is always
 * a handle.
 *
 * @param roomOrNothing whether a store without room is a NoSpaceException
 */
private[spark] final class ElementPacker(
    elements: Iterator[Any],
    holder: StoreHolder.Running,
    scope: TaskScope,
    heapPieceBytesMax: Long = SegmentWriter.HeapPieceBytesMax,
    roomOrNothing: Boolean = false)
  extends Packing(holder, scope) {
  import ElementPacker._

  private val coder = new ElementCoder(ElementFallbacks.current(), holder.tables)
  // Where the first `counted` elements in the sink end.
  private var ends = new Array[Long](64)
  private var counted = 0
  private var chargedTableBytes = 0L

  override protected def fill(): Unit = {
    while (noneReady && elements.hasNext) append(elements.next())
    if (noneReady) {
      emitAll(writer.small)
      close()
    }
  }

  // There is no coder yet where the task had ended before this was made.
  override protected def released(): Unit = if (coder != null) {
    coder.written()
    holder.tables.giveBack(takeTableGrowth())
  }

  private def append(element: Any): Unit =
    if (coder.write(element.asInstanceOf[AnyRef], sink)) {
      if (counted == ends.length) ends = java.util.Arrays.copyOf(ends, 2 * counted)
      ends(counted) = sink.position
      counted += 1
      if (sink.position >= gatheredBytes(writer.targetBytes)) emitSegment()
    } else {
      RddWarnings.onHeap(element, coder.lastReason)
      emitAll(_ < ShortBytes)
      keep(element)
    }

  private def emitAll(onHeap: Long => Boolean): Unit = while (counted > 0) {
    if (onHeap(sink.position)) {
      emitOnHeap(counted)
      forget(counted)
    } else {
      emitSegment()
    }
  }

  private def emitSegment(): Unit = {
    val count = cut(ends, counted, writer.targetBytes)
    val bytes = ends(count - 1)
    writer.put(sink, 0, bytes) match {
      case Some(place) => emit(batch(count, bytes, place))
      case None if roomOrNothing => throw new NoSpaceException("there is no room for the block")
      case None => emitOnHeap(count)
    }
    forget(count)
  }

  /** The first `count` elements, in pieces of one or of at most HeapPieceBytes. */
  private def emitOnHeap(count: Int): Unit = {
    var first = 0
    var start = 0L
    (1 to count).foreach { until =>
      if (until == count || ends(until) - start > SegmentWriter.HeapPieceBytes) {
        emitPiece(until - first, start, ends(until - 1) - start)
        first = until
        start = ends(until - 1)
      }
    }
  }

  private def emitPiece(count: Int, start: Long, bytes: Long): Unit =
    if (bytes <= heapPieceBytesMax) {
      emit(batch(count, bytes, SegmentWriter.onHeap(sink, start, bytes)))
    } else {
      keep(coder.read(new ByteSource(sink.address + start, bytes)))
    }

  private def batch(count: Int, bytes: Long, place: Place): ElementBatch =
    new ElementBatch(coder, count, bytes, takeTableGrowth(), holder.tables, place)

  private def takeTableGrowth(): Long = {
    val grown = coder.tableBytes - chargedTableBytes
    chargedTableBytes += grown
    grown
  }

  /** Hands an element out as it is. */
  private def keep(element: Any): Unit = {
    if (!emitted) emit(batch(0, 0, SegmentWriter.onHeap(sink, 0, 0)))
    pass(element)
  }

  private def forget(count: Int): Unit = {
    val bytes = ends(count - 1)
    drop(bytes)
    counted -= count
    (0 until counted).foreach(i => ends(i) = ends(i + count) - bytes)
  }
}

private[spark] object ElementPacker {
  private val CutBack = 3
  /** Of a segment's bytes, what its last frame may leave unused before other cuts are looked for. */
  private val WasteMax = 0.02
  private val ShortBytes = StoreRoom.FrameBytes / 2

  /** How many bytes to gather before a segment is cut: elements of a megabyte leave choices then. */
  private[spark] def gatheredBytes(target: Long): Long = target + target / 2

  /**
   * How many of the `counted` elements that end at `ends` to put in one segment: as many as fit
   * `target`, or a few fewer if that leaves less of the last frame unused; or, if much is unused
   * either way, as many as have been gathered or somewhat fewer. At least one.
   */
  private[spark] def cut(ends: Array[Long], counted: Int, target: Long): Int =
    if (ends(counted - 1) < target) {
      counted
    } else {
      def waste(count: Int): Double = {
        val bytes = ends(count - 1)
        val frames = (bytes + StoreRoom.FrameBytes - 1) / StoreRoom.FrameBytes
        (frames * StoreRoom.FrameBytes - bytes).toDouble / bytes
      }
      def fitting(most: Long): Int = {
        val found = java.util.Arrays.binarySearch(ends, 0, counted, most)
        if (found >= 0) found + 1 else -found - 1
      }
      val usual = fitting(target)
      val near = (math.max(1, usual - CutBack) to math.max(1, usual)).minBy(waste)
      if (usual == 0 || waste(near) <= WasteMax) near
      else (near to math.max(usual, fitting(gatheredBytes(target)))).minBy(waste)
    }
}

/** Says once per class that its elements stay on the heap, and why. */
private[spark] object RddWarnings extends Logging {
  private val said = ConcurrentHashMap.newKeySet[String]
  private val ClassesMax = 1000

  def onHeap(element: Any, why: String): Unit = {
    val name = element.getClass.getName
    if (said.size < ClassesMax && said.add(name)) {
      logWarning(s"Elements of class $name cannot be kept in regions and stay on the Java heap, " +
        s"under Spark's own rules: $why. A class goes there that is java.io.Serializable, with all that " +
        "its objects refer to")
    }
  }
}
