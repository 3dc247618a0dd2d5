package org.apache.spark.util.io.warmset

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.nio.ByteBuffer
import java.nio.channels.Channels

import org.apache.spark.util.io.ChunkedByteBuffer
import org.scalatest.funsuite.AnyFunSuite

/** Spark's class as a later version might have it. */
private class LaterByteBuffer extends ChunkedByteBuffer {
  def checksum(): Long = 0L
  protected def firstByte(of: Int): Byte = 0
  private[spark] def sizeBytes(): Long = 0L
  override def size: Long = 0L
}

/** A block that is read piece by piece answers as one that is there as a whole. */
class StreamedBytesSuite extends AnyFunSuite {
  private val content = Array.tabulate(10000)(_.toByte)
  private def streamed = StreamedBytes.of(content.length, () => new ByteArrayInputStream(content))

  test("every method of Spark's class is overridden, and one that a later Spark adds is noticed") {
    assert(StreamedBytes.inherited(classOf[ChunkedByteBuffer]) == Nil)
    assert(StreamedBytes.inherited(classOf[LaterByteBuffer]).map(_.replaceAll(".*\\.", "")).sorted ==
      Seq("checksum()", "firstByte(int)", "sizeBytes()"))
  }

  test("every method without a parameter, and those that write, give the content; none an empty one") {
    assert(streamed.isInstanceOf[StreamedBytes] && streamed.size == content.length)
    assert(streamed.toArray.sameElements(content))
    assert(streamed.toByteBuffer == ByteBuffer.wrap(content))
    assert(streamed.getChunks().map(_.remaining).sum == content.length)
    assert(streamed.copy(ByteBuffer.allocate).toArray.sameElements(content))
    assert(streamed.toInputStream().readAllBytes().sameElements(content))
    assert(streamed.toNetty.count == content.length && streamed.toNettyForSsl.transferredBytes == 0)
    val written = new ByteArrayOutputStream
    streamed.writeFully(Channels.newChannel(written))
    assert(written.toByteArray.sameElements(content))
    assert(streamed.chunks == null, "there are no chunks that could pass for the content")
  }

  test("it is written by Java as a whole one") {
    val bytes = new ByteArrayOutputStream
    val out = new ObjectOutputStream(bytes)
    out.writeObject(streamed)
    out.close()
    val read = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject()
    assert(read.asInstanceOf[ChunkedByteBuffer].toArray.sameElements(content))
  }
}
