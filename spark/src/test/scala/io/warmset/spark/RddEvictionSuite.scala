package io.warmset.spark

import java.util.concurrent.CountDownLatch
import java.util.concurrent.atomic.AtomicInteger

import org.apache.spark.SparkEnv
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.{RDDBlockId, StorageLevel}
import org.apache.spark.util.LongAccumulator
import org.apache.spark.warmset.SparkInternals
import org.scalatest.funsuite.AnyFunSuite

/** Memory and disk are full of RDDs: those go that can be computed again, and no others. */
class RddEvictionSuite extends AnyFunSuite with EvictionSession {
  /** Some 4 MB a partition: the store holds two RDDs of this size, but for a few blocks. */
  private val PartitionElements = 510
  private val All = (0 until Partitions).toSet

  private def elements(
      seed: Int,
      computed: LongAccumulator = spark.sparkContext.longAccumulator): RDD[(Int, Array[Double])] = {
    val first = seed * Partitions * PartitionElements
    spark.sparkContext.parallelize(first until first + Partitions * PartitionElements, Partitions)
      .map { i =>
        computed.add(1)
        FailedPut.element(i)
      }
  }

  private def assertRight(rdd: RDD[(Int, Array[Double])], seed: Int): Unit =
    assert(FailedPut.inOrder(rdd) == (0 until Partitions).map { p =>
      (seed * Partitions + p) * PartitionElements -> PartitionElements
    })

  private def onMaster(rdd: Int): Set[Int] = {
    val known = BlockAccess.locations(SparkEnv.get, (0 until Partitions).map(RDDBlockId(rdd, _)))
    known.zipWithIndex.collect { case (places, partition) if places.nonEmpty => partition }.toSet
  }

  private def unpersist(rdds: RDD[_]*): Unit = rdds.foreach(_.unpersist(blocking = true))

  for ((name, level) <- Seq("MEMORY_AND_DISK" -> StorageLevel.MEMORY_AND_DISK,
      "MEMORY_ONLY" -> StorageLevel.MEMORY_ONLY, "WarmLevel" -> WarmLevel,
      "MEMORY_AND_DISK_SER" -> StorageLevel.MEMORY_AND_DISK_SER)) {
    test(s"$name: the blocks used longest ago go, and are computed again when they are read") {
      val computed = spark.sparkContext.longAccumulator
      val (a, b) = (elements(0, computed).persist(level), elements(1).persist(level))
      watchingFlash {
        a.count()
        val before = evictions
        assert(inRegions(a.id) == Partitions && before == evictions, "one RDD fits")
        // The first half of A is younger now, and where values are read perhaps the next two, which may have been begun.
        val prefetched = if (level == StorageLevel.MEMORY_AND_DISK_SER) 0 else 2
        spark.sparkContext.runJob(a, (read: Iterator[_]) => read.size, 0 until Partitions / 2)
        b.count()
        val gone = All -- cached(a.id)
        assert(gone.nonEmpty && evictions - before == gone.size)
        assert(inRegions(b.id) == Partitions, "the new RDD is in regions, wholly")
        val (older, younger) = (gone.count(_ >= Partitions / 2 + prefetched), gone.count(_ < Partitions / 2))
        assert(older == Partitions / 2 - prefetched || younger == 0, s"$gone went")
        assert(onMaster(a.id) == All -- gone, "what the master knows of A")
        assert(computed.value == Partitions * PartitionElements)
        assertRight(a, 0)
        assert(computed.value == (Partitions + gone.size) * PartitionElements, "what had gone")
        assert(cached(a.id) == All && inRegions(a.id) == Partitions)
        assertRight(b, 1)
      }
      unpersist(a, b)
    }
  }

  test("blocks of a local checkpoint, which nothing can compute again, stay") {
    val (a, b) = (elements(1), elements(2))
    val kept = elements(0)
    kept.localCheckpoint()
    assertRight(kept, 0)
    assert(kept.isCheckpointed && inRegions(kept.id) == Partitions)
    val before = evictions
    watchingFlash {
      for ((rdd, seed) <- Seq(a -> 1, b -> 2)) {
        assertRight(rdd.persist(StorageLevel.MEMORY_AND_DISK), seed)
      }
      assert(evictions > before && cached(a.id) != All, "others go that were used later")
      assert(cached(kept.id) == All && inRegions(kept.id) == Partitions)
      assertRight(kept, 0)
    }
    unpersist(kept, a, b)
  }

