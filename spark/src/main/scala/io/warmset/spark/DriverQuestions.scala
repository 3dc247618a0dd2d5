package io.warmset.spark

import java.util.concurrent.{ExecutionException, FutureTask, TimeoutException, TimeUnit}

import org.apache.spark.internal.Logging

/**
 * Asks the driver, on a thread of its own: Spark takes a look-up of the driver that fails for its
 * absence, for ever, and a task that is interrupted would make it fail.
 *
 * @param ask sends a message to the driver and waits for its answer
 * @param patienceMs how long an answer is waited for
 */
private[spark] final class DriverQuestions(
    ask: AnyRef => AnyRef,
    patienceMs: Long = DriverQuestions.PatienceMs) {

  /**
   * @throws TimeoutException, ExecutionException if there is no answer
   * @throws InterruptedException if the caller is interrupted; the question goes on
   */
  def answer(message: AnyRef): AnyRef = {
    val asked = new FutureTask[AnyRef](() => ask(message))
    val thread = new Thread(asked, "warmset-question")
    thread.setDaemon(true)
    thread.start()
    asked.get(patienceMs, TimeUnit.MILLISECONDS)
  }
}

private[spark] object DriverQuestions {
  val PatienceMs = 5000L

  /** The answers that there may not be. */
  object Silence {
    def unapply(cause: Throwable): Option[Throwable] = cause match {
      case _: TimeoutException | _: ExecutionException => Some(cause)
      case _ => None
    }
  }
}

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

/** Asks the driver how many partitions an RDD has and how many executors there are: an Array[Int]. */
final case class SpreadOf(rdd: Int) extends Serializable

/**
 * How many blocks of an RDD this executor is likely to hold, if all have as many: only the driver
 * knows how many there are.
 *
 * Invariant: none where the driver does not say; it throws nothing, and an interrupted task stays so.
 *
 * @param ask sends a message to the driver and waits for its answer
 */
private[spark] final class RddSpread(
    ask: AnyRef => AnyRef,
    patienceMs: Long = DriverQuestions.PatienceMs) extends Logging {
  private val driver = new DriverQuestions(ask, patienceMs)

  def blocksHere(rdd: Int): Option[Double] =
    try driver.answer(SpreadOf(rdd)) match {
      case Array(partitions: Int, executors: Int) if executors > 0 =>
        Some(partitions.toDouble / executors)
      case _ => None
    } catch {
      case DriverQuestions.Silence(cause) =>
        logDebug(s"The driver does not say how many partitions RDD $rdd has", cause)
        None
      case _: InterruptedException =>
        Thread.currentThread.interrupt()
        None
    }
}
