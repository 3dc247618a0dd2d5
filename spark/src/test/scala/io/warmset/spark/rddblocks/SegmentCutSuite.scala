package io.warmset.spark.rddblocks

import io.warmset.spark.StoreRoom.FrameBytes
import org.scalatest.funsuite.AnyFunSuite

/** Where elements are cut into segments: little of a segment's last frame is to stay unused. */
class SegmentCutSuite extends AnyFunSuite {
  private val target = 4 * FrameBytes

  /** The cut of elements of so many bytes, of which enough have been gathered. */
  private def cut(elementBytes: Long): Int = {
    val count = ((ElementPacker.gatheredBytes(target) + elementBytes - 1) / elementBytes).toInt
    val ends = Array.tabulate(count)(i => (i + 1) * elementBytes)
    ElementPacker.cut(ends, count, target)
  }

  private def unused(count: Int, elementBytes: Long): Double = {
    val bytes = count * elementBytes
    val frames = (bytes + FrameBytes - 1) / FrameBytes
    1 - bytes.toDouble / (frames * FrameBytes)
  }

  test("elements of any size leave little unused, and segments stay near their target") {
    for (bytes <- Seq(100L, 1000L, 50000L, 400000L, 921000L, 937000L, 957000L, 1048000L)) {
      val count = cut(bytes)
      assert(unused(count, bytes) <= 0.021, s"$bytes bytes, $count of them")
      assert(count * bytes <= ElementPacker.gatheredBytes(target))
    }
  }

  test("small elements fill a segment of the target's size") {
    assert((target - cut(1000) * 1000L) < 5000)
  }

  test("what is larger than a segment has one of its own, and what is left is not cut") {
    assert(cut(3 * target) == 1)
    assert(cut(target + 1) == 1)
    assert(ElementPacker.cut(Array(100L, 200L, 300L), 3, target) == 3)
  }
}
