package org.apache.spark.util.io.warmset

import java.io.{InputStream, ObjectInput, ObjectOutput}
import java.lang.reflect.Modifier
import java.nio.ByteBuffer
import java.nio.channels.WritableByteChannel

import io.netty.handler.stream.ChunkedStream

import org.apache.spark.util.io.{ChunkedByteBuffer, ChunkedByteBufferFileRegion}

/**
 * A serialised block as Spark wants it, read piece by piece where a stream is enough. Whoever wants
 * it otherwise (another executor asks for it) has it copied to the heap first, where Spark would
 * have it anyway.
 *
 * Invariant: all that Spark's class can be asked for is answered here, and nothing by the class itself, which has no chunks:
 * see `of`. What reads the chunks past their methods fails.
 *
 * @param open begins to read the stream again
 */
private[spark] final class StreamedBytes private (bytes: Long, open: () => InputStream)
  extends ChunkedByteBuffer(Array.empty[ByteBuffer]) {
  chunks = null

  private lazy val whole: ChunkedByteBuffer = StreamedBytes.whole(open)

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

private[spark] object StreamedBytes {
  private val PieceBytes = 4 << 20

  /**
   * The methods of `spark` that a StreamedBytes inherits although they could ask for its content. The chunks are a variable,
   * whose two methods cannot be overridden; they give null.
   */
  private[warmset] def inherited(spark: Class[_]): Seq[String] = {
    val own = classOf[StreamedBytes].getDeclaredMethods.map(m => (m.getName, m.getParameterTypes.toSeq)).toSet
    Iterator.iterate[Class[_]](spark)(_.getSuperclass).takeWhile(_ != classOf[Object]).flatMap(_.getDeclaredMethods)
      .filterNot(m => Modifier.isStatic(m.getModifiers) || Modifier.isPrivate(m.getModifiers) || m.isSynthetic)
      .filterNot(m => m.getName.contains("$default$") || m.getName == "chunks" || m.getName == "chunks_$eq")
      .filterNot(m => own((m.getName, m.getParameterTypes.toSeq)))
      .map(_.toString).toSeq
  }

  /** A Spark of another version may have methods that this class does not know: there, blocks are read as a whole. */
  private lazy val knowsAll = inherited(classOf[ChunkedByteBuffer]).isEmpty

  def of(bytes: Long, open: () => InputStream): ChunkedByteBuffer =
    if (knowsAll) new StreamedBytes(bytes, open) else whole(open)

  private def whole(open: () => InputStream): ChunkedByteBuffer = {
    val in = open()
    try {
      val pieces = Iterator.continually(in.readNBytes(PieceBytes)).takeWhile(_.nonEmpty).map(ByteBuffer.wrap).toArray
      new ChunkedByteBuffer(pieces)
    } finally in.close()
  }
}
