package io.warmset.spark

import java.lang.ref.Cleaner
import java.util.{ArrayDeque, Collections, IdentityHashMap}
import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.TaskContext

/**
 * The readers of cached blocks that one task has open now, on whatever threads.
 *
 * Invariant: those that are in it at the end of the task are closed then. It keeps no reader that
 * was closed before, and of those that have been read to their end only the last few, whose last
 * rows may still be looked at: a coalesced partition is read by one reader after the other, and a
 * cartesian product reads a block once for each element of another. No lock is held while it closes
 * one.
 */
private[spark] final class TaskReaders private () {
  private val open =
    Collections.newSetFromMap(new IdentityHashMap[AutoCloseable, java.lang.Boolean])
  private val finished = new ArrayDeque[AutoCloseable]
  private var ended = false

  /**
   * To be called once by a reader that has been read to its end and still shows what came last, not
   * under its own lock: it closes the one that ended some readers before.
   */
  def finish(reader: AutoCloseable): Unit = {
    val oldest = synchronized {
      finished.addLast(reader)
      if (finished.size > TaskReaders.FinishedMax) finished.removeFirst() else null
    }
    if (oldest != null) oldest.close()
  }

  /** To be called by a reader that is closed. */
  def remove(reader: AutoCloseable): Unit = synchronized(open.remove(reader))

  private def add(reader: AutoCloseable): Unit = {
    val late = synchronized {
      if (!ended) open.add(reader)
      ended
    }
    if (late) reader.close()
  }

  private def hasEnded: Boolean = synchronized(ended)

  /** Closes all, also if one of them fails. */
  private def end(): Unit = {
    val left = synchronized {
      ended = true
      val all = open.toArray(Array.empty[AutoCloseable])
      open.clear()
      finished.clear()
      all
    }
    val failed = left.flatMap { reader =>
      try {
        reader.close()
        None
      } catch { case cause: Throwable => Some(cause) }
    }
    failed.headOption.foreach(cause => throw cause)
  }
}

private[spark] object TaskReaders {
  private val FinishedMax = 4

  /** For what must be given back when nobody can reach a reader any more. */
  val Unreachable: Cleaner = Cleaner.create()

  // A context is equal to itself only.
  private val ofTasks = new ConcurrentHashMap[TaskContext, TaskReaders]

  /**
   * A reader that is closed with the running task, if there is one. To be called before anything
   * that reads it is made: listeners run in reverse order, and the one listener is there since the
   * task's first reader, so that it is closed after those have ended.
   */
  def closing[R <: AutoCloseable](make: Option[TaskReaders] => R): R = {
    val task = Option(TaskContext.get()).map(of)
    val reader = make(task)
    task.foreach(_.add(reader))
    reader
  }

  /**
   * The same for a reader of `source`. Without a task the source is closed when nobody can reach
   * the reader any more, if the reader was not: what sends a block to another executor may fail.
   */
  def closingOver[S <: AutoCloseable, R <: AutoCloseable](source: S)(
      make: (S, Option[TaskReaders]) => R): R =
    closing { task =>
      val reader = make(source, task)
      if (task.isEmpty) Unreachable.register(reader, () => source.close())
      reader
    }

  /** How many tasks have readers, or had and run. */
  def taskCount: Int = ofTasks.size

  private def of(task: TaskContext): TaskReaders = {
    val known = ofTasks.get(task)
    if (known != null) known else begin(task)
  }

  /** Others see the readers of a task when the listener is there. */
  private def begin(task: TaskContext): TaskReaders = {
    val fresh = new TaskReaders
    task.addTaskCompletionListener[Unit] { _ =>
      // In this order nothing is put into the table after it was taken out: see below.
      try fresh.end()
      finally ofTasks.remove(task, fresh)
    }
    val other = ofTasks.putIfAbsent(task, fresh)
    // The task may have ended before they were in the table.
    if (fresh.hasEnded) ofTasks.remove(task, fresh)
    if (other != null) other else fresh
  }
}
