package io.warmset.spark

import java.util.concurrent.{CountDownLatch, TimeUnit}
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import org.apache.spark.SparkException
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.functions._
import org.apache.spark.storage.StorageLevel
import org.apache.spark.unsafe.Platform
import org.scalatest.funsuite.AnyFunSuite

/** Signals between a test and the tasks it runs, which are in the same process. */
object Signals {
  @volatile var reached = new CountDownLatch(1)
  @volatile var goOn = new CountDownLatch(1)
  val attempts = new AtomicInteger

  def reset(): Unit = {
    reached = new CountDownLatch(1)
    goOn = new CountDownLatch(1)
    attempts.set(0)
  }

  /** In a task: says that it is here, and waits until it is let go. */
  def stopHere(): Unit = {
    reached.countDown()
    goOn.await(30, TimeUnit.SECONDS)
  }
}

/** The ways in which a cached block, a reader or a writer can come to an end out of turn. */
class LifecycleSuite extends AnyFunSuite with WarmsetSession {
  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "500",
    "spark.warmset.rowGroup" -> "1m", "spark.task.maxFailures" -> "1", "spark.warmset.stats.interval" -> "100ms")

  private def rows(n: Long, partitions: Int = 2): DataFrame =
    spark.range(0, n, 1, partitions).selectExpr("id", "concat('s', id) s", "id / 2D d")

  private def inThread[T](body: => T): () => T = {
    val result = new AtomicReference[scala.util.Try[T]]
    val thread = new Thread(() => result.set(scala.util.Try(body)))
    thread.start()
    () => { thread.join(60000); result.get.get }
  }

  test("unpersist during a scan: the scan finishes right, then the region goes") {
    val df = rows(40000).cache()
    df.count()
    Signals.reset()
    // By then the scan has taken all of the block's batches in, and Spark has its lock back.
    val slow = udf { (id: Long) => if (id == 15000) Signals.stopHere(); id }
    val answer = inThread(df.select(sum(slow(col("id"))), max("s")).head())
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    df.unpersist(blocking = true)
    assert(regions.nonEmpty, "a region that is read must stay")
    Signals.goOn.countDown()
    assert(answer() == Row(40000L * 39999 / 2, "s9999"))
    eventually(assert(regions.isEmpty && pins == 0))
  }

  test("a task killed while it reads gives its pins back") {
    val df = rows(40000).cache()
    df.count()
    Signals.reset()
    val stuck = udf { (id: Long) => if (id == 100) Signals.stopHere(); id }
    spark.sparkContext.setJobGroup("kill", "kill", interruptOnCancel = true)
    val query = df.select(sum(stuck(col("id"))))
    val group = "kill"
    val failed = inThread {
      spark.sparkContext.setJobGroup(group, group, interruptOnCancel = true)
      intercept[Exception](query.collect())
    }
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    spark.sparkContext.cancelJobGroup(group)
    failed()
    spark.sparkContext.clearJobGroup()
    eventually(assert(pins == 0))
    assert(df.count() == 40000 && regions.length == 2)
    df.unpersist(blocking = true)
  }

  test("a task killed while it writes leaves no region") {
    Signals.reset()
    val stuck = udf { (id: Long) => if (id == 19000) Signals.stopHere(); id }
    val df = rows(40000).select(stuck(col("id")).as("id"), col("s")).cache()
    val failed = inThread {
      spark.sparkContext.setJobGroup("w", "w", interruptOnCancel = true)
      intercept[Exception](df.count())
    }
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    spark.sparkContext.cancelJobGroup("w")
    failed()
    df.unpersist(blocking = true)
    eventually(assert(regions.isEmpty && pins == 0))
  }

  test("a task that fails while it writes leaves no region") {
    val bad = udf { (id: Long) => if (id == 39000) throw new IllegalStateException("on purpose"); id }
    val df = rows(40000).select(bad(col("id")).as("id"), col("s"), col("d")).cache()
    intercept[SparkException](df.count())
    df.unpersist(blocking = true)
    eventually(assert(regions.isEmpty && pins == 0))
  }

  test("a reader that stops in mid-partition leaves nothing pinned") {
    val df = rows(40000).cache()
    df.count()
    val firstTen = df.rdd.mapPartitions(_.take(10)).map(_.getLong(0)).collect()
    assert(firstTen.length == 20)
    eventually(assert(pins == 0))
    df.unpersist(blocking = true)
  }

  test("a sort and a join keep the rows they hold on to") {
    val df = rows(30000).cache()
    val expected = rows(30000).orderBy(desc("s")).limit(100).collect().toSeq
    assert(df.orderBy(desc("s")).limit(100).collect().toSeq == expected)
    val joined = df.as("a").join(df.as("b"), col("a.id") === col("b.id") + 1)
    assert(joined.selectExpr("sum(a.d - b.d)", "count(1)").head() == Row(14999.5, 29999L))
    df.unpersist(blocking = true)
  }

  test("coalesce reads many partitions in one task") {
    val df = rows(20000, 8).cache()
    assert(df.coalesce(1).select(max("s"), sum("id")).head() == Row("s9999", 20000L * 19999 / 2))
    df.unpersist(blocking = true)
  }

  test("a task that reads many partitions one after the other holds the last few only") {
    val df = rows(40000, 40).cache()
    df.count()
    val held = df.coalesce(1).rdd.mapPartitions { all =>
      all.foreach(_ => ())
      Iterator(StoreAccess.pins)
    }.collect().head
    assert(held > 0 && held <= 20, s"$held holds")
    df.unpersist(blocking = true)
  }

  test("a block that Spark evicts is spilled as bytes and comes back into a region") {
    val df = rows(20000, 1)
    df.persist(StorageLevel.MEMORY_AND_DISK).count()
    val env = org.apache.spark.SparkEnv.get
    val block = BlockAccess.onlyRddBlock(env)
    assert(regions.length == 1)
    BlockAccess.evict(env, block)
    eventually(assert(regions.isEmpty))
    assert(df.selectExpr("sum(id)", "max(s)").head() == Row(20000L * 19999 / 2, "s9999"))
    assert(regions.length == 1, "what is read back from disk goes into a region again")
    assert(df.selectExpr("sum(d)").head() == Row(20000L * 19999 / 4.0))
    df.unpersist(blocking = true)
  }

  test("a block of MEMORY_ONLY that Spark evicts is computed again") {
    val df = rows(20000, 1).persist(StorageLevel.MEMORY_ONLY)
    df.count()
    val env = org.apache.spark.SparkEnv.get
    BlockAccess.evict(env, BlockAccess.onlyRddBlock(env))
    eventually(assert(regions.isEmpty))
    assert(df.selectExpr("sum(id)").head() == Row(20000L * 19999 / 2))
    assert(regions.length == 1)
    df.unpersist(blocking = true)
  }

  test("data that cannot be read any more is computed again") {
    val df = rows(20000, 1).cache()
    df.count()
    StoreAccess.destroy(regions.head.path("id").asLong)
    val error = intercept[SparkException](df.selectExpr("sum(id)").collect())
    assert(error.getMessage.contains("cannot be read"), error.getMessage)
    eventually(assert(BlockAccess.rddBlocks(org.apache.spark.SparkEnv.get).isEmpty))
    assert(df.selectExpr("sum(id)").head() == Row(20000L * 19999 / 2))
    df.unpersist(blocking = true)
  }

  test("a spilled block that was damaged on disk is refused, dropped and computed again") {
    val df = spark.range(0, 20000, 1, 1).selectExpr("id", "concat('cat ', id % 4) s")
      .persist(StorageLevel.MEMORY_AND_DISK)
    df.count()
    val env = org.apache.spark.SparkEnv.get
    val block = BlockAccess.onlyRddBlock(env)
    BlockAccess.evict(env, block)
    val path = BlockAccess.file(env, block).toPath
    val bytes = java.nio.file.Files.readAllBytes(path)
    // The codes of the strings' dictionary.
    val at = bytes.indexOfSlice(Seq[Byte](0, 1, 2, 3, 0, 1, 2, 3, 0, 1, 2, 3))
    assert(at > 0)
    bytes(at) = 77
    java.nio.file.Files.write(path, bytes)
    val error = intercept[SparkException](df.filter("s = 'cat 1'").count())
    assert(error.getMessage.contains("code 77 of 4") && error.getMessage.contains("computes it again"),
      error.getMessage)
    eventually(assert(BlockAccess.rddBlocks(env).isEmpty))
    assert(df.filter("s = 'cat 1'").selectExpr("count(1)", "sum(id)").head() == Row(5000L, 49995000L))
    df.unpersist(blocking = true)
  }

  test("concurrent scans of one cache") {
    val df = rows(60000, 4).cache()
    df.count()
    val scans = (0 until 6).map(i => inThread {
      df.filter(col("id") % 6 === i).selectExpr("sum(id)", "count(s)").head()
    })
    val total = scans.map(_.apply()).map(_.getLong(0)).sum
    assert(total == 60000L * 59999 / 2)
    eventually(assert(pins == 0))
    df.unpersist(blocking = true)
  }

  test("the driver learns what executors' stores hold") {
    val df = rows(20000).cache()
    df.count()
    val history = StatsHistory.of(spark.sparkContext).get
    eventually {
      val last = history.last("driver")
      assert(last.exists(r => new com.fasterxml.jackson.databind.ObjectMapper()
        .readTree(r.json).path("regions").asInt == 2))
    }
    df.unpersist(blocking = true)
  }

  test("memory that was kept for writing goes back to the kernel, not to the C library's allocator") {
    val chunks = 24
    def residentBytes = scala.util.Using.resource(scala.io.Source.fromFile("/proc/self/statm"))(_.mkString.split(' ')(1).toLong * 4096)
    def written(): Seq[TransientMemory] = Seq.fill(chunks) {
      val memory = new TransientMemory
      Platform.setMemory(memory.allocate(TransientMemory.ChunkBytes), 1, TransientMemory.ChunkBytes)
      memory
    }
    // The allocator takes chunks from its arenas once one was freed; the block above them keeps it from shrinking these.
    written().foreach(_.close())
    TransientMemory.freeKept()
    val memories = written()
    val above = Platform.allocateMemory(65536)
    memories.foreach(_.close())
    val before = residentBytes
    TransientMemory.freeKept()
    val after = residentBytes
    Platform.freeMemory(above)
    assert(before - after >= chunks * TransientMemory.ChunkBytes / 2, s"$before, then $after bytes are resident")
  }

  test("memory that data is written through is counted, and given back when no task takes it") {
    def counted = new com.fasterxml.jackson.databind.ObjectMapper().readTree(StoreHolder.current.get.stats())
      .path("staging_bytes").asLong(-1)
    TransientMemory.freeKept()
    val before = counted
    val memory = new TransientMemory
    memory.allocate(1)
    assert(counted >= TransientMemory.ChunkBytes)
    memory.close()
    val df = rows(40000).cache()
    df.count()
    eventually(assert(counted <= before))
    df.unpersist(blocking = true)
  }

  test("of memory that is kept for writing only what tasks still take stays") {
    def take(chunks: Int): Unit = {
      val memory = new TransientMemory
      (1 to chunks).foreach(_ => memory.allocate(TransientMemory.ChunkBytes))
      memory.close()
    }
    TransientMemory.freeKept()
    val before = TransientMemory.allocatedBytes
    take(8)
    TransientMemory.trim()
    take(2)
    TransientMemory.trim()
    assert(TransientMemory.allocatedBytes - before <= 2 * TransientMemory.ChunkBytes)
  }

  test("stopping Spark releases everything, and the next session starts again") {
    val df = rows(10000).cache()
    df.count()
    spark.stop()
    assert(StoreHolder.current.isEmpty)
    spark = newSession()
    assert(regions.isEmpty)
    val again = rows(10000).cache()
    assert(again.count() == 10000 && regions.length == 2)
    again.unpersist(blocking = true)
  }
}
