package io.warmset.spark.rddblocks

import java.io.InputStream

import io.warmset.spark.{Prefetch, TaskReaders}
import org.apache.spark.TaskKilledException
import org.apache.spark.unsafe.Platform

/**
 * The stream of a block that is kept serialised, out of its pieces.
 *
 * Invariant: after `close`, which is idempotent and may come from another thread, it gives nothing
 * more, which is an error if there was more: bytes are read under its lock only. It closes itself
 * at its end.
 */
private[spark] final class SerialInput(source: StoredReader, task: Option[TaskReaders])
  extends InputStream {
  import SerialInput._

  private var address = 0L
  private var beginningEnd = 0L
  private var left = 0L
  private var closed = false
  private var exhausted = false

  override def read(): Int = synchronized {
    if (more()) {
      val byte = Platform.getByte(null, address) & 0xff
      skipped(1)
      byte
    } else {
      -1
    }
  }

  override def read(into: Array[Byte], offset: Int, length: Int): Int = synchronized {
    java.util.Objects.checkFromIndexSize(offset, length, into.length)
    if (length == 0) {
      0
    } else if (more()) {
      val n = math.min(length, left).toInt
      Platform.copyMemory(null, address, into, Platform.BYTE_ARRAY_OFFSET + offset, n)
      skipped(n)
      n
    } else {
      -1
    }
  }

  override def available(): Int = synchronized(math.min(left, Int.MaxValue).toInt)

  override def close(): Unit = synchronized {
    if (!closed) {
      closed = true
      left = 0
      task.foreach(_.remove(this))
      source.close()
    }
  }

  private def skipped(n: Int): Unit = {
    address += n
    left -= n
  }

  private def more(): Boolean = {
    if (closed && !exhausted) throw new TaskKilledException("the task ended before all was read")
    if (left > 0 && address > beginningEnd) source.goOn()
    while (left == 0 && !exhausted && source.advance()) {
      source.value match {
        case piece: SerialBytes =>
          left = piece.bytes
          address = source.address()
          beginningEnd = address + BeginningBytes
        case other =>
          throw new IllegalStateException(s"a serialised block holds a ${other.getClass}")
      }
    }
    exhausted = left == 0
    if (exhausted) close()
    left > 0
  }
}

private[spark] object SerialInput {
  // Who wants the first element alone reads no more.
  private val BeginningBytes = 64L << 10

  /** A stream that ends with the task, if there is one. */
  def inTask(values: Iterator[Any]): SerialInput =
    TaskReaders.closingOver(new StoredReader(values, Prefetch.bytesMax))(new SerialInput(_, _))
}
