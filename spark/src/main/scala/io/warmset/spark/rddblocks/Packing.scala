package io.warmset.spark.rddblocks

import scala.collection.mutable

import io.warmset.rdd.ByteSink
import io.warmset.spark.{StoreHolder, TaskScope}
import org.apache.spark.unsafe.Platform

/**
 * The values of one RDD block on their way into a region: what Spark's memory store keeps in their
 * place.
 *
 * Invariant: `fill` makes at least one value ready, or closes. Handles are in the task's scope
 * before they are handed out, and the scope closes what is left open.
 */
private[spark] abstract class Packing(holder: StoreHolder.Running, scope: TaskScope)
  extends Iterator[Any] with AutoCloseable {
  import Packing._

  protected val sink = new ByteSink(InitialBytes)
  protected val writer = new SegmentWriter(holder)
  protected var emitted = false
  private val ready = new mutable.Queue[Any]
  private var closed = false

  scope.own(this)

  /** Makes some more values ready, and closes at the end. */
  protected def fill(): Unit

  final override def hasNext: Boolean = {
    if (ready.isEmpty && !closed) fill()
    ready.nonEmpty
  }

  final override def next(): Any = {
    if (!hasNext) throw new NoSuchElementException("no more values")
    ready.dequeue()
  }

  final override def close(): Unit = if (!closed) {
    closed = true
    try {
      sink.close()
      writer.close()
    } finally released()
  }

  /** Gives up what it has besides; called once, perhaps before a subclass has anything. */
  protected def released(): Unit = ()

  protected final def noneReady: Boolean = ready.isEmpty

  /** Hands a value out as it is. */
  protected final def pass(value: Any): Unit = ready += value

  /** Hands out a handle on bytes of the sink, which have been put somewhere. */
  protected final def emit(handle: StoredBytes): Unit = {
    scope.add(handle)
    ready += handle
    emitted = true
  }

  /** Forgets the first bytes of the sink, on which handles have been handed out. */
  protected final def drop(bytes: Long): Unit = {
    val left = sink.position - bytes
    Platform.copyMemory(null, sink.address + bytes, null, sink.address, left)
    sink.truncate(left)
  }
}

private[spark] object Packing {
  private val InitialBytes = 1L << 20
}
