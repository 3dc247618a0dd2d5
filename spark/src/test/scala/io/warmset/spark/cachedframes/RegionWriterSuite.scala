package io.warmset.spark.cachedframes

import org.scalatest.funsuite.AnyFunSuite

import io.warmset.spark.{StoreRoom, TransientMemory}
import org.apache.spark.unsafe.Platform

/** The arithmetic of laying out, and the transient memory it reads from. */
class RegionWriterSuite extends AnyFunSuite {
  private val Frame = StoreRoom.FrameBytes

  test("small vectors share a segment of one frame") {
    assert(RegionWriter.segmentBytes(80000, 80000, 100) == Frame)
    assert(RegionWriter.segmentBytes(0, 0, 1) == Frame)
    assert(RegionWriter.segmentBytes(64, 64, 3) == Frame)
  }

  test("wide vectors get segments that they fill") {
    val wide = 440000L
    val bytes = RegionWriter.segmentBytes(wide, wide, 100)
    assert(bytes == 2 * Frame)
    assert((bytes % ((wide + 63) & ~63L)).toDouble / bytes < 0.06)
  }

  test("the last few vectors of a group get no more than they need") {
    assert(RegionWriter.segmentBytes(440000, 440000, 2) == Frame)
  }

  test("a vector larger than a segment gets a segment that holds it") {
    assert(RegionWriter.segmentBytes(5 * Frame + 1, 100, 1) == 6 * Frame)
    assert(RegionWriter.segmentBytes(Frame, Frame, 1) == Frame)
  }

  test("transient chunks are kept for as many tasks as run at a time") {
    assert(TransientMemory.mayKeep(31, 1) && !TransientMemory.mayKeep(32, 8))
    assert(TransientMemory.mayKeep(255, 64) && !TransientMemory.mayKeep(256, 64))
    assert(Seq(1, 8, 64).map(TransientMemory.keptBytesMax) == Seq(128L << 20, 128L << 20, 1L << 30))
  }

  test("transient memory hands out aligned, distinct, writable space and counts it") {
    val before = TransientMemory.allocatedBytes
    val memory = new TransientMemory
    val addresses = Seq(1L, 63L, 64L, 65L, TransientMemory.ChunkBytes, 3L,
      TransientMemory.ChunkBytes * 3 + 1, 5L).map { bytes =>
      val address = memory.allocate(bytes)
      Platform.setMemory(address, 7.toByte, bytes)
      address -> bytes
    }
    assert(addresses.forall(_._1 % 64 == 0))
    for (((a, n), i) <- addresses.zipWithIndex; ((b, _), j) <- addresses.zipWithIndex if i != j) {
      assert(b + 1 <= a || b >= a + n, s"$i overlaps $j")
    }
    assert(TransientMemory.allocatedBytes > before)
    memory.reset()
    val again = memory.allocate(10)
    Platform.setMemory(again, 1.toByte, 10)
    memory.close()
    memory.close()
    intercept[IllegalStateException](memory.allocate(1))
    assert(TransientMemory.allocatedBytes == before, "kept, and there is no store")
  }
}
