package io.warmset.spark

import java.util.concurrent.{ExecutionException, FutureTask, TimeoutException, TimeUnit}

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
