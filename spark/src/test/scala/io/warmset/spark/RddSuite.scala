package io.warmset.spark

import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._
import scala.util.Try

import org.apache.spark.{SparkEnv, SparkException}
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel
import org.scalatest.funsuite.AnyFunSuite

case class Reading(id: Long, name: String, values: Array[Double])

/** Java serialisation refuses it, and so does everything else that asks for Serializable. */
class Unserialisable(val id: Int)

object Unserialisable {
  def id(element: Any): Int = element match {
    case u: Unserialisable => u.id
    case r: Reading => r.id.toInt
    case (u: Unserialisable, _) => u.id
  }
}

object Heap {
  /** What lives, as far as a collection finds out. */
  def usedBytes: Long = {
    System.gc()
    Runtime.getRuntime.totalMemory - Runtime.getRuntime.freeMemory
  }
}

/** RDDs in regions: what readers get, and every way in which a block comes to an end. */
class RddSuite extends AnyFunSuite with WarmsetSession {
  override protected def settings: Map[String, String] =
    Map("spark.warmset.rdd.enabled" -> "true", "spark.task.maxFailures" -> "1")

  private def sc = spark.sparkContext

  override def afterEach(): Unit = {
    if (!sc.isStopped) sc.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
    super.afterEach()
  }

  private def readings(n: Int, partitions: Int = 2): RDD[Reading] =
    sc.parallelize(0 until n, partitions)
      .map(i => Reading(i, s"n$i", Array.tabulate(8)(j => i + j / 8.0)))

  private def digest(rdd: RDD[Reading]): Double =
    rdd.map(r => r.id * 31.0 + r.name.hashCode + r.values.sum).sum()

  private def inThread[T](body: => T): () => T = {
    var result: Try[T] = null
    val thread = new Thread(() => result = Try(body))
    thread.start()
    () => { thread.join(60000); result.get }
  }

  for ((name, level) <- Seq("MEMORY_ONLY" -> StorageLevel.MEMORY_ONLY,
      "MEMORY_AND_DISK" -> StorageLevel.MEMORY_AND_DISK, "WarmLevel" -> WarmLevel,
      "MEMORY_ONLY_SER" -> StorageLevel.MEMORY_ONLY_SER, "OFF_HEAP" -> StorageLevel.OFF_HEAP,
      "MEMORY_AND_DISK_SER" -> StorageLevel.MEMORY_AND_DISK_SER)) {
    test(s"$name: elements come back as they were, from regions") {
      val rdd = readings(20000).persist(level)
      val expected = digest(readings(20000))
      for (_ <- 1 to 3) assert(digest(rdd) == expected)
      assert(regions.length == 2)
      assert(rdd.map(_.id).collect().toSeq == (0 until 20000))
      assert(rdd.take(3).map(_.name).toSeq == Seq("n0", "n1", "n2"))
      eventually(assert(pins == 0))
    }
  }

  test("a reader may change what it gets: the next one sees nothing of it") {
    val rdd = readings(1000).persist(StorageLevel.MEMORY_ONLY)
    val before = digest(rdd)
    rdd.foreach(r => java.util.Arrays.fill(r.values, -1.0))
    assert(digest(rdd) == before)
  }

  test("elements that a reader keeps outlive the block") {
    val rdd = readings(5000).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    val kept = rdd.collect()
    rdd.unpersist(blocking = true)
    eventually(assert(regions.isEmpty))
    assert(kept.map(_.values.sum).sum == readings(5000).map(_.values.sum).collect().sum)
  }

  test("more data than memory") {
    inSession("spark.warmset.memory" -> "16m") {
      def blocks = sc.parallelize(0 until 40, 4)
        .map(i => Array.tabulate(200000)(j => (i * 7 + j).toDouble))
      val expected = blocks.map(_.sum).collect().toSeq
      val rdd = blocks.persist(StorageLevel.MEMORY_AND_DISK)
      for (_ <- 1 to 3) assert(rdd.map(_.sum).collect().toSeq == expected)
      eventually(assert(pins == 0))
      rdd.unpersist(blocking = true)
      assertNothingLeft()
    }
  }

