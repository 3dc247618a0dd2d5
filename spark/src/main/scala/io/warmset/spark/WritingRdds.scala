package io.warmset.spark

import org.apache.spark.storage.BlockId

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
