package io.warmset.spark

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicReference

import org.apache.spark.SparkEnv
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.functions._
import org.apache.spark.storage.RDDBlockId
import org.scalatest.funsuite.AnyFunSuite

/** Memory and disk are full: what was used longest ago goes, and comes back when it is read. */
class EvictionSuite extends AnyFunSuite with EvictionSession {
  private val PartitionRows = 260000L

  /** Some 5 MB a partition, that no encoding makes smaller: the store holds about ten of them. */
  private def rows(seed: Int, partitions: Int = Partitions): DataFrame =
    spark.range(0, PartitionRows * partitions, 1, partitions)
      .selectExpr("id", s"xxhash64(id, $seed) h", s"xxhash64(id, ${seed + 1}) g")

  private def answer(df: DataFrame): Row =
    df.selectExpr("bit_xor(h)", "bit_xor(g)", "sum(id)", "count(1)").head()

  private def inThread[T](body: => T): () => T = {
    val result = new AtomicReference[scala.util.Try[T]]
    val thread = new Thread(() => result.set(scala.util.Try(body)))
    thread.start()
    () => { thread.join(Timeout.totalNanos / 1000000); result.get.get }
  }

  /** A scan that stops at a row of the first partition until `Signals` let it go on. */
  private def slowScan(df: DataFrame, row: Long): () => Row = {
    Signals.reset()
    val slow = udf { (id: Long) => if (id == row) Signals.stopHere(); id }
    inThread(answer(df.withColumn("id", slow(col("id")))))
  }

  test("the blocks used longest ago go, no more of them than have to, and come back when read") {
    val (a, b) = (rows(1), rows(10))
    val (answerA, answerB) = (answer(a), answer(b))
    val before = evictions
    watchingFlash {
      val rddA = cache(a)
      assert(evictions == before && inRegions(rddA) == Partitions, "one DataFrame fits")
      // The first half of A is younger now.
      a.filter(col("id") < PartitionRows * Partitions / 2).agg(expr("bit_xor(h)"), expr("bit_xor(g)")).head()
      val rddB = cache(b)
      val left = cached(rddA)
      val gone = (0 until Partitions).toSet -- left
      assert(gone.nonEmpty && evictions - before == gone.size)
      assert(inRegions(rddB) == Partitions, "the new DataFrame is in regions, wholly")
      val (older, younger) = gone.partition(_ >= Partitions / 2)
      assert(older.size == Partitions / 2 || younger.isEmpty, s"$gone went")
      assert(left.nonEmpty, "two tasks that find the store full must not evict for each other as well")
      val master = BlockAccess.locations(SparkEnv.get, (0 until Partitions).map(RDDBlockId(rddA, _)))
      assert(master.map(_.nonEmpty) == (0 until Partitions).map(left), "what the master knows of A")
      assert(answer(b) == answerB)
      assert(answer(a) == answerA)
      assert(cached(rddA).size == Partitions, "A is computed and cached again")
      assert(evictions - before > gone.size, "in place of some of B")
      assert(answer(b) == answerB && answer(a) == answerA)
    }
  }

  test("nothing is evicted of the RDD that is being written") {
    val large = rows(20, 3 * Partitions)
    val expected = answer(large)
    val before = evictions
    watchingFlash {
      val rdd = cache(large)
      assert(cached(rdd).size == 3 * Partitions && inRegions(rdd) > 0)
      for (_ <- 1 to 2) assert(answer(large) == expected)
      assert(evictions == before)
    }
  }

  test("a cache larger than the store takes the place of all others, and keeps the rest on the heap") {
    val (a, large) = (rows(1), rows(20, 3 * Partitions))
    val (answerA, expected) = (answer(a), answer(large))
    val before = evictions
    watchingFlash {
      val rddA = cache(a)
      cache(large)
      assert(!cached.contains(rddA) && evictions - before == Partitions)
      assert(answer(large) == expected)
      assert(answer(a) == answerA)
    }
  }

  test("a block that is read stays, and its scan is right") {
    val (a, b) = (rows(1), rows(10))
    val (answerA, answerB) = (answer(a), answer(b))
    val rddA = cache(a)
    val scan = slowScan(a, 1000)
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    watchingFlash {
      cache(b)
      assert(cached(rddA)(0), "the block that is read")
      assert(answer(b) == answerB)
    }
    Signals.goOn.countDown()
    assert(scan() == answerA)
  }

  test("a region that is released while it is read stays until its reader ends") {
    val (a, b) = (rows(1), rows(10))
    val (answerA, answerB) = (answer(a), answer(b))
    cache(a)
    // By then Spark has the block's lock back.
    val scan = slowScan(a, PartitionRows - 1000)
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    // A task that starts after the release would cache its partition once more.
    val tracker = spark.sparkContext.statusTracker
    eventually(timeout(Timeout)) {
      val running = tracker.getActiveStageIds().flatMap(tracker.getStageInfo(_))
      assert(running.map(_.numCompletedTasks()).sum == Partitions - 1)
    }
    watchingFlash {
      a.unpersist(blocking = true)
      cache(b)
      assert(answer(b) == answerB)
    }
    Signals.goOn.countDown()
    assert(scan() == answerA)
  }

  test("a task that reads what could be evicted for it, and two that could wait for each other") {
    val (a, b) = (rows(1), rows(10))
    val copies = Seq(a, b).map(_.selectExpr("id", "h + 1 h", "g - 1 g"))
    val expected = copies.map(answer)
    watchingFlash {
      Seq(a, b).foreach(cache)
      val before = evictions
      val jobs = copies.map(copy => inThread(copy.cache().count()))
      assert(jobs.map(_.apply()) == Seq.fill(2)(PartitionRows * Partitions))
      assert(evictions > before)
      assert(copies.map(answer) == expected)
    }
  }

  test("a task killed after it has evicted leaves nothing behind") {
    val (a, b) = (rows(1), rows(10))
    val (answerA, answerB) = (answer(a), answer(b))
    cache(a)
    val before = evictions
    Signals.reset()
    val last = PartitionRows * Partitions - 1
    val stuck = udf { (id: Long) => if (id == last) Signals.stopHere(); id }
    val killed = b.withColumn("id", stuck(col("id"))).cache()
    val failed = inThread {
      spark.sparkContext.setJobGroup("e", "e", interruptOnCancel = true)
      intercept[Exception](killed.count())
    }
    assert(Signals.reached.await(60, TimeUnit.SECONDS))
    assert(evictions > before)
    spark.sparkContext.cancelJobGroup("e")
    failed()
    killed.unpersist(blocking = true)
    watchingFlash {
      assert(answer(a) == answerA)
      cache(b)
      assert(answer(b) == answerB)
    }
  }

  test("a block that is also on Spark's own disk stays there") {
    val (a, b) = (rows(1), rows(10))
    val answerA = answer(a)
    val rddA = cache(a)
    val env = SparkEnv.get
    BlockAccess.rddBlocks(env).foreach(BlockAccess.evict(env, _))
    assert(answer(a) == answerA && inRegions(rddA) == Partitions, "back in regions, and on disk")
    val before = evictions
    watchingFlash {
      cache(b)
      assert(evictions > before && inRegions(rddA) < Partitions)
      assert(cached(rddA).size == Partitions, "nothing has to be computed again")
      assert(answer(a) == answerA)
    }
  }
}
