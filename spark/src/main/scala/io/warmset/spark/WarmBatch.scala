package io.warmset.spark

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInput, DataInputStream}
import java.io.{DataOutput, DataOutputStream, EOFException, Externalizable, IOException}
import java.io.{ObjectInput, ObjectInputFilter, ObjectInputStream, ObjectOutput, ObjectOutputStream}
import java.io.ObjectInputFilter.Status

import scala.util.control.NonFatal

import com.esotericsoftware.kryo.{Kryo, KryoSerializable}
import com.esotericsoftware.kryo.io.{Input => KryoInput, Output => KryoOutput}

import io.warmset.columns.BatchMeta
import io.warmset.region.Region
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.columnar.warmset.SizedCachedBatch
import org.apache.spark.sql.types.DataType
import org.apache.spark.unsafe.Platform
import org.apache.spark.unsafe.types.UTF8String

/**
 * One batch of cached rows: a small handle on columns that lie in a region, or, where there was no
 * room or no store, the columns' bytes themselves on the heap.
 *
 * Invariant: column `c` lies at `offsets(c)` of segment `segments(c)` of `region`, or is `heap(c)`
 * when `segments(c)` is -1. The batch holds one reference on its region until `close`, which is
 * O(1), idempotent and never throws. Serialised, it is its bytes, never an address, and what is
 * read back is on the heap; serialising frees nothing. Bytes that this process did not encode are
 * checked before a vector is bound to them. It does not pin or decode: see ColumnarReader.
 */
final class WarmBatch private (
    private var columnMeta: BatchMeta,
    private var rowStats: InternalRow,
    private[spark] val region: Region,
    private[spark] val segments: Array[Int],
    private[spark] val offsets: Array[Int],
    private[spark] var heap: Array[Array[Byte]],
    private[spark] val placed: Boolean,
    foreign: Boolean)
  extends SizedCachedBatch with RegionHandle with Externalizable with KryoSerializable {

  /** The columns whose bytes have been found whole; null where this process encoded them. */
  private val checked = if (foreign) new java.util.BitSet else null

  /** For deserialisation only. */
  def this() = this(null, null, null, null, null, null, placed = false, foreign = true)

  override def numRows: Int = columnMeta.numRows
  override lazy val stats: InternalRow = rowStats

  /** How the columns are encoded, and how many bytes each has, wherever they lie. */
  private[spark] def meta: BatchMeta = columnMeta

  private[spark] def inRegion(column: Int): Boolean = segments != null && segments(column) >= 0

  /** Whether the batch has that column at all: where it came from outside, it may not. */
  private[spark] def has(column: Int): Boolean = column < meta.numColumns

  /**
   * Checks a column that came from outside, once; its bytes lie at `address`.
   *
   * @throws IOException if a vector bound to them could read outside
   */
  private[spark] def check(column: Int, dataType: DataType, address: Long): Unit =
    if (checked != null) checked.synchronized {
      if (!checked.get(column)) {
        meta.validate(column, dataType)
        meta.validateColumn(column, dataType, address, meta.bytes(column))
        checked.set(column)
      }
    }

  /** Heap bytes only: what lies in the pool or on disk is not Spark's memory to charge. */
  override def estimatedSize: Long = {
    val handle = WarmBatch.HandleBytes + meta.heapBytes +
      WarmBatch.HandleBytesPerColumn * meta.numColumns + boundBytes
    if (heap == null) handle else handle + heap.iterator.filter(_ != null).map(_.length + 16L).sum
  }

  /** What bounds that are strings have beyond the few bytes of any bound. */
  private def boundBytes: Long = (0 until meta.numColumns).iterator
    .flatMap(c => Iterator(5 * c, 5 * c + 1)).map(rowStats.get(_, null)).collect {
      case text: UTF8String => text.numBytes.toLong
    }.sum

  override def writeExternal(out: ObjectOutput): Unit = write(out)

  override def readExternal(in: ObjectInput): Unit = read(in)

  override def write(kryo: Kryo, output: KryoOutput): Unit = {
    val out = new DataOutputStream(output)
    write(out)
    out.flush()
  }

  override def read(kryo: Kryo, input: KryoInput): Unit = read(new DataInputStream(input))

  private def write(out: DataOutput): Unit = {
    val header = WarmBatch.headerBytes(this)
    out.writeInt(header.length)
    out.write(header)
    (0 until meta.numColumns).foreach { c =>
      if (inRegion(c)) writeFromRegion(c, out) else out.write(heap(c))
    }
  }

  /** Copies one column out under a pin of its own. */
  private def writeFromRegion(column: Int, out: DataOutput): Unit = {
    if (!region.retain()) {
      throw new IOException("a cached batch was written after its region had been released")
    }
    try {
      val start = region.pin(segments(column)) + offsets(column)
      try {
        val bytes = meta.bytes(column)
        val buffer = new Array[Byte](math.min(bytes, 64L << 10).toInt)
        var done = 0L
        while (done < bytes) {
          val n = math.min(bytes - done, buffer.length).toInt
          Platform.copyMemory(null, start + done, buffer, Platform.BYTE_ARRAY_OFFSET, n)
          out.write(buffer, 0, n)
          done += n
        }
      } finally {
        region.unpin(segments(column))
      }
    } finally {
      region.release()
    }
  }

  private def read(in: DataInput): Unit =
    try readWhole(in)
    catch {
      case cause: EOFException => throw new IOException("damaged cached batch: cut short", cause)
    }

  private def readWhole(in: DataInput): Unit = {
    val (meta, stats) = WarmBatch.readHeader(WarmBatch.readBytes(in, in.readInt()))
    columnMeta = meta
    rowStats = stats
    heap = Array.tabulate(meta.numColumns)(c => WarmBatch.readBytes(in, meta.bytes(c)))
  }
}

