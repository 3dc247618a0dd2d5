package io.warmset.spark

import java.util.concurrent.{ExecutionException, FutureTask, TimeoutException, TimeUnit}

import org.apache.spark.internal.Logging

/** Asks the driver which of these RDDs Spark can compute again; the answer is an Array[Int]. */
final case class RecomputableAmong(rdds: Seq[Int]) extends Serializable

/**
 * Which RDDs Spark can compute again: only the driver can tell them from local checkpoints.
 *
 * Invariant: what the driver has not said just now to be so, is not. A yes is not kept, since an
 * RDD may be marked for a local checkpoint later (Spark computes what is missing of it then); a no,
 * and that the driver did not answer, hold for a minute, so that a full store asks seldom. To be
 * called by one thread at a time, which holds no lock of Spark's but that of the block it writes.
 *
 * @param ask sends a message to the driver and waits for its answer
 */
private[spark] final class Lineage(
    ask: AnyRef => AnyRef,
    patienceMs: Long = Lineage.PatienceMs,
    nowNs: () => Long = () => System.nanoTime) extends Logging {
  import Lineage._

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

  private def answer(rdds: Set[Int]): Option[Set[Int]] = {
    val asked = new FutureTask[AnyRef](() => ask(RecomputableAmong(rdds.toSeq)))
    // Never interrupted: Spark takes a look-up of the driver that fails for its absence, for ever.
    val thread = new Thread(asked, "warmset-lineage")
    thread.setDaemon(true)
    thread.start()
    try asked.get(patienceMs, TimeUnit.MILLISECONDS) match {
      case found: Array[Int] => Some(rdds.intersect(found.toSet))
      case other => throw new ExecutionException(s"an answer of $other", null)
    } catch {
      case cause @ (_: TimeoutException | _: ExecutionException) =>
        logWarning("The driver does not say which RDDs can be computed again: those persisted at " +
          "a level with disk are not evicted for a minute", cause)
        None
    }
  }
}

private[spark] object Lineage {
  private val PatienceMs = 5000L
  private val RestNs = 60000000000L
}
