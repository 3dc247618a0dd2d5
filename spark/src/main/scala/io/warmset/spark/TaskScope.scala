package io.warmset.spark

import java.io.IOException

import scala.collection.mutable.ArrayBuffer

import org.apache.spark.{TaskContext, TaskKilledException}
import org.apache.spark.storage.BlockId
import org.apache.spark.storage.memory.warmset.OwnedValues
import org.apache.spark.warmset.SparkInternals

/**
 * What one task has made and nobody owns yet.
 *
 * Invariant: at the end of the task every batch in it that Spark's memory store does not own has
 * been closed and every resource freed, however the task ended; if another thread of the task (one
 * that feeds a process) is making something just then, once it has made that. Where there is no
 * task, the regions' cleaner is the only net. It keeps no batch alive longer than the task.
 */
private[spark] final class TaskScope private () {
  private val batches = new ArrayBuffer[WarmBatch]
  private val resources = new ArrayBuffer[AutoCloseable]
  private var users = 0
  private var ended = false

  def add(batch: WarmBatch): Unit = synchronized { batches += batch }

  /** Has `resource` closed at the end of the task, before what was added earlier. */
  def own(resource: AutoCloseable): Unit = synchronized {
    if (ended && users == 0) resource.close() else resources += resource
  }

  /**
   * The same elements. While one is made nothing of the scope is freed; once the task has ended
   * there are no more, which is an error: what has come so far is not all.
   */
  def guard[T](source: Iterator[T]): Iterator[T] = new Iterator[T] {
    override def hasNext: Boolean = use(source.hasNext)
    override def next(): T = use(source.next())
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
    if (ended) throw new TaskKilledException("the task ended before its partition was cached")

  private def end(): Unit = synchronized {
    ended = true
    if (users == 0) free()
  }

  private def free(): Unit = {
    resources.reverseIterator.foreach(_.close())
    batches.foreach(b => if (b.committedTo.isEmpty) b.close())
    batches.clear()
    resources.clear()
  }
}

private[spark] object TaskScope {
  /** A scope that ends with the running task; one per use, so that listeners keep their order. */
  def begin(): TaskScope = {
    val scope = new TaskScope
    Option(TaskContext.get()).foreach(_.addTaskCompletionListener[Unit](_ => scope.end()))
    scope
  }
}

/**
 * What the swapped memory store asks of us: batches that were read back from bytes (a spilled
 * block, a replica) go into a region on their way in, and batches that it owns are marked so.
 */
private[spark] object BatchOwnership extends OwnedValues {
  override def adopt(values: Iterator[Any]): Iterator[Any] = {
    val source = values.buffered
    val first = source.headOption
    first match {
      case Some(batch: WarmBatch) if !batch.placed =>
        StoreHolder.current match {
          case Some(holder) => BatchesIntoRegion.replace(source, holder)
          case None => source
        }
      case _ => source
    }
  }

  override def commit(value: AutoCloseable, block: BlockId): Unit = value match {
    case batch: WarmBatch =>
      batch.committedTo = Some(block)
      if (batch.region != null) RegionBlocks.put(batch.region.id, block.name)
    case _ =>
  }

  /**
   * Takes the block of a batch that cannot be read away from Spark, which then reads a replica or
   * computes it anew. In the background: the block goes when its readers have ended.
   */
  def lost(batch: WarmBatch, cause: Throwable): IOException = {
    val block = batch.committedTo
    block.foreach { id =>
      val remover = new Thread(() => SparkInternals.removeBlock(id), s"warmset-remove-$id")
      remover.setDaemon(true)
      remover.start()
    }
    val (what, next) = block match {
      case Some(id) =>
        (s"block $id", "the block is dropped, and the next task that needs it computes it again")
      case None => ("a block on disk", "unpersist the DataFrame and cache it again")
    }
    new IOException(s"cached data of $what cannot be read: ${cause.getMessage}; $next", cause)
  }
}
