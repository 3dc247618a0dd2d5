package io.warmset.spark

import java.io.ObjectOutputStream
import java.util.concurrent.CountDownLatch
import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicLong

import org.apache.spark.rdd.RDD
import org.apache.spark.storage.{RDDInfo, StorageLevel}
import org.apache.spark.util.LongAccumulator
import org.apache.spark.warmset.SparkInternals
import org.scalatest.funsuite.AnyFunSuite

object HeapFirst {
  @volatile var seen: AtomicLong = _
  val reading = new CountDownLatch(1)
  val goOn = new CountDownLatch(1)
  @volatile var generation = 0
  @volatile var whilePacked: () => Unit = () => ()
}

/** Says when it is packed. */
class Announcing(val id: Int) extends Serializable {
  private def writeObject(out: ObjectOutputStream): Unit = {
    HeapFirst.whilePacked()
    out.defaultWriteObject()
  }
}

/** RDDs that stay on the heap while Spark's memory has room, and leave it for regions when it has not. */
class HeapFirstSuite extends AnyFunSuite with WarmsetSession {
  private val MiB = 1L << 20
  private val Memory = 96 * MiB

  override protected def settings: Map[String, String] = Map(
    "spark.warmset.rdd.enabled" -> "true", "spark.warmset.rdd.heapFirst" -> "true",
    "spark.task.maxFailures" -> "1", "spark.testing.reservedMemory" -> "0",
    "spark.testing.memory" -> (Memory * 10 / 6).toString, "spark.buffer.pageSize" -> "64k",
    // How many tasks run is asked for: else what came last may not be told.
    "spark.ui.liveUpdate.period" -> "0")

  private def sc = spark.sparkContext

  override def afterEach(): Unit = {
    sc.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
    assert(BlockAccess.unrollMemory == 0)
    super.afterEach()
  }

  /** How many elements of the RDD that was made last were computed. */
  private var computed: LongAccumulator = _

  /** Elements of some 8 kB. */
  private def elements(mib: Int, partitions: Int): RDD[(Int, Array[Double])] = {
    val counter = sc.longAccumulator
    computed = counter
    sc.parallelize(0 until mib * 128, partitions).map { i =>
      counter.add(1)
      FailedPut.element(i)
    }
  }

  private def assertRight(rdd: RDD[(Int, Array[Double])], mib: Int): Unit = {
    val each = mib * 128 / rdd.getNumPartitions
    assert(FailedPut.inOrder(rdd) == (0 until rdd.getNumPartitions).map(p => (p * each, each)))
  }

