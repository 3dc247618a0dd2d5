package org.apache.spark.util.io.warmset

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, ObjectInputStream, ObjectOutputStream}
import java.lang.reflect.Modifier

import org.apache.spark.util.io.ChunkedByteBuffer
import org.scalatest.funsuite.AnyFunSuite

/** A block that is read piece by piece answers as one that is there as a whole. */
class StreamedBytesSuite extends AnyFunSuite {
  private val content = Array.tabulate(10000)(_.toByte)
  private def streamed = new StreamedBytes(content.length, () => new ByteArrayInputStream(content))

  test("every public method of Spark's class is overridden") {
    // The chunks are a variable of the class, which cannot be overridden; Spark itself asks for `getChunks`.
    val kept = Set("chunks", "chunks_$eq", "toInputStream$default$1")
    val inherited = classOf[ChunkedByteBuffer].getDeclaredMethods
      .filter(m => Modifier.isPublic(m.getModifiers) && !Modifier.isStatic(m.getModifiers))
      .filterNot(m => kept(m.getName) || m.isSynthetic)
    val own = classOf[StreamedBytes].getDeclaredMethods.map(m => (m.getName, m.getParameterTypes.toSeq))
    assert(inherited.nonEmpty)
    assert(inherited.map(m => (m.getName, m.getParameterTypes.toSeq)).filterNot(own.contains).isEmpty)
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