  test("any number of elements in a segment") {
    for (elements <- Seq(1, 15, 16, 17, 31, 32, 64, 65, 128); bytes <- Seq(8, 70000, 3 << 20)) {
      val count = if (bytes > 1000) elements % 40 else elements
      val rdd = sc.parallelize(0 until 1, 1)
        .flatMap(_ => Iterator.tabulate(count) { i =>
          // Nothing but all their bytes gives these back.
          val random = new java.util.SplittableRandom(i)
          val values = Array.fill(bytes / 8)(java.lang.Double.longBitsToDouble(random.nextLong()))
          values(0) = i
          values
        }).persist()
      for (_ <- 1 to 2) assert(rdd.map(a => a.length * 1000L + a(0).toLong).collect().toSeq ==
        Seq.tabulate(count)(i => bytes / 8 * 1000L + i))
      rdd.unpersist(blocking = true)
    }
  }

  test("elements of several classes, and null") {
    val mixed = Seq[Any](1, "two", 3.0, null, (4, "five"), Array[Byte](6), Some(7L), List(8, 9))
    val rdd = sc.parallelize(mixed, 1).persist(StorageLevel.MEMORY_ONLY)
    for (_ <- 1 to 2) {
      val found = rdd.collect()
      assert(found.length == mixed.length && found.indices.forall {
        case 5 => found(5).asInstanceOf[Array[Byte]].toSeq == Seq[Byte](6)
        case i => found(i) == mixed(i)
      })
    }
    assert(regions.length == 1)
  }

  test("values that repeat take some of the heap, which Spark knows, until the RDD goes") {
    val rdd = sc.parallelize(0 until 200000, 2).map(i => Reading(i, s"name ${i % 1000}", Array(i % 500 / 7.0, 1.0)))
      .persist(StorageLevel.MEMORY_ONLY)
    def tables = StoreHolder.current.get.tables.heldBytes
    val sum = digest(rdd)
    assert(digest(rdd) == sum && rdd.count() == 200000)
    assert(regions.length == 2 && tables > 2 * 1000 * 56)
    val held = BlockAccess.stored(sc).head.memSize - tables
    assert(held > 0 && held < 4096, "besides the tables there are handles")
    rdd.unpersist(blocking = true)
    eventually(assert(tables == 0))
  }

  test("a few elements that nothing can serialise, among others that go to regions: all are there, in order") {
    val rdd = sc.parallelize(0 until 20000, 2)
      .map[Any](i => if (i % 5000 == 2500) new Unserialisable(i) else Reading(i, "n", Array.tabulate(64)(i + _ / 64.0)))
      .persist(StorageLevel.MEMORY_ONLY)
    def ids = rdd.map { case u: Unserialisable => u.id; case r: Reading => r.id.toInt }.collect().toSeq
    for (_ <- 1 to 2) assert(ids == (0 until 20000))
    assert(regions.length == 2)
  }

  test("elements that nothing can serialise, alone and inside others: all on the heap, in order") {
    for (level <- Seq(StorageLevel.MEMORY_ONLY, WarmLevel)) {
      val rdd = sc.parallelize(0 until 2000, 2)
        .map[Any](i => if (i % 2 == 0) new Unserialisable(i) else (new Unserialisable(i), "inside"))
        .persist(level)
      for (_ <- 1 to 2) assert(rdd.map(Unserialisable.id).collect().toSeq == (0 until 2000))
      eventually(assert(regions.isEmpty && BlockAccess.stored(sc).head.numCachedPartitions == 2))
      rdd.unpersist(blocking = true)
    }
  }

