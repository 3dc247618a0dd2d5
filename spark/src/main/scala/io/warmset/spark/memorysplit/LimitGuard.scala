package io.warmset.spark.memorysplit

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import io.warmset.region.{NativeStore, Store}
import io.warmset.spark.{Units, WarmsetConf}
import org.apache.spark.internal.Logging

/**
 * Keeps a pool of a fixed size out of the way of a container's limit, past which the kernel kills: looks at what is left
 * of it, ten times a second where that is little. What a JVM holds outside of heap and pool nobody knows beforehand. Parquet's
 * decompressors alone hold hundreds of MiB of direct buffers, which are freed by collections only, and a heap that is
 * large for its garbage is hardly ever collected: where such buffers are much of what is missing, one is asked for.
 *
 * Invariant: the pool's budget is never above `poolBytes`, and after `stop` it stays as it is.
 */
private[spark] final class LimitGuard(
    store: Store,
    poolBytes: Long,
    process: LimitGuard.Process = new LimitGuard.ThisProcess) extends Logging {
  import LimitGuard._

  private val timer = new LookTimer("warmset-guard", () => store.isOpen,
    "What the container's memory limit leaves to the pool could not be found out")
  private val collecting = new AtomicBoolean
  private var said = false
  private var askedNs = Option.empty[Long]
  private var nextNs = System.nanoTime
  private var waitNs = WaitNsMin
  @volatile private var budget = poolBytes
  @volatile private var collections = 0L

  def start(): this.type = {
    timer.start(LookTimer.LookNs) { () =>
      val now = System.nanoTime
      if (now - nextNs >= 0) nextNs = now + look(now)
    }
    this
  }

  /** The pool's budget now. */
  def poolBudgetBytes: Long = budget

  /** Gives the time until the next look. */
  private[memorysplit] def look(nowNs: Long): Long = {
    val limit = process.limitBytes
    val left = process.leftBytes(limit)
    val margin = MemorySplitRule.marginBytes(limit)
    val room = left - margin
    val next = MemorySplitRule.guardedPoolBytes(poolBytes, budget, store.poolBytes, room)
    if (next != budget) {
      logDebug(s"of the limit $limit are left $left, the pool's budget goes from $budget to $next")
      store.setBudget(next)
      budget = next
    }
    if (next < poolBytes) {
      val direct = process.directBytes
      if (!said) say(limit, left, direct)
      if (direct >= margin) collect(nowNs, direct)
    }
    MemorySplitRule.untilNextLookNs(room, margin)
  }

  private def say(limit: Long, left: Long, direct: Long): Unit = {
    said = true
    logWarning(s"${WarmsetConf.Memory.name}: ${Units.bytesShort(left)} are left of the memory limit of " +
      s"${Units.bytesShort(limit)} (${Units.bytesShort(direct)} are direct buffers of this JVM), so the pool has " +
      s"${Units.bytesShort(budget)} instead of ${Units.bytesShort(poolBytes)} until there is more; make the container " +
      "larger, or the Java heap or the pool smaller")
  }

  /** One that frees little is not asked for again soon. */
  private def collect(nowNs: Long, direct: Long): Unit =
    if (!collecting.get && askedNs.forall(nowNs - _ >= waitNs)) {
      askedNs = Some(nowNs)
      timer.aside("warmset-collect", collecting) {
        process.collect()
        collections += 1
        val freed = direct - process.directBytes
        waitNs = if (freed >= direct / 4) WaitNsMin else math.min(WaitNsMax, 2 * waitNs)
        logInfo(s"Asked for a collection: direct buffers went from ${direct >> 20} to ${(direct - freed) >> 20} MiB")
      }
    }

  private[memorysplit] def isCollecting: Boolean = collecting.get

  private[memorysplit] def collectionsAsked: Long = collections

  def stop(): Unit = {
    process.stop()
    timer.stop()
  }
}

private[spark] object LimitGuard {
  private val WaitNsMin = TimeUnit.SECONDS.toNanos(10)
  private val WaitNsMax = TimeUnit.MINUTES.toNanos(10)

  /** What is read of this process and its cgroups, and the collection that it can be asked for. */
  trait Process {
    def limitBytes: Long

    /** Of that limit, or of one further out that has less: what nobody holds, with what the kernel would give up. */
    def leftBytes(limitBytes: Long): Long

    def directBytes: Long

    /** Returns when what the collection freed is given back. */
    def collect(): Unit

    def stop(): Unit
  }

  private final class ThisProcess extends Process {
    private val heap = new MemorySplitHeap
    private var limit = 0L
    private var limitReadNs = 0L

    /** Read once a second: limits change seldom, and reading them takes as long as reading what is left. */
    override def limitBytes: Long = {
      val now = System.nanoTime
      if (limit == 0 || now - limitReadNs >= LimitNs) {
        limit = NativeStore.memoryLimit()
        limitReadNs = now
      }
      limit
    }

    override def leftBytes(limitBytes: Long): Long = limitBytes - NativeStore.memoryBeside(0L)

    override def directBytes: Long = MemorySplitHeap.directBytes

    override def collect(): Unit = {
      heap.collect()
      // A thread of the JVM's frees them, once it has been told which are garbage.
      Thread.sleep(FreeMs)
    }

    override def stop(): Unit = heap.stop()
  }

  private val LimitNs = TimeUnit.SECONDS.toNanos(1)
  private val FreeMs = 500L
}
