package io.warmset.spark.memorysplit

import java.lang.management.MemoryUsage

import io.warmset.spark.{MemoryRule, StoreRoom, Units, WarmsetConf}

/**
 * Whether `spark.warmset.totalMemory` can work here, and how the split starts.
 *
 * Invariant: pure arithmetic on what was read. A plan's pool is at least the least budget, and pool
 * and starting heap together are the total; what cannot work is an IllegalArgumentException that
 * names the setting and what would do.
 */
private[spark] object MemorySplitRule {
  /** Part of the total that the heap starts with, within -Xms and -Xmx. */
  val HeapShare: Double = 0.4

  /**
   * @param minBytes the heap never gives back what is below (-Xms)
   * @param maxBytes the heap never takes more (-Xmx)
   * @param stiff why this JVM's heap gives nothing back at all, if so
   */
  final case class Heap(minBytes: Long, maxBytes: Long, stiff: Option[String] = None)

  /**
   * @param reserveBytes kept for what the JVM needs outside heap and pool
   * @param fixed why the split stays as it starts, if it does
   */
  final case class Plan(
      totalBytes: Long,
      poolStartBytes: Long,
      heap: Heap,
      reserveBytes: Long,
      fixed: Option[String])

  def plan(conf: WarmsetConf, totalBytes: Long, heap: Heap, machine: MemoryRule.Machine): Plan = {
    val reserve = MemoryRule.ReserveBytes + machine.sparkOffHeapBytes
    refuseBeyond(totalBytes, reserve, machine)
    val fixed = whyFixed(conf, heap)
    val heapLeast = if (fixed.isDefined) heap.maxBytes else heap.minBytes
    val poolMost = totalBytes - heapLeast
    if (poolMost < WarmsetConf.MemoryBytesMin) {
      val option = if (fixed.isDefined) "-Xmx" else "-Xms"
      throw new IllegalArgumentException(
        s"${WarmsetConf.TotalMemory.name} is ${Units.bytesShort(totalBytes)}, but the Java heap has at least " +
          s"${Units.bytesShort(heapLeast)} of them ($option) and the pool ${Units.bytesShort(WarmsetConf.MemoryBytesMin)}; " +
          s"set it to at least ${(heapLeast + WarmsetConf.MemoryBytesMin + MiB - 1) / MiB}m, or make the heap smaller" +
          fixed.map(why => s" ($why)").getOrElse(""))
    }
    val pool = conf.memoryBytes match {
      case Some(asked) if asked > poolMost => throw new IllegalArgumentException(
        s"${WarmsetConf.Memory.name} is ${Units.bytesShort(asked)}, but of ${WarmsetConf.TotalMemory.name}, which is " +
          s"${Units.bytesShort(totalBytes)}, the Java heap leaves ${Units.bytesShort(poolMost)}: set it to at most " +
          s"${poolMost / MiB}m")
      case Some(asked) => asked
      case None if fixed.isDefined => poolMost
      case None =>
        val heapStart = (totalBytes * HeapShare).toLong.max(heap.minBytes).min(heap.maxBytes)
        totalBytes - heapStart
    }
    Plan(totalBytes, wholeFrames(pool), heap, reserve, fixed)
  }

  private def refuseBeyond(
      totalBytes: Long,
      reserveBytes: Long,
      machine: MemoryRule.Machine): Unit =
    if (totalBytes > machine.totalBytes - reserveBytes) {
      throw new IllegalArgumentException(
        s"${WarmsetConf.TotalMemory.name} is ${Units.bytesShort(totalBytes)}, but of the " +
          s"${Units.bytesShort(machine.totalBytes)} of this machine or container (`warmset doctor` shows the limit) " +
          s"${Units.bytesShort(reserveBytes)} are kept for what the JVM needs outside the heap and the pool; set it to " +
          s"at most ${math.max(0L, machine.totalBytes - reserveBytes) / MiB}m")
    }

  private def whyFixed(conf: WarmsetConf, heap: Heap): Option[String] =
    heap.stiff.orElse {
      if (heap.minBytes >= heap.maxBytes) {
        Some("-Xms is equal to -Xmx, so the Java heap never gives memory back; leave -Xms out")
      } else if (conf.hugePages == "hugetlb") {
        Some(s"with ${WarmsetConf.HugePages.name}=hugetlb the pool's pages are reserved, and the " +
          s"Java heap cannot have them; set ${WarmsetConf.Memory.name} and leave the total out, or hugetlb")
      } else {
        None
      }
    }

  /**
   * Bytes in use after the last of some collections, each with its end and the heap's pools; `None` if
   * none says it. Shenandoah's and ZGC's pauses are told as collections, with pools that have nothing.
   */
  def usedAfterLast(collections: Seq[(Long, Seq[MemoryUsage])]): Option[Long] =
    collections.filter(_._2.exists(_.getCommitted > 0)).maxByOption(_._1).map(_._2.map(_.getUsed).sum)

  /**
   * What heap and pool may have now, where other memory under the same limit has outgrown the reserve.
   * Past the limit the kernel kills.
   */
  def totalNow(plan: Plan, limitBytes: Long, outsideBytes: Long): Long = {
    math.max(0L, math.min(plan.totalBytes,
      limitBytes - math.max(plan.reserveBytes, outsideBytes + marginBytes(limitBytes))))
  }

  /** What is to stay free of a limit: between two looks memory may be taken before the pool yields. */
  def marginBytes(limitBytes: Long): Long = math.min(limitBytes / MarginOfLimit, MarginBytesMax)

  /** Half of the time in which memory that is taken as fast as it can be fills the room; a second at most. */
  def untilNextLookNs(roomBytes: Long, marginBytes: Long, cpus: Int): Long = {
    val taken = math.max(1L, math.max(marginBytes, cpus * TakenPerCpuBytes))
    math.max(0L, math.min(LooksMax, roomBytes / taken)) * LookTimer.LookNs / 2
  }

  /** What a budget leaves to the store's window (`pool.rs`); the pool has the rest. */
  def windowBytes(budgetBytes: Long): Long = math.min(budgetBytes / WindowPart, WindowBytesMax)

  /**
   * The budget of a pool that is to have `poolBytes`, in what is left of a limit. It falls at once, and rises by an
   * eighth of the rest each second: what has just been freed is often wanted again.
   *
   * @param budgetBytes its budget so far
   * @param heldBytes its memory now, with what its budget leaves to the window
   * @param roomBytes what may be taken beside it; what has to be freed, where negative
   */
  def guardedPoolBytes(poolBytes: Long, budgetBytes: Long, heldBytes: Long, roomBytes: Long): Long = {
    val fits = heldBytes + roomBytes
    val rise = math.max(StoreRoom.FrameBytes, (math.min(fits, poolBytes) - budgetBytes) / RisesIn)
    val now = math.min(fits, budgetBytes + rise)
    if (now >= poolBytes) poolBytes else wholeFrames(now)
  }

  /**
   * What counts as outside when it was `beforeBytes` at the last look and is `nowBytes` now: what comes
   * counts at once, what goes an eighth at a time. The memory of Python's workers swings with their tasks.
   */
  def settledBytes(beforeBytes: Long, nowBytes: Long): Long =
    if (nowBytes >= beforeBytes) nowBytes else beforeBytes - math.max(1L, (beforeBytes - nowBytes) / SettlesIn)

  private val MiB = 1L << 20
  private val SettlesIn = 8
  private val LooksMax = 20L
  /** In 0.1 s, as was seen of heaps that are touched for the first time. */
  private val TakenPerCpuBytes = 32L << 20
  private val WindowPart = 64
  private val WindowBytesMax = 256L << 20
  /** Looks of a tenth of a second. */
  private val RisesIn = 80
  /** 64 MiB of 2 GiB are what two cores allocate in 0.1 s. */
  private val MarginOfLimit = 32
  /** With what a JVM usually has outside, no more than the reserve. */
  private val MarginBytesMax = 128L << 20

  /** The pool of a split that stays as it starts, in what heap and pool may have now. */
  def fixedPoolBytes(plan: Plan, totalBytes: Long): Long =
    wholeFrames(math.min(plan.poolStartBytes, totalBytes - plan.heap.maxBytes))

  /** A pool of no more than that, but for the least there is. */
  private def wholeFrames(bytes: Long): Long =
    math.max(WarmsetConf.MemoryBytesMin, bytes / StoreRoom.FrameBytes * StoreRoom.FrameBytes)

  /** Part of the heap, in percent, that is free when so many bytes live in `heapBytes`. */
  def freePercent(liveBytes: Long, heapBytes: Long): Int = {
    val live = math.ceil(100.0 * liveBytes / math.max(1L, heapBytes))
    math.max(FreePercentMin.toDouble, math.min(100.0, 100 - live)).toInt
  }

  /** The split's own headroom over live bytes is a quarter of them: the same, from the other end. */
  private val FreePercentMin = 20
}
