package org.apache.spark.storage.memory.warmset

import scala.collection.mutable

import org.apache.spark.storage.{BlockId, RDDBlockId}

/**
 * Which blocks of RDDs lie in the memory store as objects and may be packed, and which RDDs did not
 * all fit there.
 *
 * Invariant: an RDD is known from its first block of objects on, as long as a block of it is in the
 * store: this grows with what is cached, not with what ever was.
 */
private[warmset] final class ObjectBlocks {
  private final class Known {
    val others = mutable.HashSet.empty[RDDBlockId]
    val objects = mutable.LinkedHashSet.empty[RDDBlockId]
    var overflowed = false
    // Of all blocks of objects that came, and how many those were.
    var bytes = 0L
    var came = 0
    var expected: Option[Double] = None
    var askAt = 1
  }

  private val rdds = mutable.HashMap.empty[Int, Known]

  /** A driver that does not answer is waited for; blocks come meanwhile. */
  private val AskEvery = 8

  /**
   * The block is in the store now, as objects. Gives how many bytes its RDD's blocks of objects take on
   * the average.
   */
  def putObjects(block: RDDBlockId, bytes: Long): Long = synchronized {
    val known = rdds.getOrElseUpdate(block.rddId, new Known)
    known.objects += block
    known.bytes += bytes
    known.came += 1
    known.bytes / known.came
  }

  /** The block is in the store now, packed, or never to be. */
  def putOther(block: RDDBlockId): Unit = synchronized {
    for (known <- rdds.get(block.rddId)) {
      known.objects -= block
      known.others += block
    }
  }

  def remove(block: BlockId): Unit = block match {
    case of: RDDBlockId => synchronized {
      for (known <- rdds.get(of.rddId)) {
        known.objects -= of
        known.others -= of
        forgetIfEmpty(of.rddId)
      }
    }
    case _ =>
  }

  def clear(): Unit = synchronized(rdds.clear())

  def contains(block: RDDBlockId): Boolean =
    synchronized(rdds.get(block.rddId).exists(_.objects(block)))

  /** How many blocks of the RDD will be here, as of `expect`. */
  def expected(rdd: Int): Option[Double] = synchronized(rdds.get(rdd).flatMap(_.expected))

  /** Whether to ask how many there will be: not known, and it was not asked for a few blocks ago. */
  def shouldAsk(rdd: Int): Boolean = synchronized {
    rdds.get(rdd).exists { known =>
      val asks = known.expected.isEmpty && known.came >= known.askAt
      if (asks) known.askAt = known.came + AskEvery
      asks
    }
  }

  def expect(rdd: Int, count: Double): Unit =
    synchronized(rdds.get(rdd).foreach(_.expected = Some(count)))

  /** Whether Spark's memory had no room for all of the RDD as objects. */
  def overflowed(rdd: Int): Boolean = synchronized(rdds.get(rdd).exists(_.overflowed))

  /** False if it was known to. */
  def overflow(rdd: Int): Boolean = synchronized {
    val known = rdds.getOrElseUpdate(rdd, new Known)
    val isNew = !known.overflowed
    known.overflowed = true
    isNew
  }

  /** A block of the RDD was not stored in the end. */
  def forgetIfEmpty(rdd: Int): Unit = synchronized {
    if (rdds.get(rdd).exists(known => known.objects.isEmpty && known.others.isEmpty)) rdds -= rdd
  }

  /** Some of the RDD's blocks of objects, those first that came first. */
  def oldest(rdd: Int, count: Int): Seq[RDDBlockId] =
    synchronized(rdds.get(rdd).toSeq.flatMap(_.objects.iterator.take(count)))
}
