package io.warmset.spark

import java.util.Random

import io.warmset.spark.rddblocks.UpcomingBlocks
import org.apache.spark.SparkEnv
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.{RDDBlockId, StorageLevel}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Span}

/** The next block of an RDD is prefetched while the one before it is read. */
class UpcomingBlocksSuite extends AnyFunSuite with WarmsetSession {
  import UpcomingBlocksSuite._

  override protected def settings: Map[String, String] = Map(
    "spark.warmset.memory" -> "32m", "spark.warmset.rdd.enabled" -> "true")

  /** Some 7 MB a partition, of which less than a third is in memory. */
  private def elements(count: Int = Partitions * Width): RDD[Array[Double]] =
    spark.sparkContext.parallelize(0 until count, Partitions).map(element)

  private def persisted(rdd: RDD[Array[Double]] = elements()): RDD[Array[Double]] = {
    rdd.persist(StorageLevel.MEMORY_AND_DISK).count()
    assert(inRegions(rdd.id) == Partitions)
    rdd
  }

  private def sums(rdd: RDD[Array[Double]], partitions: Range = 0 until Partitions): Seq[Double] =
    spark.sparkContext.runJob(rdd, (read: Iterator[Array[Double]]) => read.map(_.sum).sum, partitions).toSeq

  private def handedOut[T](body: => T): (T, Long) = {
    val before = UpcomingBlocks.handedOutCount
    val result = body
    (result, UpcomingBlocks.handedOutCount - before)
  }

  private lazy val expected = sums(elements())

  /** Reads the first blocks only, and so leaves others prefetched. */
  private def beginSome(rdd: RDD[Array[Double]]): Unit = {
    assert(sums(rdd, 0 until 4) == expected.take(4))
    assert(pins > 0, "blocks are prefetched that nobody reads yet")
  }

  test("scans again and again: most blocks are prefetched before their tasks, and nothing stays held") {
    val rdd = persisted()
    for (_ <- 1 to 3) {
      val (found, prefetched) = handedOut(sums(rdd))
      assert(found == expected)
      assert(prefetched >= Partitions / 2 && prefetched <= Partitions, s"$prefetched of $Partitions were prefetched")
    }
    eventually(assert(pins == 0))
    rdd.unpersist(blocking = true)
  }

  test("blocks that are prefetched and not read are given back, and read later all the same") {
    val rdd = persisted()
    beginSome(rdd)
    eventually(assert(pins == 0))
    assert(sums(rdd) == expected)
    rdd.unpersist(blocking = true)
  }

  test("a block that leaves the store is let go at once, and the one that comes back is read") {
    val rdd = persisted()
    beginSome(rdd)
    (4 until 8).foreach(split => BlockAccess.evict(SparkEnv.get, RDDBlockId(rdd.id, split)))
    assert(pins == 0)
    assert(sums(rdd) == expected)
    beginSome(rdd)
    rdd.unpersist(blocking = true)
    eventually(timeout(Span(1000, Millis)))(assert(regions.isEmpty))
  }

  test("a block that cannot be read when it is prefetched is not taken for an empty one: its task finds out") {
    // One segment a block: a reader that has lost it has nothing left to fail on.
    val rdd = persisted(elements(Partitions * Width / 8))
    val expected = sums(rdd)
    assert(segments == Partitions)
    val (read, lost) = (0 until 4, 4 until 8)
    val blocks = lost.map(RDDBlockId(rdd.id, _))
    regions.map(_.path("id").asLong).filter(RegionBlocks.of(_).exists(blocks.contains(_))).foreach(StoreAccess.destroy)
    assert(sums(rdd, read) == expected.take(4), "some of the others are prefetched, in vain")
    for (split <- lost) {
      val error = intercept[org.apache.spark.SparkException](sums(rdd, split to split))
      assert(error.getMessage.contains("cannot be read"), error.getMessage)
    }
    eventually(assert(pins == 0 && inRegions(rdd.id) == Partitions - lost.length))
    assert(sums(rdd) == expected)
    rdd.unpersist(blocking = true)
  }

  test("a task that stops early, and one that fails, leave nothing behind") {
    val rdd = persisted()
    assert(rdd.map(_.length).take(1).toSeq == Seq(Width))
    intercept[org.apache.spark.SparkException](rdd.foreachPartition { read =>
      read.take(Width - 1).foreach(_ => ())
      throw new IllegalStateException("as the test wants it")
    })
    eventually(assert(pins == 0))
    assert(sums(rdd) == expected)
    rdd.unpersist(blocking = true)
  }

  test("what is prefetched makes room for what is written: nothing stays on the heap for it") {
    inSession("spark.master" -> "local[6]", "spark.warmset.flashMax" -> "24m") {
      // Some 3.5 MB a partition: memory and disk have room for one such RDD, and a little more.
      val rdd = persisted(elements(Partitions * Width / 2))
      for (_ <- 1 to 2) rdd.count()
      assert(pins > 0, "the next pass is prefetched")
      val other = persisted(elements(Partitions * Width / 2).map(_.reverse))
      assert(sums(other).zip(sums(rdd)).forall { case (one, two) => (one - two).abs < 1e-6 })
      rdd.unpersist(blocking = true)
      other.unpersist(blocking = true)
    }
  }

  test("nothing is prefetched where nothing is to be brought in ahead") {
    inSession("spark.warmset.prefetch.max" -> "0") {
      val rdd = persisted()
      assert(handedOut(sums(rdd)) == ((expected, 0L)))
      rdd.unpersist(blocking = true)
    }
  }
}

object UpcomingBlocksSuite {
  private val Partitions = 12
  private val Width = 1000

  private def element(i: Int): Array[Double] = {
    val random = new Random(i)
    Array.fill(Width)(random.nextDouble())
  }
}
