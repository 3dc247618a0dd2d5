package org.apache.spark.storage.memory.warmset

import java.io.{InputStream, OutputStream}

import org.apache.spark.serializer.SerializationStream
import org.apache.spark.storage.BlockId

/**
 * What a memory store must know of values that own memory outside the heap.
 *
 * Invariant: `present(adopt(values))` gives elements equal to `values`, and `stream(adoptBytes(...))`
 * the bytes that were written. What is kept in their place is *packed*; it never leaves the process:
 * readers, other executors and Spark's files get what `present` or `stream` makes of it.
 */
trait OwnedValues {
  /** Values are asked of their iterator, hence made, inside this. */
  def putting[T](block: BlockId)(put: => T): T

  /**
   * May replace values on their way into the store; `warm` says that the user asked for it. What is
   * AutoCloseable has to be closed when the put has ended, however it did: there may be no task.
   */
  def adopt(values: Iterator[Any], warm: Boolean): Iterator[Any]

  /**
   * What stands for the serialised stream of the values, as of `adopt`; none where Spark is to keep
   * its bytes.
   */
  def adoptBytes(
      values: Iterator[Any],
      open: OutputStream => SerializationStream): Option[Iterator[Any]]

  /**
   * Whether a block of these values stays as objects while Spark's memory has room for all of its
   * RDD; they are packed as of `adopt`, or in their place, when it has not.
   */
  def keptAsObjects(first: Any): Boolean

  /** How many blocks of an RDD this process is likely to hold, if that is known. */
  def blocksHere(rdd: Int): Option[Double]

  /** The same values; an error instead of an end where the task has ended. Closing it is harmless. */
  def guarded(values: Iterator[Any]): Iterator[Any]

  /** Whether this value is a handle on a region, so that its block takes next to none of the heap. */
  def isRegionHandle(first: Any): Boolean

  /**
   * What stands for values that the store has as objects; nothing is evicted for it. None where
   * there is no room for all of it. What `use` does not commit is closed.
   */
  def packing[T](values: Iterator[Any])(use: Array[Any] => T): Option[T]

  /** Whether a block that begins with this value is packed. */
  def packed(first: Any): Boolean

  /** The elements of a packed block. */
  def present(values: Iterator[Any]): Iterator[Any]

  /** The serialised stream of a packed block of bytes. */
  def stream(values: Iterator[Any]): InputStream

  /** Its length. */
  def bytes(values: Iterator[Any]): Long

  /**
   * Called once for each closeable value of a block that the store owns now, and will close. Throws
   * where the store must not keep the block.
   */
  def commit(value: AutoCloseable, block: BlockId): Unit
}
