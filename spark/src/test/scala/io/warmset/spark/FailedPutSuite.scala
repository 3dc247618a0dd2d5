package io.warmset.spark

import java.io.IOException

import io.warmset.rdd.ByteSink
import io.warmset.spark.rddblocks.{ElementPacker, ElementReader, StoredBytes}
import org.apache.spark.SparkEnv
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.storage.{RDDBlockId, StorageLevel}
import org.apache.spark.storage.memory.warmset.TestBlocks
import org.scalatest.funsuite.AnyFunSuite

object FailedPut {
  /** What Spark held for a block when its last element was made. */
  @volatile var unrollMemoryBytes = 0L

  /** Doubles that do not take fewer bytes than they have. */
  def element(i: Int): (Int, Array[Double]) = {
    val random = new java.util.SplittableRandom(i)
    (i, Array.fill(1000)(java.lang.Double.longBitsToDouble(random.nextLong())))
  }

  /** The first and the number of elements in each partition, all of them right and in order. */
  def inOrder(rdd: RDD[(Int, Array[Double])]): Seq[(Int, Int)] = rdd.mapPartitions { found =>
    val ids = found.map { case (i, values) =>
      require(java.util.Arrays.equals(values, element(i)._2), s"element $i")
      i
    }.toArray
    require(ids.toSeq == (ids.head until ids.head + ids.length))
    Iterator(ids.head -> ids.length)
  }.collect().toSeq
}

/** Blocks that Spark's memory store does not take in: right answers, and no region without an owner. */
class FailedPutSuite extends AnyFunSuite with WarmsetSession {
  private val Partitions = 3

  /** Less than 24 MB for cached blocks. */
  private val Small = Map("spark.testing.memory" -> (40L << 20).toString,
    "spark.testing.reservedMemory" -> "0", "spark.buffer.pageSize" -> "64k")

  private def rows(n: Long): DataFrame =
    spark.range(0, n, 1, Partitions).selectExpr("id", "concat('s', id) s")

  private def answer(df: DataFrame): Row = df.selectExpr("sum(id)", "max(s)", "count(1)").head()

  private def cachedInMemory: Int =
    BlockAccess.rddBlocks(SparkEnv.get).count(BlockAccess.inMemory)

