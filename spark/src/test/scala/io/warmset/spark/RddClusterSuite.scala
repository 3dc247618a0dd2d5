package io.warmset.spark

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.SparkSession
import org.apache.spark.storage.{RDDBlockId, StorageLevel}
import org.apache.spark.util.LongAccumulator
import org.apache.spark.warmset.ClusterAccess

/** Persisted RDDs: replicas, remote reads, lost and decommissioned executors. */
class RddClusterSuite extends ClusterSession {
  private val Rows = 40000

  /** Elements of two kinds, with how often any of them was computed. */
  private def rows(sc: SparkContext, computed: LongAccumulator): RDD[(Int, String, List[Int])] =
    sc.parallelize(0 until Rows, 4).map { i =>
      computed.add(1)
      (i, s"s$i", if (i % 100 == 0) List(i, i) else Nil)
    }

  private def answer(rdd: RDD[(Int, String, List[Int])]): (Double, Double) =
    (rdd.map(r => r._1.toDouble + r._3.sum).sum(), rdd.map(_._2.length.toDouble).sum())

  override protected def sharedSettings: Seq[(String, String)] =
    super.sharedSettings :+ ("spark.warmset.rdd.enabled" -> "true")

  private def withSharedRdds(body: (SparkSession, LongAccumulator) => Unit): Unit =
    inSharedCluster(spark => body(spark, spark.sparkContext.longAccumulator))

  private def withRdds(settings: (String, String)*)(
      body: (SparkSession, LongAccumulator) => Unit): Unit =
    withCluster(settings :+ ("spark.warmset.rdd.enabled" -> "true"): _*) { spark =>
      body(spark, spark.sparkContext.longAccumulator)
    }

