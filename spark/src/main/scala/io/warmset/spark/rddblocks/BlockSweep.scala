package io.warmset.spark.rddblocks

import scala.collection.mutable

/**
 * In which order one RDD's blocks are read, for what is likely to be read next.
 *
 * Spark starts the tasks of a stage by their partitions' numbers, as slots become free: what was opened last may have
 * a lower number than what was opened before it. A block that is opened again begins a new sweep. After two sweeps a
 * third is likely: an iterative job.
 */
private[spark] final class BlockSweep {
  private val opened = new mutable.BitSet
  private var sweeps = 0
  private var mistaken = false
  // Of the blocks that were opened, or given for this sweep; and of those that were given for the one after it.
  private var highest = -1
  private var highestOfNext = -1

  /** A block is read from its beginning. */
  def open(split: Int): Unit = {
    if (sweeps == 0 || opened(split)) {
      sweeps += 1
      mistaken = false
      opened.clear()
      highest = highestOfNext
      highestOfNext = -1
    }
    opened += split
    highest = math.max(highest, split)
  }

  /** A block that was given has not been opened: there are no more until the next sweep. */
  def mistake(): Unit = mistaken = true

  /**
   * The first of the blocks after all that were opened or given here for which `find` has something, and that; of the
   * next sweep's where this one has no more. One block alone is no sweep.
   */
  def next[T](find: Int => Option[T]): Option[(Int, T)] =
    if (mistaken || opened.size < BlockSweep.SweepMin) None
    else {
      val inThis = first(highest + 1, find)
      val found = if (inThis.isDefined || sweeps < BlockSweep.RepeatedMin) inThis else first(highestOfNext + 1, find)
      found.foreach { case (split, _) =>
        if (inThis.isDefined) highest = split else highestOfNext = split
      }
      found
    }

  private def first[T](from: Int, find: Int => Option[T]): Option[(Int, T)] =
    Iterator.range(from, from + BlockSweep.LooksMax).flatMap(split => find(split).map(split -> _)).nextOption()
}

private[spark] object BlockSweep {
  private val SweepMin = 2
  private val RepeatedMin = 2
  /** Other executors have the blocks between two that this one has. */
  private val LooksMax = 64
}
