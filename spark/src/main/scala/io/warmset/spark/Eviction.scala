package io.warmset.spark

import java.util.concurrent.locks.ReentrantLock

import scala.annotation.tailrec

import io.warmset.region.{NoSpaceException, Store}
import org.apache.spark.internal.Logging
import org.apache.spark.storage.{BlockId, RDDBlockId}
import org.apache.spark.warmset.SparkInternals

/**
 * Room for cached data when memory and disk are full: the cached blocks that were used longest ago
 * go, each with its whole region, and Spark computes them again when they are read.
 *
 * Invariant: one task at a time evicts, and tries its own write again before it takes the next
 * block, so that tasks that find the store full together evict no more than they need. It waits
 * for no block: those that anybody reads or writes, this task included, stay. So do all blocks of
 * the RDDs that are being written, as under Spark's own rule: a scan over one RDD that is larger
 * than the store would otherwise evict what it needs next. So do blocks that could not be computed
 * again. Where nothing may go, the writer gets its NoSpaceException.
 */
private[spark] object Eviction extends Logging {
  private val turn = new ReentrantLock

  /** Who knows what can be computed again: set while this process has a driver to ask. */
  @volatile private[spark] var lineage: Option[Lineage] = None

  /**
   * Runs `write` until it finds space or there is nothing to evict.
   *
   * @param writing the RDDs that are being written; if none is known, nothing is evicted
   */
  def whileFull[T](store: Store, writing: Set[Int])(write: => T): T =
    attempt(write) match {
      case Right(written) => written
      case Left(full) if writing.isEmpty => throw full
      case Left(_) =>
        turn.lockInterruptibly()
        try retry(store, writing, () => write) finally turn.unlock()
    }

  /**
   * Takes a block that cannot be read away from Spark, once its readers have ended. One that may be the last of
   * its data goes only from memory, and only if Spark has it on its own disk, too. It asks the driver.
   */
  private[spark] def removeUnreadable(block: BlockId): Unit = {
    val last = block match {
      case RDDBlockId(rdd, _) if SparkInternals.needsLineage(block) => lineage.forall(_.mayBeLast(rdd))
      case _ => false
    }
    if (last) SparkInternals.leaveToDisk(block) else SparkInternals.removeBlock(block)
  }

  @tailrec
  private def retry[T](store: Store, writing: Set[Int], write: () => T): T =
    attempt(write()) match {
      case Right(written) => written
      case Left(full) =>
        SparkInternals.killTaskIfInterrupted()
        if (!evictColdest(store, writing)) throw full
        retry(store, writing, write)
    }

  private def attempt[T](write: => T): Either[NoSpaceException, T] =
    try Right(write)
    catch { case full: NoSpaceException => Left(full) }

  private def evictColdest(store: Store, writing: Set[Int]): Boolean = {
    val coldest = store.coldestRegions().toSeq.flatMap(RegionBlocks.of(_)).collect {
      case block @ RDDBlockId(rdd, _) if !writing(rdd) => block
    }
    // Once for all of them, and only if it comes to one that needs it.
    lazy val recomputable = lineage.fold(Set.empty[Int])(
      _.recomputable(coldest.filter(SparkInternals.needsLineage).map(_.rddId).toSet))
    val evicted = coldest.find { block =>
      val known = SparkInternals.needsLineage(block) && recomputable(block.rddId)
      SparkInternals.removeIfIdle(block, known)
    }
    evicted.foreach { block =>
      store.countEviction()
      logInfo(s"Block $block was evicted: memory and disk are full, and it was used longest ago")
    }
    evicted.isDefined
  }
}

/**
 * The RDDs of which this thread is putting a block into the memory store now: more than one where
 * a block is computed from another that has to be computed first.
 *
 * Invariant: follows the calls of `within` and `none`, however they end.
 */
private[spark] object WritingRdds {
  private val rdds = ThreadLocal.withInitial[Set[Int]](() => Set.empty)

  def current: Set[Int] = rdds.get

  def within[T](block: BlockId)(body: => T): T =
    having(current ++ block.asRDDId.map(_.rddId))(body)

  /** For what must evict nothing. */
  def none[T](body: => T): T = having(Set.empty)(body)

  private def having[T](now: Set[Int])(body: => T): T = {
    val outer = rdds.get
    rdds.set(now)
    try body finally rdds.set(outer)
  }
}
