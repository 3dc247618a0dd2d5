package io.warmset.spark.ui

/**
 * What the Warmset tab shows, as plain data: everything that is rendered, and nothing that renders.
 *
 * Invariant: names and messages are as the user gave them, unescaped; escaping is the renderers'
 * job. Building one from a running application is ViewBuilder's.
 */
final case class WarmsetView(
    state: StoreState,
    executors: Seq[ExecutorRow],
    caches: Seq[CacheRow],
    series: Seq[BudgetPoint],
    asOfMs: Long) {

  private val reporting = executors.filter(e => e.active && e.stats.isDefined)

  /** Over the executors that are alive and have reported. */
  val totals: StoreStats = reporting.flatMap(_.stats).foldLeft(StoreStats.Zero)(_ + _)

  val reportingExecutors: Int = reporting.length

  /** Bytes that are cached, wherever they lie. */
  val cachedBytes: Long = caches.map(_.bytes).sum
}

/** Whether the application caches in regions at all. */
sealed trait StoreState
object StoreState {
  case object Running extends StoreState

  /** Spark caches as it does without Warmset, because of `reason`. */
  final case class Stock(reason: String) extends StoreState

  /** The numbers are the last ones in the event log. */
  case object Recorded extends StoreState
}

/**
 * One executor.
 *
 * @param host its host and port, where known
 * @param stats its last report; None before the first one
 * @param problem why it has no store, where it has none
 */
final case class ExecutorRow(
    id: String,
    host: Option[String],
    active: Boolean,
    stats: Option[StoreStats],
    reportedAtMs: Option[Long],
    problem: Option[String])

/**
 * One RDD or table with its partitions' regions, summed over executors.
 *
 * @param rddId None for regions that belong to no cached block (yet)
 * @param name as Spark's storage page calls it
 * @param partitions of it that are cached in regions
 * @param partitionsAll its partitions, where known
 * @param diskBytes disk space of its files, whether or not the bytes are also in memory
 */
final case class CacheRow(
    rddId: Option[Int],
    name: String,
    partitions: Int,
    partitionsAll: Option[Int],
    segments: Long,
    bytes: Long,
    residentBytes: Long,
    diskBytes: Long)

/**
 * The memory of all executors together at one time; the last three are 0 where the Java heap and the
 * pool share no budget.
 */
final case class BudgetPoint(
    timeMs: Long,
    budgetBytes: Long,
    usedBytes: Long,
    residentBytes: Long,
    flashBytes: Long,
    poolBytes: Long = 0,
    heapBytes: Long = 0,
    totalBytes: Long = 0)

/** A region store's statistics; field for field the numbers and words of StoreHolder.stats. */
final case class StoreStats(
    budgetBytes: Long,
    poolBytes: Long,
    usedBytes: Long,
    windowBytes: Long,
    stagingBytes: Long,
    hugeBytes: Long,
    residentBytes: Long,
    liveBytes: Long,
    flashBytes: Long,
    writtenBytes: Long,
    readBytes: Long,
    promotions: Long,
    demotions: Long,
    waits: Long,
    waitNs: Long,
    streamed: Long,
    bounces: Long,
    mapped: Long,
    evictions: Long,
    regions: Long,
    segments: Long,
    ioBackend: String,
    pagePolicy: String,
    split: Option[SplitStats] = None) {

  /** Bytes of segments that are not in memory, and so only in a file. */
  def diskOnlyBytes: Long = math.max(0L, liveBytes - residentBytes)

  /** The part on huge pages of the memory that the kernel has given; None while it has given none. */
  def hugeShare: Option[Double] =
    if (poolBytes > 0) Some(math.min(1.0, hugeBytes.toDouble / poolBytes)) else None

  def +(that: StoreStats): StoreStats = StoreStats(
    budgetBytes + that.budgetBytes,
    poolBytes + that.poolBytes,
    usedBytes + that.usedBytes,
    windowBytes + that.windowBytes,
    stagingBytes + that.stagingBytes,
    hugeBytes + that.hugeBytes,
    residentBytes + that.residentBytes,
    liveBytes + that.liveBytes,
    flashBytes + that.flashBytes,
    writtenBytes + that.writtenBytes,
    readBytes + that.readBytes,
    promotions + that.promotions,
    demotions + that.demotions,
    waits + that.waits,
    waitNs + that.waitNs,
    streamed + that.streamed,
    bounces + that.bounces,
    mapped + that.mapped,
    evictions + that.evictions,
    regions + that.regions,
    segments + that.segments,
    StoreStats.words(ioBackend, that.ioBackend),
    StoreStats.words(pagePolicy, that.pagePolicy),
    (split ++ that.split).reduceOption(_ + _))
}

/** The budget that the Java heap and the pool share, where there is one; words of metrics.md. */
final case class SplitStats(
    totalBudgetBytes: Long,
    heapCommittedBytes: Long,
    heapUsedBytes: Long,
    heapAllowedBytes: Long,
    outsideBytes: Long,
    moves: Long,
    collections: Long,
    overNs: Long) {

  def +(that: SplitStats): SplitStats = SplitStats(
    totalBudgetBytes + that.totalBudgetBytes,
    heapCommittedBytes + that.heapCommittedBytes,
    heapUsedBytes + that.heapUsedBytes,
    heapAllowedBytes + that.heapAllowedBytes,
    outsideBytes + that.outsideBytes,
    moves + that.moves,
    collections + that.collections,
    overNs + that.overNs)
}

object StoreStats {
  val Zero: StoreStats = StoreStats(0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, "", "")

  /** The words that occur in either, once each. */
  private def words(a: String, b: String): String =
    (a.split(", ") ++ b.split(", ")).filter(_.nonEmpty).distinct.mkString(", ")
}
