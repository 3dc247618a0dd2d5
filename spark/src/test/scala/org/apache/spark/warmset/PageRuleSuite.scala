package org.apache.spark.warmset

import io.warmset.spark.{PageRule, WarmsetSession}
import org.apache.spark.SparkConf
import org.apache.spark.memory.UnifiedMemoryManager
import org.apache.spark.sql.execution.exchange.BroadcastExchangeExec
import org.apache.spark.sql.functions.{broadcast, col}
import org.scalatest.funsuite.AnyFunSuite

/** The size of execution memory's pages, beside the one that Spark would take. */
class PageRuleSuite extends AnyFunSuite with WarmsetSession {
  private val MiB = 1L << 20

  private def conf(settings: (String, String)*): SparkConf = new SparkConf(false).setAll(settings)

  test("pages are smaller than Spark's own, and one task can have all memory in them") {
    var smaller = 0
    for {
      heap <- Seq(512, 700, 1024, 2048, 4096, 9000, 32 << 10, 100 << 10, 500 << 10).map(_ * MiB)
      cores <- Seq(1, 2, 4, 16, 64)
      (fraction, storage) <- Seq("0.3" -> "0.5", "0.6" -> "0.3", "0.9" -> "0.8")
    } {
      val set = conf("spark.master" -> s"local[$cores]", "spark.memory.fraction" -> fraction,
        "spark.memory.storageFraction" -> storage)
      val own = UnifiedMemoryManager(set.clone.set("spark.testing.memory", heap.toString)
        .set("spark.testing.reservedMemory", (300 * MiB).toString), cores)
      val ours = PageRule.bytes(set, heap, cpus = 3)
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
    def of(settings: (String, String)*) = PageRule.bytes(conf(settings: _*), 4096 * MiB, cpus = 2)
    assert(of("spark.master" -> "local[*]").contains(4 * MiB - 16))
    assert(of("spark.master" -> "yarn").contains(4 * MiB - 16))
    assert(of("spark.master" -> "spark://host:7077", "spark.executor.cores" -> "4").contains(4 * MiB - 16))
    assert(of("spark.master" -> "spark://host:7077").isEmpty)
    assert(of("spark.master" -> "local[*]", PageRule.Key -> "32m").isEmpty)
    assert(of("spark.master" -> "local[*]", "spark.memory.offHeap.enabled" -> "true").isEmpty)
  }

  test("an executor's heap is what it is asked for") {
    assert(PageRule.heapBytes(conf("spark.executor.memory" -> "6g"), isLocal = false) == 6144 * MiB)
    assert(PageRule.heapBytes(conf(), isLocal = false) == 1024 * MiB)
    assert(PageRule.heapBytes(conf(), isLocal = true) == Runtime.getRuntime.maxMemory)
  }

  test("a broadcast table takes a small page on the driver, too, as long as the application runs") {
    val few = spark.range(5).toDF("few")
    val joined = spark.range(1000).join(broadcast(few), col("id") === col("few"))
    assert(joined.count() == 5)
    joined.collect()
    val bytes = planNodes(joined).collect { case exchange: BroadcastExchangeExec => exchange.metrics("dataSize").value }
    assert(bytes.nonEmpty && bytes.forall(_ < 6 * MiB), bytes)
    assert(System.getProperty(PageRule.Key) == spark.sparkContext.getConf.get(PageRule.Key))
    spark.stop()
    assert(System.getProperty(PageRule.Key) == null)
    spark = newSession(Map(PageRule.Key -> "8m"))
    assert(spark.sparkContext.getConf.get(PageRule.Key) == "8m" && System.getProperty(PageRule.Key) == null)
  }
}
