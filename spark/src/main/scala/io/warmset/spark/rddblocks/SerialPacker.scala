package io.warmset.spark.rddblocks

import java.io.OutputStream

import io.warmset.spark.{StoreHolder, TaskScope}
import org.apache.spark.serializer.SerializationStream
import org.apache.spark.unsafe.Platform

/**
 * A block that is kept serialised on its way into a region: the stream that Spark's own serializer
 * makes of it, in pieces.
 *
 * Invariant: the pieces, one after the other, are the whole stream; there is at least one.
 */
private[spark] final class SerialPacker(
    elements: Iterator[Any],
    open: OutputStream => SerializationStream,
    holder: StoreHolder.Running,
    scope: TaskScope)
  extends Packing(holder, scope) {

  private val serializer = open(new IntoSink)

  override protected def fill(): Unit = {
    while (sink.position < writer.targetBytes && elements.hasNext) {
      serializer.writeObject[Any](elements.next())
    }
    val last = !elements.hasNext
    if (last) serializer.close()
    var done = 0L
    while (sink.position - done >= writer.targetBytes) {
      emit(done, writer.targetBytes)
      done += writer.targetBytes
    }
    if (last && (sink.position > done || !emitted)) {
      val rest = sink.position - done
      if (!emitted && writer.small(rest)) emitOnHeap(done, rest) else emit(done, rest)
      done = sink.position
    }
    drop(done)
    if (last) close()
  }

  private def emit(start: Long, bytes: Long): Unit = writer.put(sink, start, bytes) match {
    case Some(place) => emit(new SerialBytes(bytes, place))
    case None => emitOnHeap(start, bytes)
  }

  /** In pieces; at least one. */
  private def emitOnHeap(start: Long, bytes: Long): Unit = {
    var at = 0L
    do {
      val piece = math.min(bytes - at, SegmentWriter.HeapPieceBytes)
      emit(new SerialBytes(piece, SegmentWriter.onHeap(sink, start + at, piece)))
      at += piece
    } while (at < bytes)
  }

  private final class IntoSink extends OutputStream {
    override def write(byte: Int): Unit = Platform.putByte(null, sink.reserve(1), byte.toByte)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET + offset, null, sink.reserve(length),
        length)
  }
}
