package io.warmset.spark

import java.util.concurrent.atomic.{AtomicBoolean, AtomicLong}

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.SparkEnv
import org.apache.spark.sql.DataFrame
import org.apache.spark.storage.RDDBlockId
import org.scalatest.Suite
import org.scalatest.concurrent.{Signaler, ThreadSignaler, TimeLimits}
import org.scalatest.time.{Seconds, Span}

/** A session whose memory and disk together hold some 50 MB. */
trait EvictionSession extends WarmsetSession with TimeLimits { this: Suite =>
  protected val Partitions = 8
  private val FlashMax = 24L << 20

  /** A task that waited for a lock would do so for ever. */
  protected val Timeout = Span(120, Seconds)
  private implicit val signaler: Signaler = ThreadSignaler

  override protected def settings: Map[String, String] = Map(
    "spark.warmset.memory" -> "32m", "spark.warmset.flashMax" -> "24m",
    "spark.warmset.rowGroup" -> "16m", "spark.warmset.rdd.enabled" -> "true",
    "spark.task.maxFailures" -> "1")

  protected def stat(key: String): Long =
    new ObjectMapper().readTree(Warmset.statsJson()).path(key).asLong

  protected def evictions: Long = stat("evictions_total")

  /** Partitions by RDD, of the blocks that Spark holds here. */
  protected def cached: Map[Int, Set[Int]] = BlockAccess.rddBlocks(SparkEnv.get).collect {
    case RDDBlockId(rdd, partition) => rdd -> partition
  }.groupMap(_._1)(_._2).map { case (rdd, of) => rdd -> of.toSet }
    .withDefaultValue(Set.empty)

  /** Caches it whole, and gives the id of its RDD. */
  protected def cache(df: DataFrame): Int = {
    val before = cached.keySet
    df.cache().count()
    val fresh = cached.keySet -- before
    assert(fresh.size == 1)
    fresh.head
  }

  /** Runs `body`, and looks all the while at the disk space that is taken. */
  protected def watchingFlash[T](body: => T): T = {
    val done = new AtomicBoolean
    val most = new AtomicLong
    val watcher = new Thread(() => while (!done.get) {
      most.accumulateAndGet(stat("flash_bytes"), math.max(_, _))
      Thread.sleep(1)
    })
    watcher.start()
    try failAfter(Timeout)(body) finally {
      done.set(true)
      watcher.join()
      assert(most.get <= FlashMax, "more disk space was taken than spark.warmset.flashMax")
    }
  }
}