  test("a cached DataFrame that was computed from a local checkpoint stays") {
    def checkpoints = spark.sparkContext.getPersistentRDDs.values.filter(_.isCheckpointed)
    val rows = 24000
    val local = spark.range(0, rows, 1, Partitions)
      .selectExpr("id", "concat(sha2(string(id), 512), sha2(string(-id), 512)) s").localCheckpoint()
    val derived = local.selectExpr("id + 1 id", "s")
    val rdd = cache(derived)
    assert(derived.storageLevel.useDisk && derived.count() == rows)
    assert(inRegions(rdd) == Partitions)
    unpersist(checkpoints.toSeq: _*)
    val before = evictions
    val (a, b, c) = (elements(1), elements(2), elements(3))
    watchingFlash {
      for ((other, seed) <- Seq(a -> 1, b -> 2, c -> 3)) {
        assertRight(other.persist(StorageLevel.MEMORY_AND_DISK), seed)
      }
      assert(evictions > before, "others go that were used later")
      assert(cached(rdd) == All && inRegions(rdd) == Partitions)
      assert(derived.selectExpr("sum(id)", "max(length(s))").head().toSeq == Seq(rows * (rows + 1L) / 2, 256))
    }
    unpersist(a, b, c)
    derived.unpersist(blocking = true)
  }

  test("an RDD that is marked for a local checkpoint when some of it has gone is whole again") {
    val (a, b, c) = (elements(0), elements(1), elements(2))
    Seq(a, b, c).foreach(_.persist(StorageLevel.MEMORY_AND_DISK))
    // After a job of another kind Spark would not heed the mark.
    a.countAsync().get()
    b.count()
    assert(cached(a.id) != All)
    a.localCheckpoint()
    a.first()
    assert(a.isCheckpointed && cached(a.id) == All)
    val before = evictions
    watchingFlash {
      assertRight(c, 2)
      assert(cached(a.id) == All && evictions > before)
      for ((rdd, seed) <- Seq(a, b, c).zipWithIndex) assertRight(rdd, seed)
    }
    unpersist(a, b, c)
  }

  test("while the driver does not answer, what only it can tell apart stays") {
    val (a, b) = (elements(0).persist(StorageLevel.MEMORY_AND_DISK), elements(1))
    val answering = Eviction.lineage
    val goOn = new CountDownLatch(1)
    val asked = new AtomicInteger
    Eviction.lineage = Some(new Lineage(_ => {
      asked.incrementAndGet()
      goOn.await()
      null
    }, patienceMs = 500))
    try watchingFlash {
      a.count()
      val before = evictions
      assertRight(b.persist(StorageLevel.MEMORY_AND_DISK), 1)
      assert(cached(a.id) == All && inRegions(a.id) == Partitions && evictions == before)
      assertRight(a, 0)
      assertRight(b, 1)
      assert(asked.get == 1)
    } finally {
      goOn.countDown()
      Eviction.lineage = answering
    }
    unpersist(a, b)
  }

  test("what can be computed again: persisted, not checkpointed, not computed from blocks, determinate") {
    val sc = spark.sparkContext
    sc.setCheckpointDir(directory.getPath)
    val sources = Seq.fill(4)(sc.parallelize(1 to 2, 1).map(_ + 1))
    val Seq(plain, local, files, released) = sources
    val derived = sources.map(_.map(_ -> 1).reduceByKey(_ + _))
    val both = plain.union(local)
    // A round robin of rows whose order is that of their arrival.
    val indeterminate = derived(0).repartition(3)
    val persisted: Seq[RDD[_]] = sources ++ derived :+ both :+ indeterminate
    persisted.foreach(_.persist(StorageLevel.MEMORY_AND_DISK))
    local.localCheckpoint()
    files.checkpoint()
    released.unpersist()
    val asked = persisted.map(_.id) ++ Seq(sc.parallelize(1 to 2, 1).id, Int.MaxValue)
    val expected = Seq(plain, derived(0), derived(2), derived(3)).map(_.id)
    assert(SparkInternals.recomputable(sc, asked) == expected)
    (derived :+ both).foreach(_.count())
    assert(local.isCheckpointed && files.isCheckpointed)
    assert(SparkInternals.recomputable(sc, asked) == expected)
    def ofLocal = asked.filter(SparkInternals.ofLocalCheckpoint(sc, _))
    assert(ofLocal == Seq(local, derived(1), both).map(_.id))
    local.unpersist()
    assert(SparkInternals.recomputable(sc, asked) == expected)
    assert(ofLocal == Seq(derived(1), both).map(_.id))
    unpersist(persisted: _*)
  }
}