object WarmBatch {
  // What a handle costs on the heap, counted from its objects' layouts and rounded up: the batch
  // with its arrays' headers; per column its place and statistics. The description adds its own.
  private val HandleBytes = 256L
  private val HandleBytesPerColumn = 240L

  /** The longest array of the Java heap. */
  private val BytesMax = Int.MaxValue - 8L
  private val ReadStep = 16L << 20

  /**
   * A batch with some or all of its columns in `region`; takes a reference on it.
   *
   * @param foreign whether the columns came from outside this process
   */
  def inRegion(
      meta: BatchMeta,
      stats: InternalRow,
      region: Region,
      segments: Array[Int],
      offsets: Array[Int],
      heap: Array[Array[Byte]],
      foreign: Boolean): WarmBatch = {
    require(region.retain(), "the region of a batch must not have been released")
    new WarmBatch(meta, stats, region, segments, offsets, heap, placed = true, foreign)
  }

  /** A batch that carries its bytes. */
  def onHeap(
      meta: BatchMeta,
      stats: InternalRow,
      heap: Array[Array[Byte]],
      foreign: Boolean): WarmBatch =
    new WarmBatch(meta, stats, null, null, null, heap, placed = true, foreign)

  private def headerBytes(batch: WarmBatch): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(1024)
    val out = new ObjectOutputStream(bytes)
    out.writeObject(batch.meta)
    out.writeObject(batch.rowStats)
    out.close()
    bytes.toByteArray
  }

  private def readHeader(bytes: Array[Byte]): (BatchMeta, InternalRow) =
    try {
      val in = new ObjectInputStream(new ByteArrayInputStream(bytes))
      in.setObjectInputFilter(headerFilter(bytes.length, in.getObjectInputFilter))
      val meta = in.readObject().asInstanceOf[BatchMeta]
      val stats = in.readObject().asInstanceOf[InternalRow]
      require(stats.numFields == 5 * meta.numColumns, "statistics for another number of columns")
      (meta, stats)
    } catch {
      // Java's deserialiser throws whatever a damaged stream makes it trip over.
      case NonFatal(cause) => throw new IOException("damaged header of a cached batch: " +
        cause.getMessage, cause)
    }

  /** What a header consists of: our meta data, and a row of Spark's values of bounds and counts. */
  private val HeaderPackages = Set("java.lang", "java.math", "scala.math", "org.apache.spark.unsafe.types",
    "org.apache.spark.sql.catalyst", "org.apache.spark.sql.catalyst.expressions")
  private val HeaderClasses = Set(classOf[BatchMeta].getName, "org.apache.spark.sql.types.Decimal")

  /** Lets through what a header consists of, unless the JVM's own filter (`theirs`, may be null) rejects it. */
  private[spark] def headerFilter(lengthMax: Int, theirs: ObjectInputFilter): ObjectInputFilter = info => {
    val known = Option(info.serialClass).forall { found =>
      val element = Iterator.iterate[Class[_]](found)(_.getComponentType).dropWhile(_.isArray).next()
      element.isPrimitive || HeaderClasses(element.getName) || HeaderPackages(element.getPackageName)
    }
    val verdict = if (theirs == null) Status.UNDECIDED else theirs.checkInput(info)
    if (!known || info.arrayLength > lengthMax || verdict == Status.REJECTED) Status.REJECTED
    else if (info.serialClass == null) Status.UNDECIDED
    else Status.ALLOWED
  }

  /** Grows as the bytes arrive, so that a damaged length allocates nothing of its size. */
  private def readBytes(in: DataInput, length: Long): Array[Byte] = {
    if (length < 0 || length > BytesMax) {
      throw new IOException(s"damaged cached batch: a piece of $length bytes")
    }
    var bytes = new Array[Byte](math.min(length, ReadStep).toInt)
    in.readFully(bytes)
    while (bytes.length < length) {
      val done = bytes.length
      bytes = java.util.Arrays.copyOf(bytes, math.min(length, done * 2L).toInt)
      in.readFully(bytes, done, bytes.length - done)
    }
    bytes
  }
}
