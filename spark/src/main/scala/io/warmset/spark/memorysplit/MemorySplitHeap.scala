package io.warmset.spark.memorysplit

import java.lang.management.{BufferPoolMXBean, GarbageCollectorMXBean, ManagementFactory, MemoryType}
import java.nio.file.{Files, Path}
import javax.management.{NotificationEmitter, NotificationListener}

import scala.jdk.CollectionConverters._
import scala.util.Try

import com.sun.management.{GarbageCollectorMXBean => HotSpotCollector, HotSpotDiagnosticMXBean, VMOption}
import io.warmset.region.NativeStore

/**
 * The Java heap as the split sees it: what the beans say, and what a stock JVM can be told.
 *
 * Invariant: nothing is believed but what is read back; flags go back to what they were at
 * `restore`. A JVM without a flag is told nothing by it.
 */
private[spark] final class MemorySplitHeap {
  import MemorySplitHeap._

  private val collectors = ManagementFactory.getGarbageCollectorMXBeans.asScala.toSeq
  private val heapPools = ManagementFactory.getMemoryPoolMXBeans.asScala
    .filter(_.getType == MemoryType.HEAP).map(_.getName).toSet
  private val youngPools = ManagementFactory.getMemoryPoolMXBeans.asScala
    .filter(pool => pool.getName.contains("Eden") || pool.getName.contains("Survivor")).toSeq
  /** Those that count a collection that is asked for before it returns; none where it is another kind, or off. */
  private val fullCollectors =
    if (isOn("ExplicitGCInvokesConcurrent") || isOn("DisableExplicitGC")) Nil
    else collectors.filter(each => FullCollectors(each.getName))
  private val ratiosOfOld = isOn(UseParallel) || isOn(UseSerial)
  private val shrinksInSteps = isOn(UseSerial) && isOn(InSteps)
  private val first = Flags.flatMap(name => option(name).filter(_.isWriteable).map(name -> _.getValue))
    .toMap
  private var current = first
  /** Live bytes after the last collection that was asked for. */
  private var liveAfterAsked: Option[Long] = None
  private var listeners = Seq.empty[(NotificationEmitter, NotificationListener)]
  @volatile private var stopped = false

  def committedBytes: Long = ManagementFactory.getMemoryMXBean.getHeapMemoryUsage.getCommitted

  def usedBytes: Long = ManagementFactory.getMemoryMXBean.getHeapMemoryUsage.getUsed

  /** Bytes in use after the last collection of any kind: no fewer than live. */
  def liveBytes: Long = {
    val last = collectors.collect { case c: HotSpotCollector => c.getLastGcInfo }.filter(_ != null)
    MemorySplitRule.usedAfterLast(last.map { info =>
      val heap = info.getMemoryUsageAfterGc.asScala.collect { case (pool, usage) if heapPools(pool) => usage }
      (info.getEndTime, heap.toSeq)
    }).getOrElse(usedBytes)
  }

  /** Time that collections have taken from all threads since the JVM started. */
  def collectionNs: Long =
    collectors.map(c => (math.max(0L, c.getCollectionTime) * 1e6 * weight(c)).toLong).sum

  /**
   * Tells the JVM how large its heap may be, and to make it as large as `growTo` (0: as it likes); it
   * follows at its next collection, or not at all.
   */
  def allow(bytes: Long, growTo: Long, committed: Long): Unit = {
    val free = freePercent(bytes)
    // What is in use after a collection is more than what lives: a heap that may be larger is not shrunk for that.
    val most = if (bytes < committed) free else math.max(free, first.get(MaxFree).fold(free)(_.toInt))
    val least =
      if (growTo > committed) freePercent(growTo)
      else if (bytes <= committed) 0
      else math.min(free, first.get(MinFree).fold(free)(_.toInt))
    setFree(least, most)
    set(SoftMax, bytes.toString)
    // G1 gives back at the end of a cycle: an idle heap would not have one.
    set(Periodic, if (bytes < committed) PeriodicMs else first.getOrElse(Periodic, PeriodicMs))
  }

  /**
   * Collects so that the heap is about `bytes` afterwards, where its live bytes and the collector
   * allow that. Gives the time it took.
   */
  def collectTo(bytes: Long): Long = {
    val before = System.nanoTime
    // The first time live bytes are only known to be no more than this: the heap may become smaller.
    setFree(0, freePercent(bytes))
    set(SoftMax, bytes.toString)
    collect()
    // A heap that shrinks in steps gives nothing back at the first of them.
    if (shrinksInSteps) {
      (1 until StepsMax).takeWhile(_ => !stopped && committedBytes > bytes + bytes / 8).foreach(_ => collect())
    }
    System.nanoTime - before
  }

  /** The ratio that makes the heap so large; Parallel and Serial know it for their old generation alone. */
  private def freePercent(bytes: Long): Int = {
    val young = if (!ratiosOfOld) 0L else youngPools.map(_.getUsage.getCommitted).sum
    MemorySplitRule.freePercent(liveLeast, math.max(0L, bytes - young))
  }

  /** How the log calls what collects this heap. */
  def collectorNames: String = collectors.map(_.getName).mkString(", ")

  private def liveLeast: Long = math.min(liveBytes, liveAfterAsked.getOrElse(Long.MaxValue))

  /**
   * The JVM passes over a collection that is asked for while native code has an array in its hands
   * (up to JDK 21), as a BLAS has most of the time.
   */
  def collect(): Unit = {
    val before = fullCollections
    System.gc()
    def passedOver = fullCollectors.nonEmpty && fullCollections == before
    (1 until TriesMax).takeWhile(_ => !stopped && passedOver).foreach { _ =>
      Thread.sleep(TryMs)
      System.gc()
    }
    liveAfterAsked = Some(liveBytes)
  }

  private def fullCollections: Long = fullCollectors.map(_.getCollectionCount).sum

  /** Calls `look` after each collection, on a thread of the JVM's: it must return at once. */
  def onCollection(look: () => Unit): Unit = listeners = collectors.collect {
    case emitter: NotificationEmitter =>
      val listener: NotificationListener = (_, _) => look()
      emitter.addNotificationListener(listener, null, null)
      (emitter, listener)
  }

  /** No further collection is asked for. */
  def stop(): Unit = stopped = true

  def restore(): Unit = {
    listeners.foreach { case (emitter, listener) => Try(emitter.removeNotificationListener(listener)) }
    for (least <- first.get(MinFree); most <- first.get(MaxFree)) setFree(least.toInt, most.toInt)
    first.foreach { case (name, value) => set(name, value) }
  }

  /** The least may never be above the most. */
  private def setFree(least: Int, most: Int): Unit = {
    val order = Seq(MinFree -> least, MaxFree -> most)
    val widensFirst = current.get(MaxFree).exists(_.toInt < least)
    (if (widensFirst) order.reverse else order).foreach { case (name, v) => set(name, v.toString) }
  }

  private def set(name: String, value: String): Unit =
    if (current.get(name).exists(_ != value) && Try(diagnostics.setVMOption(name, value)).isSuccess) {
      current += name -> value
    }
}

