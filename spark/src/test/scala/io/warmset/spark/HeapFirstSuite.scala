package io.warmset.spark

import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit

import org.apache.spark.rdd.RDD
import org.apache.spark.storage.{RDDInfo, StorageLevel}
import org.apache.spark.util.LongAccumulator
import org.apache.spark.warmset.SparkInternals
import org.scalatest.funsuite.AnyFunSuite

object HeapFirst {
  val reading = new CountDownLatch(1)
  val goOn = new CountDownLatch(1)
}

/** RDDs that stay on the heap while Spark's memory has room, and leave it for regions when it has not. */
class HeapFirstSuite extends AnyFunSuite with WarmsetSession {
  private val MiB = 1L << 20
  private val Memory = 96 * MiB

  override protected def settings: Map[String, String] = Map(
    "spark.warmset.rdd.enabled" -> "true", "spark.warmset.rdd.heapFirst" -> "true",
    "spark.task.maxFailures" -> "1", "spark.testing.reservedMemory" -> "0",
    "spark.testing.memory" -> (Memory * 10 / 6).toString, "spark.buffer.pageSize" -> "64k")

  private def sc = spark.sparkContext

  override def afterEach(): Unit = {
    sc.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
    assert(BlockAccess.unrollMemory == 0)
    super.afterEach()
  }

  private val computed = new ThreadLocal[LongAccumulator]

  /** Elements of some 8 kB. */
  private def elements(mib: Int, partitions: Int): RDD[(Int, Array[Double])] = {
    val counter = sc.longAccumulator
    computed.set(counter)
    sc.parallelize(0 until mib * 128, partitions).map { i =>
      counter.add(1)
      FailedPut.element(i)
    }
  }

  private def assertRight(rdd: RDD[(Int, Array[Double])], mib: Int): Unit = {
    val each = mib * 128 / rdd.getNumPartitions
    assert(FailedPut.inOrder(rdd) == (0 until rdd.getNumPartitions).map(p => (p * each, each)))
  }

  private def info(rdd: RDD[_]): RDDInfo = sc.getRDDStorageInfo.find(_.id == rdd.id).get

  private def assertCached(rdd: RDD[_]): Unit = {
    assert(info(rdd).numCachedPartitions == rdd.getNumPartitions)
    assert(info(rdd).diskSize == 0, "Spark's own disk was used")
  }

  test("what fits stays on the heap: readers share its objects, and no region is made") {
    val rdd = elements(32, 4).persist(StorageLevel.MEMORY_AND_DISK)
    assertRight(rdd, 32)
    assert(regions.isEmpty && info(rdd).memSize > 30 * MiB)
    rdd.foreach { case (_, values) => values(0) = 7.0 }
    assert(rdd.map(_._2(0)).distinct().collect().toSeq == Seq(7.0))
  }

  test("what was asked for with persistWarm, or serialised, is in regions all the same") {
    for (level <- Seq(WarmLevel, StorageLevel.MEMORY_AND_DISK_SER)) {
      val rdd = elements(32, 4).persist(level)
      assertRight(rdd, 32)
      assert(inRegions(rdd.id) == 4)
      rdd.unpersist(blocking = true)
    }
  }

  for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
    test(s"${level.description}: what does not fit goes to regions, what was on the heap as well") {
      val rdd = elements(192, 16).persist(level)
      val counter = computed.get
      for (_ <- 1 to 3) assertRight(rdd, 192)
      assert(counter.value == 192 * 128, "nothing was lost, so nothing was computed again")
      assertCached(rdd)
      assert(inRegions(rdd.id) >= 14, "a block that was being written meanwhile may have stayed")
      assert(BlockAccess.storageMemory < 32 * MiB)
    }

    test(s"${level.description}: a partition that is larger than Spark's memory is cached") {
      val rdd = elements(160, 1).persist(level)
      val counter = computed.get
      for (_ <- 1 to 2) assertRight(rdd, 160)
      assert(counter.value == 160 * 128)
      assertCached(rdd)
      assert(inRegions(rdd.id) == 1)
    }

