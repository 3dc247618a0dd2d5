package io.warmset.spark

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.storage.StorageLevel
import org.scalatest.funsuite.AnyFunSuite

/** Blocks that Spark's memory store does not take in: right answers, and no region without an owner. */
class FailedPutSuite extends AnyFunSuite with WarmsetSession {
  private val Partitions = 3

  private def rows(n: Long): DataFrame =
    spark.range(0, n, 1, Partitions).selectExpr("id", "concat('s', id) s")

  private def answer(df: DataFrame): Row = df.selectExpr("sum(id)", "max(s)", "count(1)").head()

  private def cachedInMemory: Int =
    BlockAccess.rddBlocks(org.apache.spark.SparkEnv.get).count(BlockAccess.inMemory)

  /** Runs with a store that fails puts; `all` says that it fails every one. */
  private def check(n: Long, all: Boolean, settings: Map[String, String]): Unit = {
    spark.stop()
    spark = newSession(settings)
    val expected = answer(rows(n))
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
      val df = rows(n).persist(level)
      for (round <- 1 to 2) {
        assert(answer(df) == expected, s"$level, round $round")
        val stored = cachedInMemory
        assert(if (all) stored == 0 else stored < Partitions, s"$stored blocks were stored")
        eventually(assert(regions.length == stored && pins == 0))
      }
      if (level.useDisk) {
        assert(spark.sparkContext.getRDDStorageInfo.map(_.diskSize).sum > 0, "the rest is on disk")
      }
      df.unpersist(blocking = true)
      assertNothingLeft()
    }
  }

  test("no memory to begin with") {
    check(20000, all = true, Map("spark.storage.unrollMemoryThreshold" -> (1L << 40).toString,
      "spark.sql.inMemoryColumnarStorage.batchSize" -> "500"))
  }

  test("memory that ends in the middle of a block") {
    // Three blocks of about 15 MB of handles each, in less than 24 MB.
    check(60000, all = false, Map("spark.testing.memory" -> (40L << 20).toString,
      "spark.testing.reservedMemory" -> "0", "spark.buffer.pageSize" -> "64k",
      "spark.sql.inMemoryColumnarStorage.batchSize" -> "1"))
  }
}
