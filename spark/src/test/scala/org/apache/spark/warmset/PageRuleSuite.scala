package org.apache.spark.warmset

import io.warmset.spark.PageRule
import org.apache.spark.SparkConf
import org.apache.spark.memory.UnifiedMemoryManager
import org.scalatest.funsuite.AnyFunSuite

/** The size of execution memory's pages, beside the one that Spark would take. */
class PageRuleSuite extends AnyFunSuite {
  private val MiB = 1L << 20

  private def spark(settings: (String, String)*): SparkConf = new SparkConf(false).setAll(settings)

  test("pages are smaller than Spark's own, and one task can have all memory in them") {
    var smaller = 0
    for {
      heap <- Seq(512, 700, 1024, 2048, 4096, 9000, 32 << 10, 100 << 10, 500 << 10).map(_ * MiB)
      cores <- Seq(1, 2, 4, 16, 64)
      (fraction, storage) <- Seq("0.3" -> "0.5", "0.6" -> "0.3", "0.9" -> "0.8")
    } {
      val conf = spark("spark.master" -> s"local[$cores]", "spark.memory.fraction" -> fraction,
        "spark.memory.storageFraction" -> storage)
      val own = UnifiedMemoryManager(conf.clone.set("spark.testing.memory", heap.toString)
        .set("spark.testing.reservedMemory", (300 * MiB).toString), cores)
      val ours = PageRule.bytes(conf, heap, cpus = 3)
      val what = s"heap $heap, $cores cores, $fraction: $ours, Spark's ${own.pageSizeBytes}"
      ours.foreach { bytes =>
        smaller += 1
        assert(bytes < own.pageSizeBytes, what)
        assert(bytes * 8192 > own.maxHeapMemory, what)
      }
      assert(ours.isDefined || own.pageSizeBytes <= math.max(4 * MiB, heap / 2048), what)
    }
    assert(smaller > 20)
  }

  test("what somebody has set stays, and where cores or memory are not known Spark's own does") {
    def of(settings: (String, String)*) = PageRule.bytes(spark(settings: _*), 4096 * MiB, cpus = 2)
    assert(of("spark.master" -> "local[*]").contains(4 * MiB - 16))
    assert(of("spark.master" -> "yarn").contains(4 * MiB - 16))
    assert(of("spark.master" -> "spark://host:7077", "spark.executor.cores" -> "4").contains(4 * MiB - 16))
    assert(of("spark.master" -> "spark://host:7077").isEmpty)
    assert(of("spark.master" -> "local[*]", PageRule.Key -> "32m").isEmpty)
    assert(of("spark.master" -> "local[*]", "spark.memory.offHeap.enabled" -> "true").isEmpty)
  }

  test("an executor's heap is what it is asked for") {
    assert(PageRule.heapBytes(spark("spark.executor.memory" -> "6g"), isLocal = false) == 6144 * MiB)
    assert(PageRule.heapBytes(spark(), isLocal = false) == 1024 * MiB)
    assert(PageRule.heapBytes(spark(), isLocal = true) == Runtime.getRuntime.maxMemory)
  }
}
