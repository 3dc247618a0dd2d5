package io.warmset.spark.memorysplit

import java.lang.management.{ManagementFactory, MemoryUsage}
import java.nio.ByteBuffer
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import com.sun.management.HotSpotDiagnosticMXBean
import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import io.warmset.region.{NativeLibrary, NativeStore, Store}
import io.warmset.spark.{MemoryRule, WarmsetConf}

/** One budget for heap and pool: which settings work, and what this JVM does when it is told. */
class MemorySplitSuite extends AnyFunSuite with BeforeAndAfterAll with Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(20, Seconds), Span(50, Millis))

  private val MiB = 1L << 20
  private val GiB = 1L << 30
  private val machine = MemoryRule.Machine(64 * GiB, 16, 8 * GiB, 0, None)
  private val heap = MemorySplitRule.Heap(8 * MiB, 8 * GiB)
  private val directory = Files.createTempDirectory("warmset-split").toFile

  override def beforeAll(): Unit = {
    super.beforeAll()
    NativeLibrary.load(directory)
  }

  private def plan(
      total: Long,
      heap: MemorySplitRule.Heap = heap,
      machine: MemoryRule.Machine = machine,
      settings: Map[String, String] = Map.empty): MemorySplitRule.Plan =
    MemorySplitRule.plan(WarmsetConf.read(settings.get), total, heap, machine)

  private def refusal(body: => Any): String = intercept[IllegalArgumentException](body).getMessage

  test("the heap starts with two fifths, within its own limits") {
    assert(plan(10 * GiB).poolStartBytes == 6 * GiB)
    assert(plan(30 * GiB).poolStartBytes == 22 * GiB)
    assert(plan(10 * GiB, heap.copy(minBytes = 7 * GiB)).poolStartBytes == 3 * GiB)
    assert(plan(10 * GiB, settings = Map("spark.warmset.memory" -> "1g")).poolStartBytes == GiB)
    assert(plan(10 * GiB).fixed.isEmpty && plan(10 * GiB).reserveBytes == 512 * MiB)
  }

  test("a total that cannot work is refused with what would") {
    val small = refusal(plan(100 * MiB, heap.copy(minBytes = 90 * MiB)))
    assert(small.startsWith("spark.warmset.totalMemory is ") && small.contains("-Xms"), small)
    assert(small.contains("at least 106m"), small)
    val large = refusal(plan(64 * GiB))
    assert(large.startsWith("spark.warmset.totalMemory is "), large)
    assert(large.contains(s"at most ${64 * 1024 - 512}m"), large)
    assert(refusal(plan(20 * GiB, machine = machine.copy(sparkOffHeapBytes = 50 * GiB)))
      .contains(s"at most ${14 * 1024 - 512}m"))
    val pool = refusal(plan(2 * GiB, settings = Map("spark.warmset.memory" -> "2g")))
    assert(pool.startsWith("spark.warmset.memory is ") && pool.contains("totalMemory"), pool)
  }

  test("a heap that cannot shrink makes the split fixed, or is refused where it leaves no pool") {
    val stiff = heap.copy(minBytes = heap.maxBytes)
    val fixed = plan(10 * GiB, stiff)
    assert(fixed.poolStartBytes == 2 * GiB && fixed.fixed.exists(_.contains("-Xms")))
    val none = refusal(plan(8 * GiB, stiff))
    assert(none.contains("-Xmx") && none.contains("-Xms is equal"), none)
    val huge = plan(10 * GiB, settings = Map("spark.warmset.hugePages" -> "hugetlb"))
    assert(huge.poolStartBytes == 2 * GiB && huge.fixed.exists(_.contains("hugetlb")))
    assert(plan(10 * GiB, heap.copy(stiff = Some("why"))).fixed.contains("why"))
  }

  test("the total shrinks where the rest of the process outgrows its reserve") {
    val p = plan(10 * GiB)
    assert(MemorySplitRule.totalNow(p, 16 * GiB, 200 * MiB) == 10 * GiB)
    assert(MemorySplitRule.totalNow(p, 11 * GiB, 3 * GiB) == 8 * GiB - 128 * MiB)
    assert(MemorySplitRule.totalNow(p, 5 * GiB, 0) == 5 * GiB - 512 * MiB)
    assert(MemorySplitRule.totalNow(p, 1 * GiB, 3 * GiB) == 0)
    // What is accepted at start is what there is, with what a JVM usually has outside.
    for (limit <- Seq(2 * GiB, 64 * GiB)) {
      val most = plan(limit - 512 * MiB, machine = machine.copy(totalBytes = limit))
      assert(MemorySplitRule.totalNow(most, limit, 380 * MiB) == limit - 512 * MiB)
    }
    val fixed = plan(10 * GiB, heap.copy(stiff = Some("why")))
    assert(MemorySplitRule.fixedPoolBytes(fixed, 10 * GiB) == 2 * GiB)
    assert(MemorySplitRule.fixedPoolBytes(fixed, 9 * GiB + MiB) == GiB)
    assert(MemorySplitRule.fixedPoolBytes(fixed, 0) == WarmsetConf.MemoryBytesMin)
  }

  test("the free part that makes a heap so large, never less than a fifth") {
    assert(MemorySplitRule.freePercent(250, 1000) == 75)
    assert(MemorySplitRule.freePercent(950, 1000) == 20)
    assert(MemorySplitRule.freePercent(5000, 1000) == 20 && MemorySplitRule.freePercent(5, 0) == 20)
    assert(MemorySplitRule.freePercent(0, 1000) == 100)
  }

  private def flag(name: String): String =
    ManagementFactory.getPlatformMXBean(classOf[HotSpotDiagnosticMXBean]).getVMOption(name).getValue

  @volatile private var garbage: Array[Array[Byte]] = _

  private def fillHeap(bytes: Long): Unit = {
    garbage = Array.fill((bytes / MiB).toInt)(new Array[Byte](MiB.toInt - 64))
    garbage = null
  }

  test("this JVM's heap gives memory back when it is told and asked, and its flags come back") {
    val names = Seq("MinHeapFreeRatio", "MaxHeapFreeRatio", "SoftMaxHeapSize", "G1PeriodicGCInterval")
    val before = names.map(flag)
    val control = new MemorySplitHeap
    try {
      fillHeap(700 * MiB)
      val grown = control.committedBytes
      assert(grown >= 600 * MiB, "the heap did not grow")
      val spent = control.collectionNs
      val to = control.liveBytes.min(grown / 2).max(400 * MiB)
      assert(control.collectTo(to) > 0 && control.collectionNs > spent)
      assert(control.committedBytes < grown && control.committedBytes <= to + 64 * MiB,
        s"from $grown to ${control.committedBytes}, asked for $to")
      assert(control.liveBytes <= control.committedBytes && control.usedBytes <= control.committedBytes)
      assert(names.map(flag) != before)
    } finally control.restore()
    assert(names.map(flag) == before)
  }

  test("a collection that is asked for happens though native code has arrays in its hands") {
    val full = ManagementFactory.getGarbageCollectorMXBeans.asScala.filter(_.getName == "G1 Old Generation")
    assume(full.nonEmpty, "this JVM has another collector than G1")
    val control = new MemorySplitHeap
    @volatile var over = false
    val thread = new Thread(() => {
      val input = new Array[Byte](8 << 20)
      new java.util.SplittableRandom(1).nextBytes(input)
      val output = new Array[Byte](64 << 10)
      val deflater = new java.util.zip.Deflater(9)
      while (!over) {
        deflater.reset()
        deflater.setInput(input)
        deflater.finish()
        // Some milliseconds each time, as a BLAS takes for a block.
        while (!over && !deflater.finished) {
          deflater.deflate(output)
          Thread.sleep(1)
        }
      }
      deflater.end()
    })
    thread.start()
    try {
      val happened = (1 to 12).count { _ =>
        val before = full.map(_.getCollectionCount).sum
        control.collectTo(control.committedBytes)
        full.map(_.getCollectionCount).sum > before
      }
      // Asked once each time, one in three did. On a busy machine the thread may be inside for longer than we ask.
      assert(happened >= 9)
    } finally {
      over = true
      thread.join()
      control.restore()
    }
  }

  test("what is in use is what the last collection left that says so") {
    def pool(used: Long, committed: Long) = new MemoryUsage(0, used, committed, -1)
    val old = (1000L, Seq(pool(7, 10), pool(0, 0)))
    assert(MemorySplitRule.usedAfterLast(Nil).isEmpty)
    assert(MemorySplitRule.usedAfterLast(Seq(old, (2000L, Seq(pool(3, 10), pool(2, 4))))).contains(5))
    // As ZGC and Shenandoah tell of their pauses.
    assert(MemorySplitRule.usedAfterLast(Seq(old, (3000L, Seq(pool(0, 0), pool(0, 0))))).contains(7))
    assert(MemorySplitRule.usedAfterLast(Seq((3000L, Seq(pool(0, 0))))).isEmpty)
  }

  test("what comes outside counts at once, what goes counts little by little") {
    assert(MemorySplitRule.settledBytes(300 * MiB, 900 * MiB) == 900 * MiB)
    // Workers that come and go each second: nearly all of what they had stays theirs meanwhile.
    val seen = Iterator.iterate((300 * MiB, true)) { case (bytes, come) =>
      (MemorySplitRule.settledBytes(bytes, if (come) 900 * MiB else 300 * MiB), !come)
    }.map(_._1).slice(10, 60).toSeq
    assert(seen.max == 900 * MiB && seen.min >= 825 * MiB)
    val gone = Iterator.iterate(900 * MiB)(MemorySplitRule.settledBytes(_, 300 * MiB)).drop(40).next()
    assert(gone < 310 * MiB)
    assert(Iterator.iterate(gone)(MemorySplitRule.settledBytes(_, 300 * MiB)).drop(300).next() == 300 * MiB)
  }

  test("what lies outside heap and pool is counted, with what others hold") {
    val outside = MemorySplitHeap.outsideBytes(0, 0)
    var own = 0L
    val more = MemorySplitHeap.outsideBytes(0, 0, held => { own = held; 100 * GiB })
    assert(more >= 100 * GiB && more < 100 * GiB + 2 * outside)
    assert(own > 0 && own <= outside)
    assert(outside >= ManagementFactory.getMemoryMXBean.getNonHeapMemoryUsage.getCommitted)
    assert(MemorySplitHeap.limits.maxBytes > MemorySplitHeap.limits.minBytes)
  }

  private def openStore(budget: Long) = Store.open(
    s"""{"dir":"${directory.getPath}","budget_bytes":$budget,"budget_bytes_max":${8 * GiB}}""")

  test("the controller runs beside a store, reports, and leaves everything as it was") {
    val before = flag("MaxHeapFreeRatio")
    val limits = MemorySplitHeap.limits
    val total = limits.maxBytes + 256 * MiB
    val store = openStore(512 * MiB)
    try {
      val split = new MemorySplit(store, MemorySplitRule.Plan(total, 512 * MiB, limits, 0, None)).start()
      def number(key: String) =
        new ObjectMapper().readTree(split.annotate(store.stats())).path(key).asLong(-1)
      eventually(assert(number("heap_allowed_bytes") > 0))
      eventually(assert(number("budget_bytes") == split.poolBudgetBytes))
      fillHeap(900 * MiB)
      eventually {
        assert(number("budget_bytes") + number("heap_committed_bytes") <= number("total_budget_bytes"))
      }
      assert(number("total_budget_bytes") == total && number("outside_bytes") > 0)
      assert(number("heap_used_bytes") > 0 && number("split_moves_total") >= 0)
      split.stop()
      assert(flag("MaxHeapFreeRatio") == before)
      split.stop()
    } finally store.close()
  }

  test("a fixed split keeps its pool, and is reported") {
    val store = openStore(64 * MiB)
    try {
      val split = new MemorySplit(store,
        MemorySplitRule.Plan(320 * MiB, 64 * MiB, heap.copy(maxBytes = 256 * MiB), 0L, Some("a reason"))).start()
      def stats = new ObjectMapper().readTree(split.annotate(store.stats()))
      val before = stats
      assert(before.path("total_budget_bytes").asLong == 320 * MiB)
      assert(before.path("heap_allowed_bytes").asLong == 256 * MiB)
      assert(before.path("heap_committed_bytes").asLong > 0 && before.path("outside_bytes").asLong > 0)
      val held = ByteBuffer.allocateDirect(64 << 20)
      (0 until held.capacity by 4096).foreach(held.put(_, 1.toByte))
      eventually {
        val counted = ManagementFactory.getMemoryMXBean.getNonHeapMemoryUsage.getCommitted
        val outside = stats.path("outside_bytes").asLong
        assert(outside != before.path("outside_bytes").asLong, "it looks again")
        assert(outside >= counted + held.capacity, "and counts what came")
      }
      assert(held.get(0) == 1)
      assert(split.poolBudgetBytes == 64 * MiB && stats.path("budget_bytes").asLong == 64 * MiB)
      split.stop()
    } finally store.close()
  }

  test("the pool of a fixed split yields to what outgrows the reserve") {
    val store = openStore(64 * MiB)
    try {
      val limit = NativeStore.memoryLimit()
      // Nothing is kept for what this JVM has beside heap and pool.
      val all = MemorySplitRule.Heap(8 * MiB, limit - 64 * MiB)
      val split = new MemorySplit(store, MemorySplitRule.Plan(limit, 64 * MiB, all, 0L, Some("a reason"))).start()
      def stats = new ObjectMapper().readTree(split.annotate(store.stats()))
      val free = math.min(limit / 32, 128 * MiB)
      eventually {
        val now = stats
        assert(now.path("budget_bytes").asLong == WarmsetConf.MemoryBytesMin)
        assert(now.path("total_budget_bytes").asLong + now.path("outside_bytes").asLong + free == limit)
      }
      split.stop()
    } finally store.close()
  }

  test("wrong numbers at the JNI boundary are refused") {
    val store = openStore(64 * MiB)
    try {
      def refused(body: => Any) = assert(intercept[IllegalArgumentException](body).getMessage.nonEmpty)
      refused(NativeStore.splitOpen(null))
      refused(NativeStore.splitOpen(Array(1L, 2L)))
      refused(NativeStore.splitOpen(Array(1L, 2L, -3L, 4L)))
      val split = NativeStore.splitOpen(Array(8 * MiB, GiB, 16 * MiB, 64 * MiB))
      val heap = Array(1000L, GiB, 100 * MiB, 50 * MiB, 0L, 0L, 2L)
      refused(store.splitTick(split, heap, new Array[Long](5)))
      refused(store.splitTick(split, heap.take(3), new Array[Long](12)))
      refused(store.splitTick(split, heap.map(-_), new Array[Long](12)))
      refused(store.splitTick(split + 1000, heap, new Array[Long](12)))
      val out = new Array[Long](12)
      store.splitTick(split, heap, out)
      assert(out(0) >= 16 * MiB && out(1) > 0)
      NativeStore.splitClose(split)
      NativeStore.splitClose(split)
      refused(store.splitTick(split, heap, out))
    } finally store.close()
  }
}
