package io.warmset.spark

import java.util.concurrent.ExecutionException

import org.apache.spark.internal.Logging

/** Asks the driver which of these RDDs Spark can compute again; the answer is an Array[Int]. */
final case class RecomputableAmong(rdds: Seq[Int]) extends Serializable

/** Asks the driver whether the RDD is of a local checkpoint, or computed from one; the answer is a Boolean. */
final case class OfLocalCheckpoint(rdd: Int) extends Serializable

/**
 * Which RDDs Spark can compute again: only the driver can tell them from local checkpoints.
 *
 * Invariant: what the driver has not said just now to be so, is not. A yes is not kept, since an
 * RDD may be marked for a local checkpoint later (Spark computes what is missing of it then); a no,
 * and that the driver did not answer, hold for a minute, so that a full store asks seldom.
 * `recomputable` is to be called by one thread at a time, which holds no lock of Spark's but that of
 * the block it writes.
 *
 * @param ask sends a message to the driver and waits for its answer
 */
private[spark] final class Lineage(
    ask: AnyRef => AnyRef,
    patienceMs: Long = DriverQuestions.PatienceMs,
    nowNs: () => Long = () => System.nanoTime) extends Logging {
  import Lineage._

  private val driver = new DriverQuestions(ask, patienceMs)
  private var refusedAtNs = Map.empty[Int, Long]
  private var silentAtNs: Option[Long] = None

  def recomputable(rdds: Set[Int]): Set[Int] = {
    val now = nowNs()
    refusedAtNs = refusedAtNs.filter { case (_, at) => now - at < RestNs }
    silentAtNs = silentAtNs.filter(now - _ < RestNs)
    val unknown = rdds -- refusedAtNs.keySet
    if (unknown.isEmpty || silentAtNs.isDefined) {
      Set.empty
    } else {
      val found = answer(unknown)
      if (found.isEmpty) silentAtNs = Some(nowNs())
      else refusedAtNs ++= (unknown -- found.get).map(_ -> now)
      found.getOrElse(Set.empty)
    }
  }

  /** Whether a block of the RDD may be the last of its data: it is, if the driver does not say otherwise. */
  def mayBeLast(rdd: Int): Boolean =
    try driver.answer(OfLocalCheckpoint(rdd)) match {
      case of: java.lang.Boolean => of
      case _ => true
    } catch {
      case DriverQuestions.Silence(cause) =>
        logWarning(s"The driver does not say whether RDD $rdd can be computed again: its blocks stay", cause)
        true
    }

  private def answer(rdds: Set[Int]): Option[Set[Int]] =
    try driver.answer(RecomputableAmong(rdds.toSeq)) match {
      case found: Array[Int] => Some(rdds.intersect(found.toSet))
      case other => throw new ExecutionException(s"an answer of $other", null)
    } catch {
      case DriverQuestions.Silence(cause) =>
        logWarning("The driver does not say which RDDs can be computed again: those persisted at " +
          "a level with disk are not evicted for a minute", cause)
        None
    }
}

private[spark] object Lineage {
  private val RestNs = 60000000000L
}
