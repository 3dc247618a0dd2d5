package org.apache.spark.sql.warmset

import java.nio.file.Files

import com.fasterxml.jackson.databind.ObjectMapper
import org.scalactic.source.Position
import org.scalatest.Tag

import io.warmset.spark.{StoreHolder, WarmBatch, WarmsetConf}
import org.apache.spark.SparkConf
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.test.SharedSparkSession

/**
 * Turns the plugin on in a suite of Spark's, with a budget that also has to work in the small.
 *
 * Invariant: a test that is skipped is cancelled under its own name with its reason. What the tests
 * assert stays Spark's.
 */
trait PluginOn extends SharedSparkSession {
  override def sparkConf: SparkConf = super.sparkConf
    .set("spark.plugins", "io.warmset.spark.WarmsetPlugin")
    .set("spark.warmset.required", "true")
    .set("spark.warmset.memory", "64m")
    .set("spark.warmset.smallPartition", "0")
    .set("spark.warmset.flashReserve", "1g")
    .set("spark.warmset.rowGroup", "1m")
    .set("spark.warmset.dir", PluginOn.directory)

  override protected def test(name: String, tags: Tag*)(body: => Any)(
      implicit position: Position): Unit =
    SkippedTests.of(getClass).get(name) match {
      case Some(reason) => super.test(name, tags: _*)(cancel(s"skipped: $reason"))
      case None if SkippedTests.wantsOwnStatistics(name) =>
        super.test(name, tags: _*)(withSQLConf(WarmsetConf.Statistics.name -> "false")(body))
      case None => super.test(name, tags: _*)(body)
    }

  test("warmset: every skipped test exists") {
    val unknown = SkippedTests.of(getClass).keySet -- testNames
    assert(unknown.isEmpty)
  }
}

/**
 * A suite that caches by itself.
 *
 * Invariant: after each test no region is left and no segment is pinned.
 */
trait WarmsetOn extends PluginOn {
  override def afterEach(): Unit = {
    super.afterEach()
    eventually {
      val regions = new ObjectMapper().readTree(StoreHolder.current.get.store.regions())
      assert(regions.isEmpty, "regions are left that nobody owns")
    }
  }

  test("warmset: cached batches of this session are in regions") {
    val cached = spark.range(1000).selectExpr("id", "cast(id as string) as text").cache()
    assert(cached.count() === 1000)
    val batches = cached.queryExecution.withCachedData.collectFirst {
      case relation: InMemoryRelation => relation.cacheBuilder.cachedColumnBuffers.collect()
    }.get
    assert(batches.nonEmpty && batches.forall(_.isInstanceOf[WarmBatch]))
    val stats = new ObjectMapper().readTree(StoreHolder.current.get.store.stats())
    assert(stats.path("regions").asLong > 0, stats)
  }
}

private object PluginOn {
  lazy val directory: String = Files.createTempDirectory("warmset-suites").toString
}