  /** Runs with a store that fails puts; `all` says that it fails every one. */
  private def check(n: Long, all: Boolean, settings: Map[String, String]): Unit = {
    spark.stop()
    spark = newSession(settings)
    val expected = answer(rows(n))
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
      val df = rows(n).persist(level)
      for (round <- 1 to 2) {
        assert(answer(df) == expected, s"$level, round $round")
        val stored = cachedInMemory
        assert(if (all) stored == 0 else stored < Partitions, s"$stored blocks were stored")
        eventually(assert(regions.length == stored && pins == 0))
      }
      if (level.useDisk) {
        assert(BlockAccess.stored(spark.sparkContext).map(_.diskSize).sum > 0, "the rest is on disk")
      }
      df.unpersist(blocking = true)
      assertNothingLeft()
    }
  }

  /** The same of an RDD of `n` elements of 8 kB. */
  private def checkRdd(n: Int, all: Boolean, settings: Map[String, String]): Unit = {
    spark.stop()
    spark = newSession(settings + ("spark.warmset.rdd.enabled" -> "true"))
    def elements = spark.sparkContext.parallelize(0 until n, Partitions)
      .map(FailedPut.element)
    val expected = Seq.tabulate(Partitions)(p => p * n / Partitions -> n / Partitions)
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK, WarmLevel,
        StorageLevel.MEMORY_ONLY_SER, StorageLevel.MEMORY_AND_DISK_SER)) {
      val rdd = elements.persist(level)
      for (round <- 1 to 2) {
        assert(FailedPut.inOrder(rdd) == expected, s"$level, round $round")
        val stored = cachedInMemory
        // Spark reads serialised blocks back from its disk as they are, without unrolling.
        if (level.deserialized || !level.useDisk) {
          assert(if (all) stored == 0 else stored < Partitions, s"$level: $stored blocks were stored")
        }
        eventually(assert(regions.length <= (if (all) 0 else stored) && pins == 0))
        assert(BlockAccess.unrollMemory == 0, "memory of tasks that have ended")
      }
      if (level.useDisk) {
        assert(BlockAccess.stored(spark.sparkContext).map(_.diskSize).sum > 0, "the rest is on disk")
      }
      rdd.unpersist(blocking = true)
      assertNothingLeft()
    }
  }

  test("no memory to begin with") {
    check(20000, all = true, Map("spark.storage.unrollMemoryThreshold" -> (1L << 40).toString,
      "spark.sql.inMemoryColumnarStorage.batchSize" -> "500"))
    // Spark makes the first piece of a serialised block as large as the threshold.
    checkRdd(3000, all = true, Small + ("spark.storage.unrollMemoryThreshold" -> (32L << 20).toString))
  }

  /** Of all that the store has room for 16 MB and the heap for 24 MB. */
  private val Little = Small ++ Map("spark.storage.unrollMemoryCheckPeriod" -> "1",
    "spark.warmset.memory" -> "16m", "spark.warmset.flashMax" -> "0")

  test("memory that ends in the middle of an RDD's block") {
    // Three blocks of 24 MB.
    checkRdd(9000, all = false, Little)
  }

  test("bytes that stay on the heap for want of room: Spark knows of them while the block grows") {
    spark.stop()
    spark = newSession(Map("spark.warmset.rdd.enabled" -> "true", "spark.warmset.memory" -> "16m",
      "spark.warmset.flashMax" -> "0"))
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER)) {
      // 27 MB, at most 16 of them in the pool: fewer segments than values between two looks.
      val n = 3500
      val rdd = spark.sparkContext.parallelize(0 until n, 1).map { i =>
        if (i == n - 1) FailedPut.unrollMemoryBytes = BlockAccess.unrollMemory
        FailedPut.element(i)
      }.persist(level)
      for (_ <- 1 to 2) assert(FailedPut.inOrder(rdd) == Seq(0 -> n))
      val seen = FailedPut.unrollMemoryBytes
      assert(seen > (6 << 20), s"$level: $seen bytes")
      assert(cachedInMemory == 1)
      rdd.unpersist(blocking = true)
    }
  }

  test("an element whose bytes no array holds, where the store has no room, stays as it is") {
    spark.stop()
    spark = newSession(Map("spark.warmset.memory" -> "16m", "spark.warmset.flashMax" -> "0"))
    val heapPieceBytesMax = 1 << 20
    val elements = Seq.tabulate(40) { i =>
      val random = new java.util.SplittableRandom(i)
      val bytes = if (i % 4 == 0) 3 * heapPieceBytesMax else 100000
      Array.fill(bytes / 8)(java.lang.Double.longBitsToDouble(random.nextLong()))
    }
    def large(value: Any): Boolean = value match {
      case handle: StoredBytes => handle.place.heap != null && handle.place.heap.length > heapPieceBytesMax
      case _ => false
    }
    // The second finds no room for its first element either.
    val packers = for (round <- 1 to 2) yield {
      val scope = TaskScope.begin()
      val packer = scope.guard(
        new ElementPacker(elements.iterator, StoreHolder.current.get, scope, heapPieceBytesMax))
      val values = packer.toSeq
      assert(values.head.isInstanceOf[StoredBytes] && !values.exists(large))
      val kept = values.count(_.isInstanceOf[Array[Double]])
      assert(if (round == 1) kept > 0 && kept < 10 else kept == 10, s"$kept elements")
      val found = ElementReader.inTask(values.iterator).toSeq
      assert(found.length == elements.length && found.zip(elements).forall { case (a, b) =>
        java.util.Arrays.equals(a.asInstanceOf[Array[Double]], b)
      })
      packer
    }
    packers.foreach(_.close())
    assertNothingLeft()
  }

  /** Takes in a replica of `n` elements of 8 kB, for which there is no memory or which is spoilt. */
  private def checkReplica(n: Int, spoilt: Boolean, settings: Map[String, String]): Unit = {
    spark.stop()
    spark = newSession(settings + ("spark.warmset.rdd.enabled" -> "true"))
    val block = RDDBlockId(1000000, 0)
    val env = SparkEnv.get
    for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
      val before = ByteSink.allocatedBytes
      def put(): Boolean =
        TestBlocks.receive(env, block, Iterator.tabulate(n)(FailedPut.element), level) { bytes =>
          val middle = bytes.length / 2
          if (spoilt) java.util.Arrays.fill(bytes, middle, middle + 20000, -1.toByte)
        }
      if (spoilt) intercept[IOException](put()) else assert(put() == level.useDisk)
      assert(ByteSink.allocatedBytes == before, s"$level: native memory that nobody frees")
      assert(!BlockAccess.inMemory(block))
      // Spark gives no unroll memory back where a put throws without a task.
      if (!spoilt) assert(BlockAccess.unrollMemory == 0)
      assertNothingLeft()
      env.blockManager.removeBlock(block)
    }
  }

  test("a replica for which there is no memory, to begin with or in the middle of it") {
    checkReplica(3000, spoilt = false,
      Small + ("spark.storage.unrollMemoryThreshold" -> (32L << 20).toString))
    checkReplica(6000, spoilt = false, Little)
  }

  test("a replica that breaks off") {
    checkReplica(3000, spoilt = true, Map.empty)
  }

  test("memory that ends in the middle of a block") {
    // Three blocks of about 15 MB of handles each, in less than 24 MB.
    check(60000, all = false, Small + ("spark.sql.inMemoryColumnarStorage.batchSize" -> "1"))
  }
}
