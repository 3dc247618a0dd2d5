package io.warmset.spark

import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.{TaskContext, TaskKilled}
import org.apache.spark.deploy.warmset.TwoHosts
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd, SparkListenerTaskStart}
import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.storage.StorageLevel
import org.apache.spark.warmset.ClusterAccess

/** Cached DataFrames: replicas, remote reads, lost and decommissioned executors, speculation. */
class ClusterSuite extends ClusterSession {
  private def rows(spark: SparkSession): DataFrame = spark.range(0, 40000, 1, 4)
    .selectExpr("id", "concat('s', id) s", "id / 2D d")

  private val expected = Row(40000L * 39999 / 2, "s9999", 40000L * 39999 / 4.0)
  private def answer(df: DataFrame): Row = df.selectExpr("sum(id)", "max(s)", "sum(d)").head()

  test("blocks are read where they are and from afar, and go with unpersist") {
    inSharedCluster { spark =>
      for (level <- Seq(StorageLevel.MEMORY_AND_DISK, StorageLevel.MEMORY_ONLY_SER)) withClue(level) {
        val df = rows(spark).persist(level)
        for (_ <- 1 to 3) assert(answer(df) == expected)
        eventually(assert(regions(spark) == 4))
        df.unpersist(blocking = true)
        eventually(assert(regions(spark) == 0))
      }
    }
  }

  test("a replica is a region too, and serves when an executor is killed") {
    inSharedCluster { spark =>
      val computed = spark.sparkContext.longAccumulator
      spark.udf.register("counted", (id: Long) => { computed.add(1); id })
      val replicated = for (level <- Seq(StorageLevel.MEMORY_AND_DISK_2, StorageLevel.MEMORY_ONLY_SER_2)) yield {
        // Spark would take the same plan for the same cache.
        val df = rows(spark).selectExpr("counted(id) id", "s", "d", s"'${level.description}' as level").persist(level)
        assert(answer(df) == expected)
        df
      }
      assert(computed.value == 80000)
      eventually(assert(regions(spark) == 16))
      kill(pids(spark).head)
      replicated.foreach { df =>
        assert(answer(df) == expected)
        assert(computed.value == 80000, s"nothing of ${df.storageLevel} was computed again")
      }
    }
  }

  test("an executor killed in mid-scan: the answer is right") {
    inSharedCluster { spark =>
      val df = rows(spark).persist(StorageLevel.MEMORY_AND_DISK)
      assert(answer(df) == expected)
      killingInside(spark) { signals =>
        spark.udf.register("stop", (id: Long) => id % 10000 != 5000 || OnExecutor.stopHere(signals))
        assert(answer(df.filter("stop(id)")) == expected)
      }
      assert(answer(df) == expected)
      df.unpersist(blocking = true)
      eventually(assert(regions(spark) == 0))
    }
  }

  test("a decommissioned executor hands its blocks over") {
    withCluster("spark.decommission.enabled" -> "true", "spark.storage.decommission.enabled" -> "true",
        "spark.storage.decommission.rddBlocks.enabled" -> "true") { spark =>
      val computed = spark.sparkContext.longAccumulator
      spark.udf.register("counted", (id: Long) => { computed.add(1); id })
      val df = rows(spark).selectExpr("counted(id) id", "s", "d").persist(StorageLevel.MEMORY_ONLY)
      assert(answer(df) == expected)
      eventually(assert(regions(spark) == 4))
      ClusterAccess.decommissionOne(spark.sparkContext)
      eventually(assert(ClusterAccess.executors(spark.sparkContext).size == 1))
      assert(answer(df) == expected)
      assert(computed.value == 40000, "nothing was computed again")
      eventually(assert(regions(spark) == 4))
    }
  }

  test("speculative tasks: the slow copy is killed, the answer is right, nothing is left") {
    TwoHosts.run(home, 768)(url => withCluster("spark.master" -> url, "spark.cores.max" -> "2",
        "spark.speculation" -> "true", "spark.speculation.interval" -> "50ms",
        "spark.speculation.multiplier" -> "1.1", "spark.speculation.quantile" -> "0.3",
        "spark.speculation.minTaskRuntime" -> "100ms",
        "spark.speculation.efficiency.enabled" -> "false") { spark =>
      val copies, killed = new AtomicInteger
      spark.sparkContext.addSparkListener(new SparkListener {
        override def onTaskStart(event: SparkListenerTaskStart): Unit =
          if (event.taskInfo.speculative) copies.incrementAndGet()
        override def onTaskEnd(event: SparkListenerTaskEnd): Unit =
          if (event.reason.isInstanceOf[TaskKilled]) killed.incrementAndGet()
      })
      spark.udf.register("slow", (id: Long) =>
        id != 35000 || TaskContext.get().attemptNumber() > 0 || OnExecutor.pause(8000))
      val df = rows(spark).filter("slow(id)").persist(StorageLevel.MEMORY_AND_DISK)
      assert(answer(df) == expected)
      eventually(assert(copies.get > 0 && killed.get > 0, s"${copies.get} copies, ${killed.get} killed"))
      assert(answer(df) == expected)
      df.unpersist(blocking = true)
      eventually(assert(regions(spark) == 0))
    })
  }

  test("executors without the native library keep batches on the heap, and aggregate as Spark does") {
    // Where no directory can be written to, the library is not loaded.
    withCluster("spark.warmset.dir" -> "/proc/none",
        WarmsetConf.Kernels.name -> "true", WarmsetConf.Statistics.name -> "true") { spark =>
      val df = rows(spark).persist(StorageLevel.MEMORY_AND_DISK)
      for (_ <- 1 to 2) assert(answer(df) == expected)
      assert(regions(spark) == 0)
      eventually(assert(StatsHistory.of(spark.sparkContext).get.withoutLibrary.isDefined))
      val total = df.selectExpr("sum(id)", "count(*)")
      assert(total.head() == Row(expected.get(0), 40000L))
      total.collect()
      val plan = total.queryExecution.executedPlan.toString
      assert(!plan.contains("WarmsetAggregate") && plan.contains("no kernels: executor"), plan)
    }
  }
}
