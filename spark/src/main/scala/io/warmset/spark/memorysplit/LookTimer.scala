package io.warmset.spark.memorysplit

import java.util.concurrent.{Executors, RejectedExecutionException, ScheduledExecutorService, TimeUnit}
import java.util.concurrent.atomic.AtomicBoolean

import org.apache.spark.internal.Logging

/**
 * One daemon thread that looks at memory again and again.
 *
 * Invariant: nothing that is thrown ends it, an OutOfMemoryError neither: a heap at its end is when the looks are
 * needed most. The first failure is logged as a warning while `isOpen`, others only for debugging.
 */
private[memorysplit] final class LookTimer(name: String, isOpen: () => Boolean, failure: String) extends Logging {
  import LookTimer._

  private val stopped = new AtomicBoolean
  private val extraQueued = new AtomicBoolean
  private var timer: ScheduledExecutorService = _
  private var warned = false

  def start(everyNs: Long)(look: () => Unit): Unit = {
    timer = Executors.newSingleThreadScheduledExecutor(daemon(name, _))
    timer.scheduleWithFixedDelay(() => guarded(look()), 0, everyNs, TimeUnit.NANOSECONDS)
  }

  /** One more look, soon; those that are asked for before it are the same one. */
  def extra(look: () => Unit): Unit = if (extraQueued.compareAndSet(false, true)) {
    try timer.execute { () => extraQueued.set(false); guarded(look()) }
    catch {
      case _: RejectedExecutionException =>
      case cause: Throwable => extraQueued.set(false); throw cause
    }
  }

  /** Work on a thread of its own: looks do not wait for it. None is begun while `busy` is true. */
  def aside(threadName: String, busy: AtomicBoolean)(work: => Unit): Unit = if (busy.compareAndSet(false, true)) {
    try daemon(threadName, () => try guarded(work) finally busy.set(false)).start()
    catch { case cause: Throwable => busy.set(false); throw cause }
  }

  private def guarded(work: => Unit): Unit =
    try work
    catch {
      case _: InterruptedException => Thread.currentThread.interrupt()
      case cause: Throwable => try complain(cause) catch { case _: VirtualMachineError => }
    }

  private def complain(cause: Throwable): Unit =
    if (isOpen() && !warned) {
      warned = true
      logWarning(failure, cause)
    } else logDebug(failure, cause)

  /** False where it was stopped before, or never started. */
  def stop(): Boolean = stopped.compareAndSet(false, true) && timer != null && {
    timer.shutdownNow()
    try timer.awaitTermination(StopMs, TimeUnit.MILLISECONDS)
    catch { case _: InterruptedException => Thread.currentThread.interrupt() }
    true
  }
}

private[memorysplit] object LookTimer {
  val LookNs: Long = TimeUnit.MILLISECONDS.toNanos(100)
  private val StopMs = 5000L

  private def daemon(name: String, work: Runnable): Thread = {
    val thread = new Thread(work, name)
    thread.setDaemon(true)
    thread
  }
}
