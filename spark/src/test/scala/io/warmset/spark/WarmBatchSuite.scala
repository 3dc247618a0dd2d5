package io.warmset.spark

import java.io.{ByteArrayInputStream, ByteArrayOutputStream, InvalidClassException, IOException}
import java.io.{ObjectInputFilter, ObjectInputStream, ObjectOutputStream}

import scala.util.{Failure, Random, Success, Try}

import com.esotericsoftware.kryo.io.{Input => KryoInput, Output => KryoOutput}

import io.warmset.columns.{BatchEncoder, WarmVector}
import io.warmset.region.FailingRegion
import io.warmset.spark.cachedframes.{ColumnarReader, EncodedBatch, RegionWriter}
import org.apache.spark.SparkConf
import org.apache.spark.serializer.KryoSerializer
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String
import org.scalatest.funsuite.AnyFunSuite

/** One batch: its bytes wherever they lie, what it says of its size, and closing it. */
class WarmBatchSuite extends AnyFunSuite with WarmsetSession {
  private val types = Array[DataType](LongType, StringType, DecimalType(20, 2))

  private def encoded(rows: Int): Iterator[EncodedBatch] = {
    val memory = new TransientMemory
    val encoder = new BatchEncoder(types)
    (0 until rows).foreach { i =>
      encoder.append(InternalRow(i.toLong, if (i % 3 == 0) null else UTF8String.fromString(s"value $i"),
        Decimal(BigDecimal(i), 20, 2)))
    }
    val meta = encoder.finish()
    val addresses = Array.tabulate(types.length) { c =>
      val address = memory.allocate(math.max(8, meta.bytes(c)))
      encoder.writeTo(c, address)
      address
    }
    Iterator(new EncodedBatch(meta, encoder.stats(), addresses, null))
  }

  private def inRegion(rows: Int): WarmBatch = {
    val writer = new RegionWriter(StoreHolder.current.get)
    try writer.layOut(encoded(rows).toIndexedSeq).head
    finally writer.close()
  }

  private def values(batch: WarmBatch): Seq[(Long, String)] = {
    val reader = ColumnarReader.inTask(Iterator(batch), Array(1, 0), Array(StringType, LongType))
    try {
      val shown = reader.next()
      val out = (0 until shown.numRows).map { i =>
        (shown.column(1).getLong(i),
          if (shown.column(0).isNullAt(i)) null else shown.column(0).getUTF8String(i).toString)
      }
      assert(!reader.hasNext)
      out
    } finally reader.close()
  }

