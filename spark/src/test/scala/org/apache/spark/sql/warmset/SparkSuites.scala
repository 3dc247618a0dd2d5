package org.apache.spark.sql.warmset

import org.apache.spark.SparkConf
import org.apache.spark.sql.{CachedTableSuite, DataFrameAggregateSuite, DatasetCacheSuite, JoinSuite, SubquerySuite}
import org.apache.spark.sql.execution.ColumnarToRowExec
import org.apache.spark.sql.execution.columnar.{InMemoryColumnarQuerySuite, InMemoryTableScanExec}
import org.apache.spark.sql.execution.columnar.PartitionBatchPruningSuite
import org.apache.spark.sql.internal.SQLConf

// Spark's own suites, from its published test jar, with the plugin on.

class WarmsetCachedTableSuite extends CachedTableSuite with WarmsetOn {
  import testImplicits._

  // In the place of SPARK-37369, see SkippedTests.
  test("warmset: one ColumnarToRow above a cached scan, none where it reads by rows") {
    Seq(true -> 1, false -> 0).foreach { case (vectorized, expected) =>
      withSQLConf(SQLConf.CACHE_VECTORIZED_READER_ENABLED.key -> vectorized.toString) {
        val plan = spark.range(10).cache().filter($"id" > 0).queryExecution.executedPlan
        assert(collect(plan) { case step: ColumnarToRowExec => step }.size === expected)
      }
    }
  }
}

class WarmsetInMemoryColumnarQuerySuite extends InMemoryColumnarQuerySuite with WarmsetOn {
  import testImplicits._

  // In the place of SPARK-22348, see SkippedTests.
  testWithWholeStageCodegenOnAndOff("warmset: batches are pruned below the filter") { _ =>
    val cached = Seq((1, 1), (1, 1), (2, 2)).toDF("x", "y").cache()
    val scans = collect(cached.where("y = 3").queryExecution.executedPlan) {
      case scan: InMemoryTableScanExec => scan
    }
    assert(scans.size === 1)
    assert(scans.head.executeCollectPublic().isEmpty)
  }
}

class WarmsetDatasetCacheSuite extends DatasetCacheSuite with WarmsetOn

class WarmsetPartitionBatchPruningSuite extends PartitionBatchPruningSuite with WarmsetOn {
  // Spark counts the batches it reads on the row path only, so that path is taken here.
  override def sparkConf: SparkConf = super.sparkConf
    .set(SQLConf.CACHE_VECTORIZED_READER_ENABLED.key, "false")
}

class WarmsetAggregateSuite extends DataFrameAggregateSuite with InputsCached

class WarmsetJoinSuite extends JoinSuite with InputsCached

class WarmsetSubquerySuite extends SubquerySuite with InputsCached