  test("blocks are read where they are and from afar, and go with unpersist") {
    withSharedRdds { (spark, computed) =>
      val expected = answer(rows(spark.sparkContext, computed))
      for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER, WarmLevel)) withClue(level) {
        val rdd = rows(spark.sparkContext, computed).persist(level)
        for (_ <- 1 to 3) assert(answer(rdd) == expected)
        eventually(assert(regions(spark) == 4))
        val before = computed.value
        val held = (0 until 4).map(RDDBlockId(rdd.id, _))
        assert(BlockAccess.locations(SparkEnv.get, held).flatten.distinct.size == 2, "each has some of it")
        assert(rdd.coalesce(1).map(_._1.toLong).sum() == Rows.toLong * (Rows - 1) / 2)
        assert(computed.value == before, "one executor read what the other has")
        rdd.unpersist(blocking = true)
        eventually(assert(regions(spark) == 0))
      }
    }
  }

  test("a replica serves when an executor is killed") {
    withSharedRdds { (spark, computed) =>
      val replicated = for (level <- Seq(StorageLevel.MEMORY_ONLY_2, StorageLevel.MEMORY_AND_DISK_SER_2)) yield {
        val rdd = rows(spark.sparkContext, computed).persist(level)
        rdd -> answer(rdd)
      }
      assert(computed.value == 2 * Rows)
      // Replicas that come as bytes and stay so do not go to regions.
      eventually(assert(regions(spark) == 8 + 4))
      kill(pids(spark).head)
      replicated.foreach { case (rdd, expected) =>
        assert(answer(rdd) == expected)
        assert(computed.value == 2 * Rows, s"nothing of ${rdd.getStorageLevel} was computed again")
      }
    }
  }

  test("an executor that is killed: what it had is computed again") {
    withSharedRdds { (spark, computed) =>
      val rdd = rows(spark.sparkContext, computed).persist(StorageLevel.MEMORY_AND_DISK)
      val expected = answer(rdd)
      val before = computed.value
      kill(pids(spark).head)
      for (_ <- 1 to 2) assert(answer(rdd) == expected)
      assert(computed.value > before, "its blocks were made again")
    }
  }

  test("an executor killed in mid-scan: the answer is right") {
    withSharedRdds { (spark, computed) =>
      for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK_SER)) withClue(level) {
        val rdd = rows(spark.sparkContext, computed).persist(level)
        val expected = answer(rdd)
        killingInside(spark) { signals =>
          assert(answer(rdd.filter(r => r._1 % 10000 != 5000 || OnExecutor.stopHere(signals))) == expected)
        }
        assert(answer(rdd) == expected)
        rdd.unpersist(blocking = true)
        eventually(assert(regions(spark) == 0))
      }
    }
  }

  test("what has left the heap is replicated, and serves when an executor is killed") {
    withRdds("spark.warmset.rdd.heapFirst" -> "true", "spark.testing.reservedMemory" -> "0",
        "spark.testing.memory" -> (60L << 20).toString) { (spark, computed) =>
      val (partitions, each) = (16, 510)
      // 64 MB, twice, in two executors with room for 36 each.
      val rdd = spark.sparkContext.parallelize(0 until partitions * each, partitions).map { i =>
        computed.add(1)
        FailedPut.element(i)
      }.persist(StorageLevel.MEMORY_ONLY_2)
      val expected = Seq.tabulate(partitions)(p => p * each -> each)
      assert(FailedPut.inOrder(rdd) == expected)
      val before = computed.value
      eventually(assert(regions(spark) >= partitions))
      kill(pids(spark).head)
      assert(FailedPut.inOrder(rdd) == expected && computed.value == before, "nothing was computed again")
    }
  }

  test("executors without a store keep what persistWarm asks for as stock Spark can") {
    withRdds("spark.warmset.memory" -> "900000g") { (spark, computed) =>
      val rdd = rows(spark.sparkContext, computed).persistWarm()
      val expected = answer(rows(spark.sparkContext, computed))
      for (_ <- 1 to 2) assert(answer(rdd) == expected)
      assert(regions(spark) == 0)
      val stored = BlockAccess.stored(spark.sparkContext).find(_.id == rdd.id).get
      assert(stored.numCachedPartitions == rdd.getNumPartitions)
      assert(stored.memSize > 0 && stored.diskSize == 0)
    }
  }

  test("an executor killed while objects leave its heap: the answer is right") {
    withRdds("spark.task.maxFailures" -> "8", "spark.warmset.rdd.heapFirst" -> "true",
        "spark.testing.reservedMemory" -> "0", "spark.testing.memory" -> (60L << 20).toString) { (spark, _) =>
      val (partitions, each) = (16, 510)
      val expected = Seq.tabulate(partitions)(p => p * each -> each)
      killingInside(spark) { signals =>
        // 64 MB in two executors with room for 36 each, and then for 36: each block that comes has others packed.
        val rdd = spark.sparkContext.parallelize(0 until partitions * each, partitions).map { i =>
          if (i == 12 * each + each / 2) OnExecutor.stopHere(signals)
          FailedPut.element(i)
        }.persist(StorageLevel.MEMORY_ONLY)
        for (_ <- 1 to 2) assert(FailedPut.inOrder(rdd) == expected)
        assert(regions(spark) > 0)
        rdd.unpersist(blocking = true)
        eventually(assert(regions(spark) == 0))
      }
    }
  }

  test("a decommissioned executor hands its blocks over") {
    withRdds("spark.decommission.enabled" -> "true", "spark.storage.decommission.enabled" -> "true",
        "spark.storage.decommission.rddBlocks.enabled" -> "true") { (spark, computed) =>
      val rdd = rows(spark.sparkContext, computed).persist(StorageLevel.MEMORY_ONLY)
      val expected = answer(rdd)
      ClusterAccess.decommissionOne(spark.sparkContext)
      eventually(assert(ClusterAccess.executors(spark.sparkContext).size == 1))
      assert(answer(rdd) == expected)
      assert(computed.value == Rows, "nothing was computed again")
    }
  }

  test("executors whose stores are full ask the driver what may go: local checkpoints stay") {
    withRdds("spark.warmset.memory" -> "24m", "spark.warmset.flashMax" -> "8m") { (spark, _) =>
      val (first, partition) = (Seq(0, 10000, 20000, 30000), 510)
      def expected(of: Int) = Seq.tabulate(8)(p => of + p * partition -> partition)
      // Some 32 MB each, of which the executors hold 64.
      val rdds = first.map { of =>
        spark.sparkContext.parallelize(of until of + 8 * partition, 8).map(FailedPut.element)
      }
      val kept = rdds.head
      kept.localCheckpoint()
      rdds.tail.foreach(_.persist(StorageLevel.MEMORY_AND_DISK))
      for (_ <- 1 to 2; (rdd, of) <- rdds.zip(first)) {
        assert(FailedPut.inOrder(rdd) == expected(of))
      }
      eventually(assert(evictions(spark) > 0))
      val blocks = (0 until 8).map(RDDBlockId(kept.id, _))
      assert(BlockAccess.locations(SparkEnv.get, blocks).forall(_.nonEmpty))
    }
  }

  /** Over all executors, as the driver last heard. */
  private def evictions(spark: SparkSession): Long = {
    val reports = ClusterAccess.executors(spark.sparkContext)
      .flatMap(StatsHistory.of(spark.sparkContext).get.last)
    reports.map(_.json).map(new ObjectMapper().readTree(_).path("evictions_total").asLong).sum
  }
}