  test("many of them among others: short runs take no frame, and count as Spark's memory") {
    val n = 4000
    for ((run, inRegions) <- Seq(1 -> false, 100 -> false, 1500 -> true)) {
      // A reading is about 1 kB; a run of 1500 is worth a frame.
      val rdd = sc.parallelize(0 until n, 1).map[Any] { i =>
        if (i % (run + 1) == run || i == n - 1) new Unserialisable(i)
        else Reading(i, s"n$i", Array.tabulate(128)(j => i + j / 128.0))
      }.persist(StorageLevel.MEMORY_ONLY)
      for (_ <- 1 to 2) assert(rdd.map(Unserialisable.id).collect().toSeq == (0 until n))
      assert(rdd.flatMap { case r: Reading => Some(r.values.sum - r.id * 128); case _ => None }
        .distinct().collect().toSeq == Seq(63.5))
      val inMemory = BlockAccess.stored(sc).find(_.id == rdd.id).get.memSize
      if (inRegions) assert(segments == 2 && inMemory < (2 << 20), s"$segments segments, $inMemory bytes")
      else eventually(assert(regions.isEmpty && inMemory > n / 2 * 1024L, s"$segments segments, $inMemory bytes"))
      rdd.unpersist(blocking = true)
    }
  }

  test("an empty partition, and a small one which stays on the heap") {
    inSession("spark.warmset.smallPartition" -> "128k") {
      val rdd = readings(3, 4).persist(StorageLevel.MEMORY_ONLY)
      for (_ <- 1 to 2) assert(rdd.map(_.id).collect().toSeq == Seq(0, 1, 2))
      assert(regions.isEmpty && BlockAccess.stored(sc).head.numCachedPartitions == 4)
      rdd.unpersist(blocking = true)
    }
  }

  test("a serialised block whose pieces are small, but not all of it, goes into a region") {
    inSession("spark.warmset.smallPartition" -> "16m") {
      for ((count, inRegions) <- Seq((20, 1), (2, 0))) {
        val rdd = sc.parallelize(0 until count, 1).map { i =>
          val bytes = new Array[Byte](1 << 20)
          new scala.util.Random(i).nextBytes(bytes)
          bytes
        }.persist(StorageLevel.MEMORY_ONLY_SER)
        for (_ <- 1 to 2) assert(rdd.map(_.length.toLong).sum() == count.toDouble * (1 << 20))
        eventually(assert(regions.length == inRegions))
        rdd.unpersist(blocking = true)
      }
    }
  }

  /** Segments that a task's one reader holds after so many elements of four segments. */
  private def pinsAfter(level: StorageLevel, elements: Int*): Seq[Long] = {
    val rdd = sc.parallelize(0 until 32000, 1)
      .map(i => Array.tabulate(128)(j => (i * 131L + j) * 0x9E3779B97F4A7C15L))
      .persist(level)
    rdd.count()
    assert(segments >= 4)
    val pins = elements.map { n =>
      rdd.mapPartitions { each =>
        for (_ <- 1 to n) each.next()
        Iterator(StoreAccess.pins)
      }.collect().head
    }
    val all = segments.toLong
    rdd.unpersist(blocking = true)
    pins :+ all
  }

