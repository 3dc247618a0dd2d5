package io.warmset.spark

import java.io.OutputStream

import scala.collection.mutable

import io.warmset.rdd.ByteSink
import org.apache.spark.serializer.SerializationStream
import org.apache.spark.unsafe.Platform

/**
 * A block that is kept serialised on its way into a region: the stream that Spark's own serializer
 * makes of it, in pieces.
 *
 * Invariant: the pieces, one after the other, are the whole stream; there is at least one. Pieces
 * are in the task's scope before they are handed out.
 */
private[spark] final class SerialPacker(
    elements: Iterator[Any],
    open: OutputStream => SerializationStream,
    holder: StoreHolder.Running,
    scope: TaskScope)
  extends Iterator[Any] with AutoCloseable {

  private val sink = new ByteSink(1L << 20)
  private val writer = new SegmentWriter(holder)
  private val ready = new mutable.Queue[Any]
  private val serializer = open(new IntoSink)
  private var emitted = false
  private var closed = false

  scope.own(this)

  override def hasNext: Boolean = {
    if (ready.isEmpty && !closed) fill()
    ready.nonEmpty
  }

  override def next(): Any = {
    if (!hasNext) throw new NoSuchElementException("no more pieces")
    ready.dequeue()
  }

  override def close(): Unit = if (!closed) {
    closed = true
    sink.close()
    writer.close()
  }

  private def fill(): Unit = {
    while (sink.position < writer.targetBytes && elements.hasNext) {
      serializer.writeObject[Any](elements.next())
    }
    if (!elements.hasNext) serializer.close()
    while (sink.position >= writer.targetBytes) emit(writer.targetBytes)
    if (!elements.hasNext) {
      if (sink.position > 0 || !emitted) emit(sink.position)
      close()
    }
  }

  private def emit(bytes: Long): Unit = {
    val place = if (writer.small(bytes)) writer.putOnHeap(sink, bytes) else writer.put(sink, bytes)
    val piece = new SerialBytes(bytes, place)
    scope.add(piece)
    ready += piece
    emitted = true
    SegmentWriter.drop(sink, bytes)
  }

  private final class IntoSink extends OutputStream {
    override def write(byte: Int): Unit = Platform.putByte(null, sink.reserve(1), byte.toByte)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET + offset, null, sink.reserve(length),
        length)
  }
}
