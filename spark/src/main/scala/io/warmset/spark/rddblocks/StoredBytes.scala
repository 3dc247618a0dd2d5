package io.warmset.spark.rddblocks

import io.warmset.rdd.{ElementCoder, TableBudget}
import io.warmset.region.Region
import io.warmset.spark.RegionHandle
import org.apache.spark.warmset.SizedHandle

/**
 * A piece of an RDD's block: a small handle on bytes that lie in one segment of a region, or on the
 * heap where there was no room or they are few.
 *
 * Invariant: it never leaves the process: see OwnedValues.
 */
private[spark] sealed abstract class StoredBytes extends SizedHandle with RegionHandle {
  def bytes: Long
  def place: Place
  private[spark] final override def region: Region = place.region

  /** Heap bytes that this handle stands for, besides itself and its place. */
  protected def tableBytes: Long

  /** Heap bytes only: what lies in the pool or on disk is not Spark's memory to charge. */
  override def estimatedSize: Long =
    StoredBytes.HandleBytes + tableBytes + (if (place.heap == null) 0L else place.heap.length + 16L)
}

/** Where bytes lie: from the start of a region's segment, or in `heap` if `region` is null. */
private[spark] final case class Place(region: Region, segment: Long, heap: Array[Byte])

/**
 * Exactly `count` consecutive elements, which `coder` reads.
 *
 * @param tableBytes by how much the coder's tables grew since the batch before it: its own, from `tables`
 */
private[spark] final class ElementBatch(
    val coder: ElementCoder,
    val count: Int,
    val bytes: Long,
    protected val tableBytes: Long,
    tables: TableBudget,
    val place: Place)
  extends StoredBytes {
  // Those on the heap are never closed.
  if (place.region == null) released()

  override protected def released(): Unit = tables.giveBack(tableBytes)
}

/** A stretch of the stream that Spark's serializer made of the block. */
private[spark] final class SerialBytes(val bytes: Long, val place: Place) extends StoredBytes {
  override protected def tableBytes: Long = 0
}

private[spark] object StoredBytes {
  // The handle and its place, with what they refer to; rounded up.
  private val HandleBytes = 136L
}
