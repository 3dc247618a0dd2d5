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
    if (!elements.hasNext) serializer.close()
    while (sink.position >= writer.targetBytes) emit(writer.targetBytes)
    if (!elements.hasNext) {
      if (sink.position > 0 || !emitted) emit(sink.position)
      close()
    }
  }

  private def emit(bytes: Long): Unit = {
    val place = if (writer.small(bytes)) writer.putOnHeap(sink, bytes) else writer.put(sink, bytes)
    emit(new SerialBytes(bytes, place))
  }

  private final class IntoSink extends OutputStream {
    override def write(byte: Int): Unit = Platform.putByte(null, sink.reserve(1), byte.toByte)

    override def write(bytes: Array[Byte], offset: Int, length: Int): Unit =
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET + offset, null, sink.reserve(length),
        length)
  }
}
