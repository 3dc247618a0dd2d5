package io.warmset.spark.memorysplit

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode

import io.warmset.region.{NativeStore, Store}
import io.warmset.spark.{MemoryRule, TaskSlots, Units, WarmsetConf}

import org.apache.spark.internal.Logging
import org.apache.spark.warmset.SparkInternals

/**
 * One budget for the Java heap and a store's pool: looks ten times a second and after each
 * collection, lets the native side decide, and tells the heap. One look a second has rates.
 *
 * Invariant: which side gets memory, and when, is decided by `placement::Split` alone; this class
 * reads and applies. After `stop` the JVM's flags are as they were and the pool keeps its budget.
 */
private[spark] final class MemorySplit(store: Store, plan: MemorySplitRule.Plan) extends Logging {
  import MemorySplit._

  private val heap = new MemorySplitHeap
  private val timer = new LookTimer("warmset-split", () => store.isOpen,
    "The split between the Java heap and the pool could not be adjusted")
  private val shedding = new AtomicBoolean
  private var handle = 0L
  private val out = new Array[Long](Outs)
  private var lastNs = System.nanoTime
  private var lookedNs = lastNs
  @volatile private var overNs = 0L
  private var lastCollectionNs = heap.collectionNs
  private var askedNs = 0L
  private var saidStiff = false
  private var saidLess = false
  @volatile private var seen = Seen(plan.totalBytes, plan.poolStartBytes,
    if (plan.fixed.isDefined) plan.heap.maxBytes else 0L,
    MemorySplitHeap.outsideBytes(heap.committedBytes, 0L), 0L, 0L)

  def start(): this.type = {
    plan.fixed match {
      case Some(why) =>
        logWarning(s"${WarmsetConf.TotalMemory.name}: the split between the Java heap " +
          s"and the pool stays as it starts, the pool at ${Units.bytesShort(plan.poolStartBytes)}: $why")
        timer.start(TickNs)(() => keep())
      case None => run()
    }
    this
  }

  /** Nothing goes from one side to the other; what lives beside both has its room all the same. */
  private def keep(): Unit = {
    val (outside, total) = lookOutside(heap.committedBytes)
    val pool = MemorySplitRule.fixedPoolBytes(plan, total)
    if (pool != seen.poolBudgetBytes) store.setBudget(pool)
    seen = seen.copy(totalBytes = total, poolBudgetBytes = pool, outsideBytes = outside)
  }

  /** What counts as outside now, and what that leaves for heap and pool. */
  private def lookOutside(committed: Long): (Long, Long) = {
    val now = MemorySplitHeap.outsideBytes(committed, store.poolBytes())
    val outside = MemorySplitRule.settledBytes(seen.outsideBytes, now)
    val limit = NativeStore.memoryLimit()
    val total = MemorySplitRule.totalNow(plan, limit, outside)
    if (total < plan.totalBytes && !saidLess) {
      saidLess = true
      logWarning(s"Of ${WarmsetConf.TotalMemory.name}, ${Units.bytesShort(plan.totalBytes)}, heap and pool get " +
        s"${Units.bytesShort(total)}: ${Units.bytesShort(outside)} are in use outside of them, by this JVM and others " +
        s"under the same limit of ${Units.bytesShort(limit)}; make the container larger, or the total smaller")
    }
    (outside, total)
  }

  private def run(): Unit = {
    handle = NativeStore.splitOpen(Array(plan.heap.minBytes, plan.heap.maxBytes,
      WarmsetConf.MemoryBytesMin, plan.poolStartBytes))
    timer.start(LookTimer.LookNs)(() => tick(rates = System.nanoTime - lastNs >= TickNs))
    // The heap grows at collections: the pool yields then, not only at the next look.
    heap.onCollection(() => timer.extra(() => tick(rates = false)))
    if (plan.heap.maxBytes > plan.totalBytes) {
      logWarning(s"The Java heap may grow to ${Units.bytesShort(plan.heap.maxBytes)} (-Xmx), past " +
        s"${WarmsetConf.TotalMemory.name}, if that much lives on it; a smaller spark.executor.memory (in local " +
        "mode spark.driver.memory) rules that out")
    }
    logInfo(s"Warmset divides ${Units.bytesShort(plan.totalBytes)} between the Java heap and the pool, which " +
      s"starts with ${Units.bytesShort(plan.poolStartBytes)}")
  }

  private def tick(rates: Boolean): Unit = {
    val now = System.nanoTime
    val collectionNs = heap.collectionNs
    val committed = heap.committedBytes
    val (outside, total) = if (rates) lookOutside(committed) else (seen.outsideBytes, seen.totalBytes)
    val in = Array(
      if (rates) math.max(1L, now - lastNs) else 0L, total, committed, heap.liveBytes,
      if (rates) collectionNs - lastCollectionNs else 0L, if (rates) askedNs else 0L,
      TaskSlots.ofThisProcess.toLong)
    store.splitTick(handle, in, out)
    // No more than the time since the look before, at which the sum was within the total or counted.
    if (committed + out(PoolBytes) > total) overNs += now - lookedNs
    lookedNs = now
    logDebug(s"tick ${(in ++ out).mkString(",")}")
    if (rates) {
      lastNs = now
      lastCollectionNs = collectionNs
      askedNs = 0L
    }
    heap.allow(out(HeapAllowed), out(GrowTo), committed)
    if (out(IsStiff) != 0 && !saidStiff) {
      saidStiff = true
      logWarning(s"${WarmsetConf.TotalMemory.name}: the Java heap gave nothing back when it was asked " +
        s"(${heap.collectorNames}), so the split stays as it is" +
        "; " + MemorySplitHeap.advice.getOrElse(s"to divide it yourself, set ${WarmsetConf.Memory.name}"))
    }
    seen = Seen(total, out(PoolBudget), out(HeapAllowed), outside, out(Moves), seen.collections)
    if (out(Shed) > 0) shed(out(Shed))
    if (out(CollectTo) != Long.MaxValue) collect(out(CollectTo))
  }

  /** Has cached objects leave the heap. */
  private def shed(bytes: Long): Unit = timer.aside("warmset-shed", shedding)(SparkInternals.packIdle(bytes))

  /** Takes the time of a collection that was asked for out of the rates. */
  private def collect(bytes: Long): Unit = {
    val before = heap.committedBytes
    askedNs = heap.collectTo(bytes)
    lastNs += askedNs
    lastCollectionNs = heap.collectionNs
    seen = seen.copy(collections = seen.collections + 1)
    logInfo(s"Asked for a collection to ${bytes >> 20} MiB: the Java heap went from " +
      s"${before >> 20} to ${heap.committedBytes >> 20} MiB in ${askedNs / 1000000} ms")
  }

  /** The pool's budget now. */
  def poolBudgetBytes: Long = seen.poolBudgetBytes

  /** The store's statistics, with the split's beside them. */
  def annotate(stats: String): String = {
    val now = seen
    mapper.readTree(stats).asInstanceOf[ObjectNode]
      .put("heap_committed_bytes", heap.committedBytes).put("heap_used_bytes", heap.usedBytes)
      .put("heap_allowed_bytes", now.heapAllowedBytes).put("outside_bytes", now.outsideBytes)
      .put("total_budget_bytes", now.totalBytes).put("split_moves_total", now.moves)
      .put("split_collections_total", now.collections).put("split_over_ns_total", overNs).toString
  }

  def stop(): Unit = {
    heap.stop()
    if (timer.stop()) {
      heap.restore()
      NativeStore.splitClose(handle)
    }
  }
}

private[spark] object MemorySplit {
  private val mapper = new ObjectMapper

  private val TickNs = TimeUnit.SECONDS.toNanos(1)

  // What the native side puts where.
  private val PoolBudget = 0
  private val HeapAllowed = 1
  private val CollectTo = 2
  private val Moves = 3
  private val IsStiff = 5
  private val PoolBytes = 6
  private val GrowTo = 10
  private val Shed = 11
  private val Outs = 12

  private final case class Seen(
      totalBytes: Long,
      poolBudgetBytes: Long,
      heapAllowedBytes: Long,
      outsideBytes: Long,
      moves: Long,
      collections: Long)

  /** How the budget would be split here, where there is one for both. */
  def plan(conf: WarmsetConf, machine: MemoryRule.Machine): Option[MemorySplitRule.Plan] =
    conf.totalMemoryBytes.map(MemorySplitRule.plan(conf, _, MemorySplitHeap.limits, machine))
}