  test("who reads on has the next segments brought in; who wants the first element has not") {
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER)) {
      val Seq(first, more, all) = pinsAfter(level, 1, 200)
      assert(first <= 2, level)
      assert(more == all, level)
    }
  }

  test("spark.warmset.prefetch.max=0: nothing is brought in ahead") {
    inSession("spark.warmset.prefetch.max" -> "0") {
      for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER)) {
        // The last one is in another segment than the first.
        val pins = pinsAfter(level, 1, 200, 20000)
        assert(pins.init.forall(_ == 1), s"$level: $pins")
      }
    }
  }

  test("a read without a task that nobody ends gives everything back") {
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER)) {
      val rdd = readings(40000, 1).persist(level)
      rdd.count()
      val block = BlockAccess.onlyRddBlock(SparkEnv.get)
      for (_ <- 1 to 10) BlockAccess.beginReading(SparkEnv.get, block)
      eventually {
        System.gc()
        assert(pins == 0)
      }
      rdd.unpersist(blocking = true)
    }
  }

  test("unpersist during a scan: the scan finishes right, then the region goes") {
    val rdd = readings(40000, 1).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    Signals.reset()
    val answer = inThread(rdd.map { r => if (r.id == 100) Signals.stopHere(); r.id }.sum())
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    // Spark takes a block away when its readers have ended.
    rdd.unpersist(blocking = false)
    assert(regions.nonEmpty, "a region that is read must stay")
    Signals.goOn.countDown()
    assert(answer() == 40000.0 * 39999 / 2)
    eventually(assert(regions.isEmpty && pins == 0))
  }

  test("a task killed while it reads, and one killed while it writes, leave nothing behind") {
    val rdd = readings(40000).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    def killed(body: => Any): Unit = {
      Signals.reset()
      val failed = inThread {
        sc.setJobGroup("kill", "kill", interruptOnCancel = true)
        intercept[Exception](body)
      }
      assert(Signals.reached.await(30, TimeUnit.SECONDS))
      sc.cancelJobGroup("kill")
      failed()
    }
    killed(rdd.foreach(r => if (r.id == 100) Signals.stopHere()))
    eventually(assert(pins == 0))
    assert(rdd.count() == 40000 && regions.length == 2)
    rdd.unpersist(blocking = true)
    val half = readings(40000).map { r => if (r.id == 19000) Signals.stopHere(); r }.persist()
    killed(half.count())
    half.unpersist(blocking = true)
    eventually(assert(regions.isEmpty && pins == 0))
  }

  test("a task that fails while it writes leaves no region") {
    val rdd = readings(40000).map { r =>
      if (r.id == 39000) throw new IllegalStateException("on purpose")
      r
    }.persist()
    intercept[SparkException](rdd.count())
    rdd.unpersist(blocking = true)
    eventually(assert(regions.isEmpty && pins == 0))
  }

  test("primitives, whose arrays are no arrays of objects") {
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER)) {
      val ints = sc.parallelize(0 until 100000, 2).persist(level)
      for (_ <- 1 to 2) assert(ints.map(_.toLong).sum() == 100000.0 * 99999 / 2)
      assert(regions.length == 2)
      val env = SparkEnv.get
      BlockAccess.rddBlocks(env).foreach(BlockAccess.evict(env, _))
      assert(ints.map(_.toLong).sum() == 100000.0 * 99999 / 2)
      ints.unpersist(blocking = true)
    }
  }

  test("a serialised block that Spark evicts is on disk as Spark would write it") {
    val rdd = readings(20000, 1).persist(StorageLevel.MEMORY_AND_DISK_SER)
    val expected = digest(rdd)
    val env = SparkEnv.get
    BlockAccess.evict(env, BlockAccess.onlyRddBlock(env))
    eventually(assert(regions.isEmpty))
    for (_ <- 1 to 2) assert(digest(rdd) == expected)
  }

  test("a block that Spark evicts is spilled as Spark spills it, and comes back into a region") {
    val rdd = readings(20000, 1).persist(StorageLevel.MEMORY_AND_DISK)
    val expected = digest(rdd)
    val env = SparkEnv.get
    BlockAccess.evict(env, BlockAccess.onlyRddBlock(env))
    eventually(assert(regions.isEmpty))
    assert(BlockAccess.file(env, BlockAccess.onlyRddBlock(env)).length > 0)
    assert(digest(rdd) == expected)
    assert(regions.length == 1, "what is read back from disk goes into a region again")
    assert(digest(rdd) == expected)
  }

  test("a block of MEMORY_ONLY that Spark evicts is computed again") {
    val rdd = readings(20000, 1).persist(StorageLevel.MEMORY_ONLY)
    val expected = digest(rdd)
    val env = SparkEnv.get
    BlockAccess.evict(env, BlockAccess.onlyRddBlock(env))
    eventually(assert(regions.isEmpty))
    assert(digest(rdd) == expected)
    assert(regions.length == 1)
  }

  test("data that cannot be read any more is computed again") {
    val rdd = readings(20000, 1).persist(StorageLevel.MEMORY_ONLY)
    val expected = digest(rdd)
    StoreAccess.destroy(regions.head.path("id").asLong)
    val error = intercept[SparkException](digest(rdd))
    assert(error.getMessage.contains("cannot be read"), error.getMessage)
    eventually(assert(BlockAccess.rddBlocks(SparkEnv.get).isEmpty))
    assert(digest(rdd) == expected)
  }

  test("data of a checkpoint that cannot be read any more: from its files, from Spark's disk, or not at all") {
    sc.setCheckpointDir(directory.getPath)
    val expected = digest(readings(20000, 1))
    def breakIt(rdd: RDD[Reading]): Unit = {
      eventually(assert(regions.length == 1))
      StoreAccess.destroy(regions.head.path("id").asLong)
      assert(intercept[SparkException](digest(rdd)).getMessage.contains("cannot be read"))
      eventually(assert(!Thread.getAllStackTraces.keySet.asScala.exists(_.getName.startsWith("warmset-remove-"))))
    }

    val files = readings(20000, 1).persist(StorageLevel.MEMORY_AND_DISK)
    files.checkpoint()
    assert(digest(files) == expected && files.isCheckpointed)
    breakIt(files)
    assert(BlockAccess.rddBlocks(SparkEnv.get).isEmpty)
    assert(digest(files) == expected)
    files.unpersist(blocking = true)

    val local = readings(20000, 1).persist(StorageLevel.MEMORY_AND_DISK)
    local.localCheckpoint()
    assert(digest(local) == expected)
    val block = BlockAccess.onlyRddBlock(SparkEnv.get)
    BlockAccess.evict(SparkEnv.get, block)
    assert(digest(local) == expected && BlockAccess.inMemory(block))
    breakIt(local)
    assert(!BlockAccess.inMemory(block) && BlockAccess.onlyRddBlock(SparkEnv.get) == block)
    assert(digest(local) == expected)
    local.unpersist(blocking = true)

    val only = readings(20000, 1).persist(StorageLevel.MEMORY_AND_DISK)
    only.localCheckpoint()
    assert(digest(only) == expected)
    breakIt(only)
    assert(BlockAccess.inMemory(BlockAccess.onlyRddBlock(SparkEnv.get)), "the next read may succeed")
    only.unpersist(blocking = true)
  }

  test("a store that does not take the block in: right answers, nothing left") {
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
      spark.stop()
      spark = newSession(Map("spark.storage.unrollMemoryThreshold" -> (1L << 40).toString))
      val rdd = readings(20000).persist(level)
      val expected = digest(readings(20000))
      for (_ <- 1 to 2) assert(digest(rdd) == expected)
      eventually(assert(regions.isEmpty && pins == 0))
      rdd.unpersist(blocking = true)
    }
    spark.stop()
    spark = newSession()
  }

  test("coalesced, zipped and cartesian reads hold several blocks at once") {
    val rdd = readings(3000, 6).persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    assert(rdd.coalesce(1).map(_.id).sum() == 3000.0 * 2999 / 2)
    assert(rdd.zip(rdd).map { case (a, b) => (a.id - b.id).abs }.sum() == 0)
    val few = rdd.filter(_.id % 300 == 0)
    assert(few.cartesian(rdd).count() == 30000)
    eventually(assert(pins == 0))
  }

  test("a task that reads a block again and again keeps nothing of the reads that have ended") {
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER)) {
      val rdd = readings(1, 1).persist(level)
      rdd.count()
      val reads = 40000
      val kept = sc.parallelize(0 until reads, 1).cartesian(rdd).mapPartitions { pairs =>
        val before = Heap.usedBytes
        require(pairs.size == reads)
        Iterator(Heap.usedBytes - before)
      }.collect().head
      assert(kept < 100 * reads, s"$level: $kept bytes after $reads reads")
      assert(TaskReaders.taskCount == 0)
      rdd.unpersist(blocking = true)
    }
  }

  test("without the setting RDDs stay with Spark, but for persistWarm") {
    inSession("spark.warmset.rdd.enabled" -> "false") {
      val stock = readings(5000).persist(StorageLevel.MEMORY_ONLY)
      stock.count()
      assert(regions.isEmpty)
      val warm = readings(5000).persistWarm()
      for (_ <- 1 to 2) assert(digest(warm) == digest(readings(5000)))
      assert(regions.length == 2)
      Seq(stock, warm).foreach(_.unpersist(blocking = true))
      assertNothingLeft()
    }
  }
}
