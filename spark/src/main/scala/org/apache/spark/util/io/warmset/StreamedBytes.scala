package org.apache.spark.util.io.warmset

import java.io.{InputStream, ObjectInput, ObjectOutput}
import java.nio.ByteBuffer
import java.nio.channels.WritableByteChannel

import io.netty.handler.stream.ChunkedStream

import org.apache.spark.util.io.{ChunkedByteBuffer, ChunkedByteBufferFileRegion}

/**
 * A serialised block as Spark wants it, read piece by piece where a stream is enough. Whoever wants
 * it otherwise (another executor asks for it) has it copied to the heap first, where Spark would
 * have it anyway.
 *
 * @param open begins to read the stream again
 */
private[spark] final class StreamedBytes(bytes: Long, open: () => InputStream)
  extends ChunkedByteBuffer(Array.empty[ByteBuffer]) {

  private lazy val whole: ChunkedByteBuffer = {
    val in = open()
    try {
      val pieces = Iterator.continually(in.readNBytes(StreamedBytes.PieceBytes))
        .takeWhile(_.nonEmpty).map(ByteBuffer.wrap).toArray
      new ChunkedByteBuffer(pieces)
    } finally in.close()
  }

  override def size: Long = bytes
  override def toInputStream(dispose: Boolean): InputStream = open()
  override def writeFully(channel: WritableByteChannel): Unit = whole.writeFully(channel)
  override def toNetty: ChunkedByteBufferFileRegion = whole.toNetty
  override def toNettyForSsl: ChunkedStream = whole.toNettyForSsl
  override def toArray: Array[Byte] = whole.toArray
  override def toByteBuffer: ByteBuffer = whole.toByteBuffer
  override def getChunks(): Array[ByteBuffer] = whole.getChunks()
  override def copy(allocator: Int => ByteBuffer): ChunkedByteBuffer = whole.copy(allocator)
  override def writeExternal(out: ObjectOutput): Unit = whole.writeExternal(out)
  override def readExternal(in: ObjectInput): Unit =
    throw new UnsupportedOperationException("Java writes a block that is read piece by piece as a whole one")
  private def writeReplace(): AnyRef = whole
  override def dispose(): Unit = ()
}

private object StreamedBytes {
  private val PieceBytes = 4 << 20
}
