package io.warmset.spark

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{TaskContext, TaskKilledException}

/**
 * What one task has made and nobody owns yet.
 *
 * Invariant: at the end of the task every handle in it that Spark's memory store does not own has
 * been closed and every resource freed, however the task ended; if another thread of the task (one
 * that feeds a process) is making something just then, once it has made that. Where there is no
 * task, whoever asked for the elements closes them: see `guard`. It keeps no handle alive longer
 * than the task.
 */
private[spark] final class TaskScope private () {
  private val handles = new ArrayBuffer[RegionHandle]
  private val resources = new ArrayBuffer[AutoCloseable]
  private var users = 0
  private var ended = false

  /** For `handle` to be closed at the end of the task, unless the memory store owns it by then. */
  def add(handle: RegionHandle): Unit = if (TaskScope.storeCommits) synchronized { handles += handle }

  /**
   * Has `resource` closed at the end of the task, before what was added earlier. Where that is over, it is closed at
   * once, and the caller stopped.
   */
  def own(resource: AutoCloseable): Unit = synchronized {
    if (ended && users == 0) {
      resource.close()
      throw TaskScope.ended()
    }
    resources += resource
  }

  /**
   * The same elements. While one is made nothing of the scope is freed; once the task has ended
   * there are no more, which is an error: what has come so far is not all. Closing it ends the
   * scope before its task, or without one.
   */
  def guard[T](source: Iterator[T]): Iterator[T] with AutoCloseable =
    new Iterator[T] with AutoCloseable {
      override def hasNext: Boolean = use(source.hasNext)
      override def next(): T = use(source.next())
      override def close(): Unit = end()
    }

  private def use[T](body: => T): T = {
    synchronized {
      checkNotEnded()
      users += 1
    }
    val result =
      try body
      finally synchronized {
        users -= 1
        if (ended && users == 0) free()
      }
    // What comes after the task's end may be short of what it should be: its own sources are closed.
    synchronized(checkNotEnded())
    result
  }

  private def checkNotEnded(): Unit =
    if (ended) throw TaskScope.ended()

  private def end(): Unit = synchronized {
    ended = true
    if (users == 0) free()
  }

  private def free(): Unit = {
    resources.reverseIterator.foreach(_.close())
    handles.foreach(_.abandon())
    handles.clear()
    resources.clear()
  }
}

private[spark] object TaskScope {
  /**
   * Whether the memory store says which handles it owns. Spark's own does not, so that with it every handle is taken for
   * the store's, which closes what it drops; a handle that it never had goes when the collector finds it.
   */
  @volatile private[spark] var storeCommits = true

  /** A scope that no task ends: whoever began it does, by what `guard` gave. */
  def apart(): TaskScope = new TaskScope

  /** For a thread that goes on with what its task began: no part must pass for the whole. */
  def ended(): TaskKilledException =
    new TaskKilledException("the task ended before its partition was cached")

  /** A scope that ends with the running task; one per use, so that listeners keep their order. */
  def begin(): TaskScope = {
    val scope = new TaskScope
    Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => scope.end()))
    scope
  }
}