  private def info(rdd: RDD[_]): RDDInfo = BlockAccess.stored(sc).find(_.id == rdd.id).get

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
      val counter = computed
      for (_ <- 1 to 3) assertRight(rdd, 192)
      assert(counter.value == 192 * 128, "nothing was lost, so nothing was computed again")
      assertCached(rdd)
      assert(inRegions(rdd.id) >= 14, "a block that was being written meanwhile may have stayed")
      assert(BlockAccess.storageMemory < 32 * MiB)
    }

    test(s"${level.description}: a partition that is larger than Spark's memory is cached") {
      val rdd = elements(160, 1).persist(level)
      val counter = computed
      for (_ <- 1 to 2) assertRight(rdd, 160)
      assert(counter.value == 160 * 128)
      assertCached(rdd)
      assert(inRegions(rdd.id) == 1)
    }

    test(s"${level.description}: another RDD has the room of one that was used longer ago") {
      val first = elements(64, 8).persist(level)
      val computedFirst = computed
      first.count()
      assert(inRegions(first.id) == 0)
      val before = info(first).memSize
      val second = elements(64, 8).persist(level)
      val computedSecond = computed
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

  test("what clearly will not fit is hardly made objects, what nearly fits mostly stays") {
    val most = new AtomicLong
    HeapFirst.seen = most
    val large = sc.parallelize(0 until 192 * 128, 16).map { i =>
      HeapFirst.seen.accumulateAndGet(BlockAccess.storageMemory, math.max(_, _))
      FailedPut.element(i)
    }.persist(StorageLevel.MEMORY_ONLY)
    large.count()
    assertCached(large)
    assert(most.get < 64 * MiB, "two blocks of 12 MiB are under way, and two more came before they were packed")
    large.unpersist(blocking = true)
    val nearly = elements(112, 16).persist(StorageLevel.MEMORY_ONLY)
    assertRight(nearly, 112)
    assertCached(nearly)
    assert(inRegions(nearly.id) > 0 && inRegions(nearly.id) < 14)
  }

  test("blocks of a local checkpoint leave the heap and are never lost") {
    val kept = elements(64, 8)
    val counter = computed
    kept.localCheckpoint()
    assertRight(kept, 64)
    val others = Seq.fill(2)(elements(64, 8).persist(StorageLevel.MEMORY_AND_DISK))
    for (_ <- 1 to 2; rdd <- others :+ kept) assertRight(rdd, 64)
    assert(counter.value == 64 * 128 && inRegions(kept.id) > 0)
    kept.unpersist(blocking = true)
  }

  test("arrays of primitives as elements' own array, and an empty partition") {
    val numbers = sc.parallelize(0 until 4000000, 5).filter(_ >= 800000).persist(StorageLevel.MEMORY_ONLY)
    val expected = (800000 until 4000000).map(_.toLong).sum
    for (_ <- 1 to 2) assert(numbers.map(_.toLong).sum().toLong == expected)
    assert(inRegions(numbers.id) == 0)
    SparkInternals.packIdle(Long.MaxValue)
    assert(numbers.map(_.toLong).sum().toLong == expected && numbers.take(2).toSeq == Seq(800000, 800001))
    assertCached(numbers)
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

  test("a block that is dropped and put again before its turn comes is packed as it is by then") {
    HeapFirst.generation = 0
    val first = sc.parallelize(0 until 4, 1).map(new Announcing(_)).persist(StorageLevel.MEMORY_ONLY)
    val second = sc.parallelize(0 until 1000, 1).map(i => (i, Array.fill(100)(HeapFirst.generation)))
      .persist(StorageLevel.MEMORY_ONLY)
    Seq(first, second).foreach(_.count())
    HeapFirst.whilePacked = () => {
      HeapFirst.whilePacked = () => ()
      HeapFirst.generation = 1
      second.unpersist(blocking = true)
      second.persist(StorageLevel.MEMORY_ONLY).count()
    }
    SparkInternals.packIdle(Long.MaxValue)
    assert(HeapFirst.generation == 1, "the first one was not packed")
    assert(second.map(_._2.last).distinct().collect().toSeq == Seq(1))
    Seq(first, second).foreach(_.unpersist(blocking = true))
    assert(BlockAccess.storageMemory < MiB)
  }

  test("replicas that come at the same time share the unroll memory of their thread, and none is left or lost") {
    val began, goOn = new CountDownLatch(1)
    val small = Iterator.tabulate(16 * 128) { i =>
      if (i == 15 * 128) {
        began.countDown()
        assert(goOn.await(30, TimeUnit.SECONDS))
      }
      FailedPut.element(i)
    }
    val other = new Thread(() => BlockAccess.put(1000001, small, StorageLevel.MEMORY_ONLY))
    other.start()
    assert(began.await(30, TimeUnit.SECONDS))
    val held = BlockAccess.unrollMemory
    assert(held > 0)
    val large = Iterator.tabulate(160 * 128) { i =>
      if (i == 40 * 128) {
        goOn.countDown()
        other.join(30000)
      }
      FailedPut.element(i)
    }
    BlockAccess.put(1000002, large, StorageLevel.MEMORY_ONLY)
    assert(BlockAccess.unrollMemory == 0)
    assert(Seq(1000001, 1000002).map(BlockAccess.drop) == Seq(true, true), "either was put")
    assert(BlockAccess.storageMemory < MiB)
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

  test("what left the heap is spilled and unpersisted like what never was there") {
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

  test("where Spark has to drop blocks, those go that take its memory: what lies in regions stays") {
    val warm = elements(32, 4).persist(WarmLevel)
    warm.count()
    val stuck = sc.parallelize(0 until 64 * 128, 8).map(i => (new Unserialisable(i), FailedPut.element(i)._2))
      .persist(StorageLevel.MEMORY_ONLY)
    stuck.count()
    assert(info(stuck).numCachedPartitions == 8)
    val (_, freed) = BlockAccess.free(20 * MiB)
    assert(freed >= 20 * MiB)
    assertCached(warm)
    eventually(assert(info(stuck).numCachedPartitions == 5))
    assert(inRegions(warm.id) == 4)
  }

  test("while regions have no room, blocks on the heap are Spark's to drop, and nothing is lost") {
    spark.stop()
    spark = newSession(Map("spark.warmset.memory" -> "24m", "spark.warmset.flashMax" -> "8m"))
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
      val rdds = Seq.fill(3)(elements(64, 8).persist(level))
      for (_ <- 1 to 2; rdd <- rdds) assertRight(rdd, 64)
      rdds.foreach(_.unpersist(blocking = true))
      assertNothingLeft()
    }
    spark.stop()
    spark = newSession()
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
