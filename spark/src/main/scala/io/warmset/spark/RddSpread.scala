package io.warmset.spark

import org.apache.spark.internal.Logging

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
