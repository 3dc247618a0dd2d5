package io.warmset.spark.cachedframes

import scala.collection.mutable

import io.warmset.spark.{StoreHolder, TaskScope, WarmBatch}
import org.apache.spark.sql.columnar.CachedBatch

/**
 * Encoded batches of one partition, gathered into row groups and placed.
 *
 * Invariant: batches come out in the order they came in, each after its whole group has been
 * placed; a partition that ends with fewer than `smallPartitionBytes` in all stays on the heap.
 * Batches are in the task's scope before they are handed out. It does not encode.
 *
 * @param released called when the encoded bytes of a group are no longer needed
 */
private[spark] final class GroupedBatches(
    source: Iterator[EncodedBatch],
    holder: StoreHolder.Running,
    scope: TaskScope,
    released: () => Unit)
  extends Iterator[CachedBatch] {

  private val writer = new RegionWriter(holder)
  private val ready = new mutable.Queue[WarmBatch]
  private var first = true
  scope.own(writer)

  override def hasNext: Boolean = ready.nonEmpty || source.hasNext

  override def next(): CachedBatch = {
    if (ready.isEmpty) fill()
    ready.dequeue()
  }

  private def fill(): Unit = {
    val group = mutable.ArrayBuffer(source.next())
    var bytes = group.head.bytes
    while (bytes < holder.conf.rowGroupBytes && source.hasNext) {
      group += source.next()
      bytes += group.last.bytes
    }
    if (first && bytes < holder.conf.smallPartitionBytes && !source.hasNext) {
      ready ++= group.map(_.onHeap)
    } else {
      writer.layOut(group.toIndexedSeq).foreach { batch =>
        scope.add(batch)
        ready += batch
      }
    }
    first = false
    released()
    if (!source.hasNext) writer.close()
  }
}

/** Batches that were read back from bytes, on their way into the memory store. */
private[spark] object BatchesIntoRegion {
  def replace(values: Iterator[Any], holder: StoreHolder.Running): Iterator[Any] = {
    val source = values.map {
      case b: WarmBatch =>
        new EncodedBatch(b.meta, b.stats, addresses = null, heap = b.heap, foreign = true)
      case other =>
        throw new IllegalStateException(s"a block of cached batches holds a ${other.getClass}")
    }
    val scope = TaskScope.begin()
    scope.guard(new GroupedBatches(source, holder, scope, () => ()))
  }
}