private[spark] object MemorySplitHeap {
  private val MinFree = "MinHeapFreeRatio"
  private val MaxFree = "MaxHeapFreeRatio"
  private val SoftMax = "SoftMaxHeapSize"
  private val Periodic = "G1PeriodicGCInterval"
  private val Flags = Seq(MinFree, MaxFree, SoftMax, Periodic)
  private val PeriodicMs = "10000"
  private val UseParallel = "UseParallelGC"
  private val UseSerial = "UseSerialGC"
  private val InSteps = "ShrinkHeapInSteps"
  private val Uncommit = "ZUncommitDelay"

  /** Without it the Parallel collector leaves its generations alone at a collection that was asked for. */
  private val ShrinkOnAsk = "UseAdaptiveSizePolicyWithSystemGC"

  /** The serial collector gives back 0, 10, 40 and 100 % of what it could, collection by collection. */
  private val StepsMax = 4

  private val FullCollectors = Set("G1 Old Generation", "PS MarkSweep", "MarkSweepCompact")
  private val TriesMax = 30
  private val TryMs = 2L

  /** Collectors that work beside the program by default take a quarter of the processors. */
  private val ConcurrentWeight = 0.25

  /** Absent on JVMs that are not HotSpot. */
  private lazy val diagnostics = ManagementFactory.getPlatformMXBean(classOf[HotSpotDiagnosticMXBean])

  private def option(name: String): Option[VMOption] =
    Option(diagnostics).flatMap(bean => Try(bean.getVMOption(name)).toOption)

  /** What this JVM was started with. */
  def limits: MemorySplitRule.Heap = {
    def size(name: String) = option(name).flatMap(_.getValue.toLongOption)
    val most = size("MaxHeapSize").getOrElse(Runtime.getRuntime.maxMemory)
    val stiff =
      if (diagnostics == null) Some("this JVM has no flags that can be changed while it runs")
      else if (isOn(UseParallel) && !isOn(ShrinkOnAsk)) {
        Some(s"the Parallel collector gives no memory back without -XX:+$ShrinkOnAsk")
      } else None
    MemorySplitRule.Heap(size("MinHeapSize").getOrElse(most), most, stiff)
  }

  private def isOn(name: String): Boolean = option(name).exists(_.getValue == "true")

  /** Why no collection can be asked for, and what would change that. */
  def whyNoCollection: Option[String] =
    if (isOn("DisableExplicitGC")) Some("leave -XX:+DisableExplicitGC out") else None

  /** What would let this heap give memory back. */
  def advice: Option[String] =
    if (whyNoCollection.isDefined) whyNoCollection
    else if (isOn("UseZGC")) option(Uncommit).map { delay =>
      s"ZGC gives back what it has not used for ${delay.getValue} s; set -XX:$Uncommit=10"
    } else None

  private def weight(collector: GarbageCollectorMXBean): Double = {
    val name = collector.getName
    if (name.contains("Cycles") || name.contains("Concurrent")) ConcurrentWeight else 1.0
  }

  /** What direct buffers of this process hold. */
  def directBytes: Long = ManagementFactory.getPlatformMXBeans(classOf[BufferPoolMXBean]).asScala
    .filter(_.getName == "direct").map(_.getMemoryUsed).sum

  /**
   * Memory outside heap and pool, as far as it can be told: this process's, and what others in a
   * limited cgroup hold, such as Python's workers.
   */
  def outsideBytes(
      committedBytes: Long,
      poolBytes: Long,
      besideBytes: Long => Long = NativeStore.memoryBeside): Long = {
    val status = ProcessStatus.read(committedBytes)
    val counted = ManagementFactory.getMemoryMXBean.getNonHeapMemoryUsage.getCommitted + directBytes
    // Without its own share a process would take all that its group holds for others'.
    val beside = if (status.heldBytes > 0) besideBytes(status.heldBytes) else 0L
    math.max(counted, status.residentBytes - committedBytes - poolBytes) + beside
  }

  /**
   * @param residentBytes physical memory of this process
   * @param heldBytes what of it is not pages of files
   */
  private final case class ProcessStatus(residentBytes: Long, heldBytes: Long)

  private object ProcessStatus {
    /** All is 0 where /proc cannot be read. */
    def read(committedBytes: Long): ProcessStatus = {
      val lines = Try(Files.readAllLines(Path.of("/proc/self/status")).asScala).getOrElse(Seq.empty)
      def size(name: String) =
        lines.collectFirst { case line if line.startsWith(name) => line.filter(_.isDigit).toLong << 10 }
          .getOrElse(0L)
      // ZGC before JDK 24 maps each page of its heap up to three times, and each counts as resident.
      val again = if (isOn("UseZGC")) math.max(0L, size("RssShmem:") - committedBytes) else 0L
      ProcessStatus(size("VmRSS:") - again, size("RssAnon:") + size("RssShmem:") - again)
    }
  }
}
