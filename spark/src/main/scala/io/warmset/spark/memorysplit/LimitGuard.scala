package io.warmset.spark.memorysplit

import java.util.concurrent.TimeUnit
import java.util.concurrent.atomic.AtomicBoolean

import io.warmset.region.{NativeStore, Store}
import io.warmset.spark.{Units, WarmsetConf}
import org.apache.spark.internal.Logging

/**
 * Keeps a pool of a fixed size out of the way of a container's limit, past which the kernel kills: looks at what is left
 * of it, after each collection and ten times a second where that is little. Nobody knows beforehand what a JVM holds
 * outside of heap and pool. Warmset's own memory that is only kept for the next task goes first. Direct buffers (of
 * Parquet's decompressors, above all) are freed by collections only, and a heap that is large for its garbage is hardly
 * ever collected: where such buffers are much of what is missing, a collection is asked for.
 *
 * Invariant: the pool's budget is never above `poolBytes`, and after `stop` it stays as it is.
 */
private[spark] final class LimitGuard(
    store: Store,
    poolBytes: Long,
    process: LimitGuard.Process) extends Logging {
  import LimitGuard._

  private val timer = new LookTimer("warmset-guard", () => store.isOpen,
    "The pool could not be kept below the container's memory limit")
  private val collecting = new AtomicBoolean
  private var said = false
  private var nextNs = System.nanoTime
  @volatile private var asked = Asked()
  @volatile private var budget = poolBytes

  def start(): this.type = {
    timer.start(LookTimer.LookNs) { () =>
      val now = System.nanoTime
      if (now - nextNs >= 0) {
        // A look that throws is not tried again at once.
        nextNs = now + TimeUnit.SECONDS.toNanos(1)
        nextNs = now + look(now)
      }
    }
    process.onCollection(() => timer.extra { () => val _ = look(System.nanoTime) })
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
    val held = store.poolBytes + MemorySplitRule.windowBytes(budget)
    val next = MemorySplitRule.guardedPoolBytes(poolBytes, budget, held, room)
    if (next != budget) {
      logDebug(s"of the limit $limit are left $left, the pool's budget goes from $budget to $next")
      store.setBudget(next)
      budget = next
    }
    if (next == poolBytes) asked = asked.copy(fruitless = 0)
    else if (room < margin) {
      process.giveBack()
      val direct = process.directBytes
      if (!said) say(limit, left, direct)
      if (direct >= math.max(margin, (poolBytes - next) / DirectPart)) collect(nowNs, direct, margin)
    }
    if (next < poolBytes) 0L else MemorySplitRule.untilNextLookNs(room, margin, process.cpus)
  }

  private def say(limit: Long, left: Long, direct: Long): Unit = {
    said = true
    logWarning(s"${WarmsetConf.Memory.name}: ${Units.bytesShort(left)} are left of the memory limit of " +
      s"${Units.bytesShort(limit)} (direct buffers of this JVM hold ${Units.bytesShort(direct)}), so the pool has " +
      s"${Units.bytesShort(budget)} instead of ${Units.bytesShort(poolBytes)} until there is more; make the container " +
      "larger, or the Java heap or the pool smaller" + process.whyNoCollection.map("; " + _).getOrElse(""))
  }

  private def collect(nowNs: Long, direct: Long, margin: Long): Unit =
    if (process.whyNoCollection.isEmpty && !collecting.get && asked.mayAgain(nowNs, direct, margin)) {
      timer.aside("warmset-collect", collecting) {
        val tookNs = process.collect()
        val after = process.directBytes
        asked = asked.again(nowNs, tookNs, direct, after)
        logInfo(s"Asked for a collection: direct buffers went from ${direct >> 20} to ${after >> 20} MiB")
      }
    }

  private[memorysplit] def isCollecting: Boolean = collecting.get

  private[memorysplit] def collectionsAsked: Int = asked.times

  def stop(): Unit = {
    process.stop()
    timer.stop()
  }
}

private[spark] object LimitGuard {
  private val WaitNsMin = TimeUnit.SECONDS.toNanos(10)
  private val WaitNsMax = TimeUnit.MINUTES.toNanos(10)
  /** Of what is missing, direct buffers must be this part for a collection to be of use. */
  private val DirectPart = 4
  /** Collections that were asked for take no more than this part of the time. */
  private val TimePart = 20

  /**
   * The collections that were asked for so far.
   *
   * @param fruitless those in a row that freed less than a quarter of the direct buffers
   */
  private final case class Asked(
      times: Int = 0,
      endNs: Long = 0L,
      tookNs: Long = 0L,
      fruitless: Int = 0,
      leftBytes: Long = 0L) {

    /** Often the second one frees what the first one only made free: the time doubles from there on. */
    private def waitNs(fruitless: Int): Long = math.max(TimePart * tookNs,
      if (fruitless < 2) WaitNsMin else math.min(WaitNsMax, WaitNsMin << math.min(20, fruitless - 1)))

    /** What came since the last one may be garbage again. */
    def mayAgain(nowNs: Long, direct: Long, margin: Long): Boolean =
      times == 0 || nowNs - endNs >= waitNs(if (direct >= leftBytes + margin) 0 else fruitless)

    def again(nowNs: Long, tookNs: Long, before: Long, after: Long): Asked =
      Asked(times + 1, nowNs + tookNs, tookNs, if (before - after >= before / 4) 0 else fruitless + 1, after)
  }

  /** What is read of this process and its cgroups, and the collection that it can be asked for. */
  trait Process {
    def cpus: Int

    def limitBytes: Long

    /** Of that limit, or of one further out that has less: what nobody holds, with what the kernel would give up. */
    def leftBytes(limitBytes: Long): Long

    def directBytes: Long

    /** Frees what is only kept to be used another time. */
    def giveBack(): Unit

    /** Why no collection can be asked for, if so. */
    def whyNoCollection: Option[String]

    /** Returns when what the collection freed is given back; gives the time that the collection itself took. */
    def collect(): Long

    def onCollection(look: () => Unit): Unit

    def stop(): Unit
  }

  /** @param freeKept frees what is only kept to be used another time */
  final class ThisProcess(freeKept: () => Unit) extends Process {
    private val heap = new MemorySplitHeap
    private var limit = 0L
    private var limitReadNs = 0L

    override val cpus: Int = Runtime.getRuntime.availableProcessors

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

    override def giveBack(): Unit = freeKept()

    override val whyNoCollection: Option[String] = MemorySplitHeap.whyNoCollection

    override def collect(): Long = {
      val before = System.nanoTime
      heap.collect()
      val took = System.nanoTime - before
      // A thread of the JVM's frees them, once it has been told which are garbage.
      Thread.sleep(FreeMs)
      took
    }

    override def onCollection(look: () => Unit): Unit = heap.onCollection(look)

    override def stop(): Unit = {
      heap.stop()
      heap.restore()
    }
  }

  private val LimitNs = TimeUnit.SECONDS.toNanos(1)
  private val FreeMs = 500L
}