  private def javaCopy(batch: WarmBatch): WarmBatch = {
    val bytes = new ByteArrayOutputStream
    val out = new ObjectOutputStream(bytes)
    out.writeObject(batch)
    out.close()
    new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray)).readObject().asInstanceOf[WarmBatch]
  }

  private def kryoCopy(batch: WarmBatch): WarmBatch = {
    val serializer = new KryoSerializer(new SparkConf()).newInstance()
    serializer.deserialize[WarmBatch](serializer.serialize(batch))
  }

  for ((name, copy) <- Seq[(String, WarmBatch => WarmBatch)]("Java" -> javaCopy, "Kryo" -> kryoCopy)) {
    test(s"$name serialisation writes the bytes, frees nothing, and what is read is whole") {
      val batch = inRegion(1000)
      val expected = values(batch)
      val read = copy(batch)
      assert(values(batch) == expected && batch.region.isReleased == false)
      batch.close()
      assert(batch.region.isReleased)
      assert(read.region == null && !read.placed)
      assert(values(read) == expected && values(copy(read)) == expected)
      assert(read.numRows == 1000 && read.stats.getLong(1) == 999 && read.stats.getInt(7) == 334)
      assert(read.sizeInBytes == batch.sizeInBytes)
    }
  }

  test("a header lets through what it consists of, and what the JVM's own filter allows") {
    def read(value: AnyRef, lengthMax: Int, theirs: ObjectInputFilter): AnyRef = {
      val bytes = new ByteArrayOutputStream
      val out = new ObjectOutputStream(bytes)
      out.writeObject(value)
      out.close()
      val in = new ObjectInputStream(new ByteArrayInputStream(bytes.toByteArray))
      in.setObjectInputFilter(WarmBatch.headerFilter(lengthMax, theirs))
      in.readObject()
    }
    val bounds = InternalRow(1L, 2.5, null, UTF8String.fromString("b"), Decimal(BigDecimal("1.25"), 38, 2), 7)
    assert(read(bounds, 1000, null) == bounds)
    intercept[InvalidClassException](read(new java.util.HashMap[String, String], 1000, null))
    intercept[InvalidClassException](read(Array.fill(3)(new java.util.Date), 1000, null))
    intercept[InvalidClassException](read(new Array[Byte](1001), 1000, null))
    val theirs = ObjectInputFilter.Config.createFilter("!org.apache.spark.sql.types.*")
    intercept[InvalidClassException](read(bounds, 1000, theirs))
    assert(read(InternalRow(1L), 1000, theirs) == InternalRow(1L))
  }

  test("the heap size counts the handle, not the region; and the bytes where they are on the heap") {
    val batch = inRegion(5000)
    assert(batch.estimatedSize < 4000)
    val bytes = batch.meta.bytes()
    val onHeap = encoded(5000).next().onHeap
    assert(onHeap.estimatedSize >= bytes && onHeap.estimatedSize < bytes + 4000)
    assert(org.apache.spark.util.SizeEstimator.estimate(batch) == batch.estimatedSize)
    batch.close()
  }

  test("what lay in a segment that could not be sealed is on the heap, and the rest where it was") {
    val writer = new RegionWriter(
      () => new FailingRegion(StoreHolder.current.get.store), StoreHolder.current.get.store)
    val (large, small) =
      try {
        (writer.layOut((1 to 6).map(_ => encoded(60000).next())), writer.layOut(encoded(100).toIndexedSeq))
      } finally writer.close()
    val expected = values(encoded(60000).next().onHeap)
    large.foreach(batch => assert(values(batch) == expected))
    assert(values(small.head) == expected.take(100))
    val placed = large.flatMap(batch => types.indices.map(batch.inRegion))
    assert(placed.contains(true) && placed.contains(false), "the second segment failed")
    assert(types.indices.forall(small.head.inRegion), "the next group is placed again")
    (large ++ small).foreach(_.close())
    assertNothingLeft()
  }

  test("closing is idempotent and gives one reference back") {
    val batch = inRegion(10)
    val region = batch.region
    assert(region.retain())
    batch.close()
    batch.close()
    assert(!region.isReleased)
    region.release()
    assert(region.isReleased && !region.retain())
    intercept[java.io.IOException](javaCopy(batch))
    intercept[java.io.IOException](ColumnarReader.inTask(Iterator(batch), Array(0), Array(LongType)).next())
  }

  test("a batch nobody closes is freed by the cleaner") {
    def drop(): Unit = inRegion(100)
    drop()
    eventually {
      System.gc()
      assert(regions.isEmpty)
    }
  }

  test("batches that were read back are adopted into a region, and committed ones stay") {
    val original = inRegion(700)
    val expected = values(original)
    val copies = (1 to 3).map(_ => javaCopy(original))
    original.close()
    val adopted = new BlockOwnership(false).adopt(copies.iterator, warm = false).toSeq.map(_.asInstanceOf[WarmBatch])
    assert(adopted.length == 3 && adopted.forall(b => b.placed && b.inRegion(0)))
    adopted.foreach(b => assert(values(b) == expected))
    eventually(assert(regions.length == 1, "the original's goes in the background"))
    adopted.foreach(_.close())
  }

  private def raw(batch: WarmBatch): Array[Byte] = {
    val out = new KryoOutput(1 << 16, -1)
    batch.write(null, out)
    out.toBytes
  }

  private def fromRaw(bytes: Array[Byte]): WarmBatch = {
    val batch = new WarmBatch
    batch.read(null, new KryoInput(bytes))
    batch
  }

  test("a damaged batch is refused with a reason, on the heap and in a region, and never followed") {
    val batch = inRegion(300)
    val good = raw(batch)
    val expected = values(batch)
    assert(values(fromRaw(good)) == expected)
    val rnd = new Random(31)
    var (unreadable, refused, right) = (0, 0, 0)
    for (i <- 0 until 3000) {
      val bytes = good.clone()
      val at = if (i % 3 == 0) rnd.nextInt(bytes.length) else rnd.nextInt(math.min(1500, bytes.length))
      bytes(at) = (if (rnd.nextBoolean()) rnd.nextInt() else bytes(at) ^ (1 << rnd.nextInt(8))).toByte
      Try(fromRaw(bytes)) match {
        case Failure(e) =>
          assert(e.isInstanceOf[IOException] && e.getMessage.nonEmpty, s"byte $at: $e")
          unreadable += 1
        case Success(read) =>
          val adopted = if (i % 2 == 0) new BlockOwnership(false).adopt(Iterator(read), warm = false).next() else read
          val shown = adopted.asInstanceOf[WarmBatch]
          Try(values(shown)) match {
            case Failure(e) =>
              assert(e.isInstanceOf[IOException] && e.getMessage.contains("damaged"), s"byte $at: $e")
              refused += 1
            case Success(_) => right += 1
          }
          shown.close()
      }
    }
    info(s"$unreadable unreadable, $refused refused, $right harmless or wrong values only")
    assert(unreadable > 100 && refused > 100)
    batch.close()
  }

  test("a batch cut short, and one with fewer columns than are asked for") {
    val batch = inRegion(50)
    val good = raw(batch)
    for (length <- good.indices by 7) {
      assert(Try(fromRaw(good.take(length))).failed.get.isInstanceOf[IOException], length)
    }
    val reader = ColumnarReader.inTask(Iterator(fromRaw(good)), Array(5), Array(LongType))
    assert(intercept[IOException](reader.next()).getMessage.contains("no column 5"))
    val wrongType = ColumnarReader.inTask(Iterator(fromRaw(good)), Array(0), Array(StringType))
    assert(intercept[IOException](wrongType.next()).getMessage.contains("damaged column 0"))
    batch.close()
  }

  test("bounds that are long strings count") {
    val encoder = new BatchEncoder(Array[DataType](StringType))
    val top = UTF8String.fromBytes(Array.fill(5000)(-1.toByte))
    encoder.append(InternalRow(top))
    val meta = encoder.finish()
    val batch = WarmBatch.onHeap(meta, encoder.stats(), Array(new Array[Byte](0)), foreign = false)
    assert(batch.stats.getUTF8String(1) == top && batch.estimatedSize > 5000)
    encoder.close()
  }
}
