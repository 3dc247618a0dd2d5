package org.apache.spark.storage.memory.warmset

import scala.collection.mutable

import org.apache.spark.storage.{BlockId, RDDBlockId}

/**
 * Which blocks of RDDs lie in the memory store as objects, and which RDDs did not all fit there.
 *
 * Invariant: an RDD is known from its first block of objects on, as long as a block of it is in the
 * store: this grows with what is cached, not with what ever was.
 */
private[warmset] final class ObjectBlocks {
  private final class Known {
    val others = mutable.HashSet.empty[BlockId]
    val objects = mutable.LinkedHashSet.empty[BlockId]
    var overflowed = false
  }

  private val rdds = mutable.HashMap.empty[Int, Known]

  /** The block is in the store now, as objects. */
  def putObjects(block: RDDBlockId): Unit =
    synchronized(rdds.getOrElseUpdate(block.rddId, new Known).objects += block)

  /** The block is in the store now, packed. */
  def putPacked(block: RDDBlockId): Unit = synchronized {
    for (known <- rdds.get(block.rddId)) {
      known.objects -= block
      known.others += block
    }
  }

  def remove(block: BlockId): Unit = block match {
    case RDDBlockId(rdd, _) => synchronized {
      for (known <- rdds.get(rdd)) {
        known.objects -= block
        known.others -= block
        if (known.objects.isEmpty && known.others.isEmpty) rdds -= rdd
      }
    }
    case _ =>
  }

  def clear(): Unit = synchronized(rdds.clear())

  def contains(block: BlockId): Boolean = block match {
    case RDDBlockId(rdd, _) => synchronized(rdds.get(rdd).exists(_.objects(block)))
    case _ => false
  }

  /** Whether Spark's memory had no room for all of the RDD as objects. */
  def overflowed(rdd: Int): Boolean = synchronized(rdds.get(rdd).exists(_.overflowed))

  def overflow(rdd: Int): Unit = synchronized(rdds.getOrElseUpdate(rdd, new Known).overflowed = true)

  /** Some of the RDD's blocks of objects, those first that came first. */
  def oldest(rdd: Int, count: Int): Seq[BlockId] =
    synchronized(rdds.get(rdd).toSeq.flatMap(_.objects.iterator.take(count)))

  def isEmpty: Boolean = synchronized(rdds.isEmpty)
}
