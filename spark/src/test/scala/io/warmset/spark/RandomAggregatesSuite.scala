package io.warmset.spark

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/**
 * Random aggregates over random cached tables give Spark's own answers.
 *
 * `WARMSET_KERNELS_SECONDS=600` runs it for so long, from a seed of its own each time; `WARMSET_SEED` says which.
 */
class RandomAggregatesSuite extends AnyFunSuite with WarmsetSession with KernelAnswers {
  private val QueriesPerTable = 6
  private val Tables = 8

  override def beforeAll(): Unit = {
    super.beforeAll()
    // Many of the queries overflow, which is an error.
    spark.sparkContext.setLogLevel("OFF")
  }

  override def afterAll(): Unit = {
    spark.sparkContext.setLogLevel("INFO")
    super.afterAll()
  }

  test("random aggregates over random tables give Spark's answers") {
    val seconds = sys.env.get("WARMSET_KERNELS_SECONDS").map(_.toLong)
    val first = sys.env.get("WARMSET_SEED").map(_.toLong).getOrElse(if (seconds.isDefined) Random.nextLong() else 1L)
    val end = seconds.map(_ * 1000 + System.currentTimeMillis())
    var seed = first
    var (queries, replaced, native, byRows) = (0L, 0L, 0L, 0L)
    while (end.fold(seed - first < Tables)(System.currentTimeMillis() < _)) {
      val random = new RandomAggregates(seed)
      withSetting("spark.sql.inMemoryColumnarStorage.batchSize", random.rowsPerBatch.toString) {
        withCached(random.table(spark)) {
          for (_ <- 1 to QueriesPerTable) {
            withSetting("spark.sql.ansi.enabled", (queries % 2 == 0).toString) {
              val used = withClue(s"WARMSET_SEED=$seed") { compareCounted(random.query(), random.partitions == 1) }
              queries += 1
              if (used.isDefined) replaced += 1
              native += used.fold(0L)(_._1)
              byRows += used.fold(0L)(_._2)
            }
          }
        }
      }
      seed += 1
    }
    val counted = s"seeds $first to ${seed - 1}: $queries queries, $replaced with WarmsetAggregate, " +
      s"$native batches in native code, $byRows row by row"
    info(counted)
    // Of few queries any share may be native; of many it is a third.
    assert(queries < Tables * QueriesPerTable || replaced * 4 > queries && native > byRows && byRows > 0, counted)
  }
}
