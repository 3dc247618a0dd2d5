package io.warmset.spark

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, DataInput, DataInputStream}
import java.io.{DataOutput, DataOutputStream, Externalizable, IOException, ObjectInput}
import java.io.{ObjectInputStream, ObjectOutput, ObjectOutputStream}
import java.util.concurrent.atomic.AtomicBoolean

import com.esotericsoftware.kryo.{Kryo, KryoSerializable}
import com.esotericsoftware.kryo.io.{Input => KryoInput, Output => KryoOutput}

import io.warmset.columns.BatchMeta
import io.warmset.region.Region
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.columnar.warmset.SizedCachedBatch
import org.apache.spark.storage.BlockId
import org.apache.spark.unsafe.Platform

/**
 * One batch of cached rows: a small handle on columns that lie in a region, or, where there was no
 * room or no store, the columns' bytes themselves on the heap.
 *
 * Invariant: column `c` lies at `offsets(c)` of segment `segments(c)` of `region`, or is `heap(c)`
 * when `segments(c)` is -1. The batch holds one reference on its region until `close`, which is
 * O(1), idempotent and never throws. Serialised, it is its bytes, never an address, and what is
 * read back is on the heap; serialising frees nothing. It does not pin or decode: see
 * ColumnarReader.
 */
final class WarmBatch private (
    private var columnMeta: BatchMeta,
    private var rowStats: InternalRow,
    private[spark] val region: Region,
    private[spark] val segments: Array[Int],
    private[spark] val offsets: Array[Int],
    private[spark] var heap: Array[Array[Byte]],
    private[spark] val placed: Boolean)
  extends SizedCachedBatch with AutoCloseable with Externalizable with KryoSerializable {

  private val closed = new AtomicBoolean

  /** The block of Spark's memory store that owns this batch, if one does. */
  @volatile private[spark] var committedTo: Option[BlockId] = None

  /** For deserialisation only. */
  def this() = this(null, null, null, null, null, null, placed = false)

  override def numRows: Int = columnMeta.numRows
  override lazy val stats: InternalRow = rowStats

  /** How the columns are encoded, and how many bytes each has, wherever they lie. */
  private[spark] def meta: BatchMeta = columnMeta

  private[spark] def inRegion(column: Int): Boolean = segments != null && segments(column) >= 0

  /** Heap bytes only: what lies in the pool or on disk is not Spark's memory to charge. */
  override def estimatedSize: Long = {
    val handle = WarmBatch.HandleBytes + meta.heapBytes +
      WarmBatch.HandleBytesPerColumn * meta.numColumns
    if (heap == null) handle else handle + heap.iterator.filter(_ != null).map(_.length + 16L).sum
  }

  override def close(): Unit =
    if (region != null && closed.compareAndSet(false, true)) {
      region.release()
    }

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

  private def read(in: DataInput): Unit = {
    val header = new Array[Byte](in.readInt())
    in.readFully(header)
    val (meta, stats) = WarmBatch.readHeader(header)
    columnMeta = meta
    rowStats = stats
    heap = Array.tabulate(meta.numColumns) { c =>
      val bytes = new Array[Byte](Math.toIntExact(meta.bytes(c)))
      in.readFully(bytes)
      bytes
    }
  }
}

object WarmBatch {
  // What a handle costs on the heap, counted from its objects' layouts and rounded up: the batch
  // with its arrays' headers; per column its place and statistics. The description adds its own.
  private val HandleBytes = 256L
  private val HandleBytesPerColumn = 240L

  /** A batch with some or all of its columns in `region`; takes a reference on it. */
  def inRegion(
      meta: BatchMeta,
      stats: InternalRow,
      region: Region,
      segments: Array[Int],
      offsets: Array[Int],
      heap: Array[Array[Byte]]): WarmBatch = {
    require(region.retain(), "the region of a batch must not have been released")
    new WarmBatch(meta, stats, region, segments, offsets, heap, placed = true)
  }

  /** A batch that carries its bytes. */
  def onHeap(
      meta: BatchMeta,
      stats: InternalRow,
      heap: Array[Array[Byte]]): WarmBatch =
    new WarmBatch(meta, stats, null, null, null, heap, placed = true)

  private def headerBytes(batch: WarmBatch): Array[Byte] = {
    val bytes = new ByteArrayOutputStream(1024)
    val out = new ObjectOutputStream(bytes)
    out.writeObject(batch.meta)
    out.writeObject(batch.rowStats)
    out.close()
    bytes.toByteArray
  }

  private def readHeader(bytes: Array[Byte]): (BatchMeta, InternalRow) = {
    val in = new ObjectInputStream(new ByteArrayInputStream(bytes))
    (in.readObject().asInstanceOf[BatchMeta], in.readObject().asInstanceOf[InternalRow])
  }
}
