package io.warmset.spark

import org.apache.spark.storage.BlockId

/**
 * The RDDs of which this thread is putting a block into the memory store now: more than one where
 * a block is computed from another that has to be computed first.
 *
 * Invariant: follows the calls of `within`, however they end.
 */
private[spark] object WritingRdds {
  private val rdds = ThreadLocal.withInitial[Set[Int]](() => Set.empty)

  def current: Set[Int] = rdds.get

  def within[T](block: BlockId)(body: => T): T = {
    val outer = rdds.get
    rdds.set(outer ++ block.asRDDId.map(_.rddId))
    try body finally rdds.set(outer)
  }
}