    test(s"${level.description}: another RDD has the room of one that was used longer ago") {
      val first = elements(64, 8).persist(level)
      val computedFirst = computed.get
      first.count()
      assert(inRegions(first.id) == 0)
      val before = info(first).memSize
      val second = elements(64, 8).persist(level)
      val computedSecond = computed.get
      second.count()
      assert(inRegions(first.id) > 0 && inRegions(second.id) == 0)
      val packed = inRegions(first.id)
      eventually(assert(info(first).memSize < before * (9 - packed) / 8, "the driver knows that it takes less"))
      for ((rdd, counter) <- Seq(first -> computedFirst, second -> computedSecond)) {
        assertRight(rdd, 64)
        assertCached(rdd)
        assert(counter.value == 64 * 128)
      }
    }
  }

  test("a task that needs memory gets it: blocks leave the heap and stay cached") {
    val rdd = elements(64, 8).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    val (used, freed) = BlockAccess.free(20 * MiB)
    // Spark's own cleaner may have let a broadcast go meanwhile.
    assert(freed >= 20 * MiB && BlockAccess.storageMemory <= used - freed)
    assert(inRegions(rdd.id) == 3, "no more than it needs")
    assertCached(rdd)
    assertRight(rdd, 64)
  }

  test("a block that is being read stays where it is") {
    val rdd = elements(64, 8).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    val reader = new Thread(() => rdd.mapPartitionsWithIndex { (partition, values) =>
      if (partition == 0) {
        HeapFirst.reading.countDown()
        HeapFirst.goOn.await(30, TimeUnit.SECONDS)
      }
      values.map(_._1)
    }.count())
    reader.start()
    assert(HeapFirst.reading.await(30, TimeUnit.SECONDS))
    eventually(assert(sc.statusTracker.getExecutorInfos.map(_.numRunningTasks).sum == 1))
    SparkInternals.packIdle(Long.MaxValue)
    assert(inRegions(rdd.id) == 7)
    HeapFirst.goOn.countDown()
    reader.join(30000)
    SparkInternals.packIdle(Long.MaxValue)
    assert(inRegions(rdd.id) == 8)
    assertRight(rdd, 64)
  }

  test("elements that nothing can serialise stay, and an RDD of them is as without Warmset") {
    def made = sc.parallelize(0 until 64 * 128, 8).map(i => (new Unserialisable(i), FailedPut.element(i)._2))
    val rdd = made.persist(StorageLevel.MEMORY_ONLY)
    def ids: Seq[Int] = rdd.map(Unserialisable.id).collect().toSeq
    assert(ids == (0 until 64 * 128))
    SparkInternals.packIdle(Long.MaxValue)
    assert(inRegions(rdd.id) == 0 && ids == (0 until 64 * 128))
    val other = elements(64, 8).persist(StorageLevel.MEMORY_ONLY)
    assertRight(other, 64)
    assert(ids == (0 until 64 * 128))
    assertRight(other, 64)
  }

  test("what left the heap is spilled, replicated and unpersisted like what never was there") {
    val rdd = elements(32, 4).persist(StorageLevel.MEMORY_AND_DISK)
    rdd.count()
    SparkInternals.packIdle(Long.MaxValue)
    assert(inRegions(rdd.id) == 4)
    val blocks = BlockAccess.rddBlocks(org.apache.spark.SparkEnv.get)
    BlockAccess.evict(org.apache.spark.SparkEnv.get, blocks.head)
    assertRight(rdd, 32)
    rdd.unpersist(blocking = true)
    assertNothingLeft()
    assert(BlockAccess.storageMemory < MiB)
  }

  test("cached DataFrames are in regions, and blocks on the heap make room for them") {
    val rdd = elements(64, 8).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    val rows = spark.range(0, 200000, 1, 4).selectExpr("id", "cast(id as string) s").cache()
    assert(rows.selectExpr("sum(id)").head().getLong(0) == 19999900000L)
    assert(regions.nonEmpty && inRegions(rdd.id) == 0)
    assertRight(rdd, 64)
  }
}
