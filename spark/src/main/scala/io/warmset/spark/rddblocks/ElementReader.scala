package io.warmset.spark.rddblocks

import io.warmset.rdd.{ByteSource, SpareArrays}
import io.warmset.spark.{Prefetch, TaskReaders}
import org.apache.spark.TaskKilledException

/**
 * The elements for which the values of a packed block stand, made again.
 *
 * Invariant: elements refer to nothing outside the heap, so that one may be kept for ever; their
 * arrays are used again only for a consumer that is done with each before it asks for more. After
 * `close`, which is idempotent and may come from another thread, it gives nothing more, which is an
 * error if there was more: bytes are read under its lock only. It closes itself when it is
 * exhausted.
 */
private[spark] final class ElementReader(source: StoredReader, task: Option[TaskReaders])
  extends Iterator[Any] with AutoCloseable {
  import ElementReader._

  private var batch: ElementBatch = _
  private var bytes: ByteSource = _
  private var left = 0
  private var closed = false
  private var exhausted = false
  // Decoded under the lock some at a time, and handed out without it.
  private val decoded = new Array[Any](DecodeMax)
  private var at = 0
  private var end = 0
  // Null as long as elements are to have arrays of their own.
  private var spares: SpareArrays = _
  private var reused: Class[_] = _
  private var known = false

  override def hasNext: Boolean = at < end || decode()

  override def next(): Any = {
    if (!hasNext) throw new NoSuchElementException("no more elements")
    val element = decoded(at)
    decoded(at) = null
    at += 1
    element
  }

  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      task.foreach(_.remove(this))
      source.close()
    }
  }

  /** Makes some more elements ready; false at the end. */
  private def decode(): Boolean = synchronized {
    at = 0
    end = 0
    if (closed && !exhausted) throw new TaskKilledException("the task ended before all was read")
    if (left > 0) source.goOn()
    while (end == 0 && !exhausted && (left > 0 || source.advance())) {
      if (left == 0) begin()
      if (left > 0) source.reading(batch)(decodeSome())
    }
    exhausted = end == 0
    if (exhausted) close()
    end > 0
  }

  private def begin(): Unit = source.value match {
    case next: ElementBatch =>
      batch = next
      left = next.count
      bytes = new ByteSource(source.address(), next.bytes)
      bytes.reuse(spares)
    case element =>
      decoded(0) = element
      end = 1
  }

  private def decodeSome(): Unit = {
    val until = bytes.position + DecodeBytes
    // All that were decoded before have been handed out, and the last of them is done with too.
    if (spares != null) spares.startAgain()
    while (left > 0 && end < DecodeMax && bytes.position < until) {
      decoded(end) = batch.coder.read(bytes)
      end += 1
      left -= 1
    }
    if (!known) reuse(if (Consumer.isDoneWith(decoded(0))) decoded(0).getClass else null)
    else if (spares != null && hasOthers) reuse(null)
  }

  private def hasOthers: Boolean = {
    var at = 0
    while (at < end && decoded(at) != null && (decoded(at).getClass eq reused)) at += 1
    at < end
  }

  /** From now on elements have the arrays of those before them, if all are of this class; null: none has. */
  private def reuse(kind: Class[_]): Unit = {
    known = true
    reused = kind
    spares = if (kind == null) null else new SpareArrays
    bytes.reuse(spares)
  }
}

private[spark] object ElementReader {
  private val DecodeMax = 64
  private val DecodeBytes = 64L << 10

  /** A reader that ends with the task, if there is one. */
  def inTask(values: Iterator[Any]): ElementReader = inTask(new StoredReader(values, Prefetch.bytesMax))

  def inTask(source: StoredReader): ElementReader =
    TaskReaders.closingOver(source)(new ElementReader(_, _))
}
