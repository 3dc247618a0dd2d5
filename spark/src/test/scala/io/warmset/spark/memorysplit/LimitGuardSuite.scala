package io.warmset.spark.memorysplit

import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.util.Random

import org.scalatest.BeforeAndAfterAll
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

import io.warmset.region.{NativeLibrary, NativeStore, Store}
import io.warmset.spark.{StoreRoom, WarmsetConf}

/** A pool of a fixed size in a container: it yields before the kernel kills, and has its memory again afterwards. */
class LimitGuardSuite extends AnyFunSuite with BeforeAndAfterAll with Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(20, Seconds), Span(20, Millis))

  private val MiB = 1L << 20
  private val directory = Files.createTempDirectory("warmset-guard").toFile

  override def beforeAll(): Unit = {
    super.beforeAll()
    NativeLibrary.load(directory)
  }

  private def guarded(budget: Long, held: Long, room: Long): Long =
    MemorySplitRule.guardedPoolBytes(512 * MiB, budget, held, room)

  test("the pool falls at once to what it may have, and to no less than the least there is") {
    assert(guarded(512 * MiB, held = 300 * MiB, room = 300 * MiB) == 512 * MiB)
    assert(guarded(512 * MiB, held = 500 * MiB, room = 4 * MiB) == 504 * MiB)
    assert(guarded(512 * MiB, held = 500 * MiB, room = -41 * MiB) == 458 * MiB, "whole frames")
    assert(guarded(512 * MiB, held = 100 * MiB, room = -400 * MiB) == WarmsetConf.MemoryBytesMin)
    // One that is no whole number of frames is left as it is.
    assert(MemorySplitRule.guardedPoolBytes(63 * MiB, 63 * MiB, MiB, 900 * MiB) == 63 * MiB)
  }

  test("it rises little by little, to what it was set to") {
    val looks = Iterator.iterate(100 * MiB)(guarded(_, held = 100 * MiB, room = 900 * MiB)).take(2000).toSeq
    assert(looks.zip(looks.tail).forall { case (before, now) => now >= before && now - before <= 412 * MiB / 80 })
    assert(looks(10) < 160 * MiB && looks.last == 512 * MiB)
    assert(guarded(100 * MiB, held = 100 * MiB, room = MiB) == 100 * MiB, "not past what there is")
  }

  test("looks come ten times a second where little is left, and once where there is much") {
    def until(room: Long, cpus: Int = 1): Long =
      TimeUnit.NANOSECONDS.toMillis(MemorySplitRule.untilNextLookNs(room, 48 * MiB, cpus))
    assert(until(-100 * MiB) == 0 && until(100 * MiB) == 100 && until(480 * MiB) == 500)
    assert(until(2048 * MiB) == 1000 && until(Long.MaxValue) == 1000)
    assert(until(2048 * MiB, cpus = 32) == 100, "many processors take memory faster")
  }

  test("whatever is read, the budget is between the least and what was set, and never more than fits") {
    val random = new Random(20)
    for (_ <- 1 to 10000) {
      def bytes(most: Long) = random.nextLong(most)
      val (pool, held, room) = (16 * MiB + bytes(1L << 40), bytes(1L << 40), bytes(1L << 41) - (1L << 40))
      val budget = math.min(pool, 16 * MiB + bytes(1L << 40))
      val now = MemorySplitRule.guardedPoolBytes(pool, budget, held, room)
      assert(now >= WarmsetConf.MemoryBytesMin && now <= pool)
      assert(now <= math.max(WarmsetConf.MemoryBytesMin, held + room))
      assert(now <= budget + math.max(StoreRoom.FrameBytes, (pool - budget) / 80))
    }
  }

  /** A container of 1 GiB, of which the test says what is left. */
  private final class Container extends LimitGuard.Process {
    @volatile var limit: Long = 1024 * MiB
    @volatile var left: Long = 512 * MiB
    @volatile var direct = 0L
    @volatile var freedAtCollection = 0L
    @volatile var tookNs = 0L
    @volatile var why = Option.empty[String]
    override def cpus: Int = 2
    override def limitBytes: Long = limit
    override def leftBytes(limitBytes: Long): Long = left
    override def directBytes: Long = direct
    @volatile var givenBack = 0
    override def giveBack(): Unit = givenBack += 1
    override def whyNoCollection: Option[String] = why
    override def collect(): Long = {
      direct -= freedAtCollection
      tookNs
    }
    override def onCollection(look: () => Unit): Unit = ()
    override def stop(): Unit = ()
  }

  private def withGuard(body: (LimitGuard, Container, Store) => Unit): Unit = {
    val store = Store.open(s"""{"dir":"${directory.getPath}","budget_bytes":${64 * MiB}}""")
    val container = new Container
    val guard = new LimitGuard(store, 64 * MiB, container)
    try body(guard, container, store)
    finally {
      guard.stop()
      store.close()
    }
  }

  private def seconds(n: Long): Long = TimeUnit.SECONDS.toNanos(n)

  test("a look sets the store's budget to what the container leaves, and back") {
    withGuard { (guard, container, store) =>
      guard.look(0)
      assert(guard.poolBudgetBytes == 64 * MiB)
      // The pool has 32 MiB from the start, faulted in ahead of demand.
      eventually(assert(store.poolBytes() == 32 * MiB))
      // The budget is the pool's 63 MiB and a sixty-fourth for the window.
      container.left = 32 * MiB + 8 * MiB
      guard.look(0)
      assert(guard.poolBudgetBytes == 40 * MiB)
      container.left = 32 * MiB - 6 * MiB
      assert(guard.look(0) == 0, "the next look is the timer's next one")
      assert(guard.poolBudgetBytes == 26 * MiB)
      eventually(assert(store.poolBytes() <= 26 * MiB, "the pages go back to the kernel"))
      assert(guard.collectionsAsked == 0, "no direct buffers, no collection")
      container.left = 512 * MiB
      (1 to 19).foreach(guard.look(_))
      assert(guard.poolBudgetBytes == 64 * MiB)
      assert(guard.look(20) > 0)
    }
  }

  private def asks(guard: LimitGuard, atS: Long): Int = {
    guard.look(seconds(atS))
    eventually(assert(!guard.isCollecting))
    guard.collectionsAsked
  }

  test("where direct buffers are what is missing a collection is asked for, the seldomer the less it frees") {
    withGuard { (guard, container, store) =>
      eventually(assert(store.poolBytes() > 0))
      container.direct = 400 * MiB
      assert(asks(guard, 1) == 0, "nothing is missing")
      container.left = 0
      assert(asks(guard, 2) == 1)
      // It freed nothing. Nor does the second one: the next is after 20 s, then after 40.
      assert(asks(guard, 11) == 1 && asks(guard, 12) == 2)
      assert(asks(guard, 31) == 2 && asks(guard, 32) == 3)
      assert(asks(guard, 71) == 3)
      // Another 40 MiB may be garbage again.
      container.direct = 440 * MiB
      container.freedAtCollection = 220 * MiB
      assert(asks(guard, 71) == 4 && container.direct == 220 * MiB)
      assert(asks(guard, 81) == 5 && container.direct == 0)
      assert(asks(guard, 100) == 5, "there are none left")
    }
  }

  test("collections that take long are asked for seldom, and none where they are switched off") {
    withGuard { (guard, container, store) =>
      eventually(assert(store.poolBytes() > 0))
      container.direct = 400 * MiB
      container.left = 0
      container.why = Some("leave -XX:+DisableExplicitGC out")
      assert(asks(guard, 1) == 0)
      container.why = None
      container.tookNs = seconds(5)
      container.freedAtCollection = 200 * MiB
      assert(asks(guard, 2) == 1)
      container.direct = 400 * MiB
      assert(asks(guard, 106) == 1 && asks(guard, 107) == 2)
    }
  }

  test("no collection is asked for where much is left, though the pool could not have all of its budget") {
    withGuard { (guard, container, store) =>
      eventually(assert(store.poolBytes() == 32 * MiB))
      container.direct = 400 * MiB
      container.limit = 256 * MiB
      // The margin is 8 MiB, and the pool has taken 32.
      container.left = 28 * MiB
      assert(asks(guard, 1) == 0 && guard.poolBudgetBytes == 52 * MiB)
      assert(container.givenBack == 0)
      container.left = 15 * MiB
      assert(asks(guard, 2) == 1 && container.givenBack == 1)
    }
  }

  test("this process: nothing yields where there is room, and what is read fits together") {
    val store = Store.open(s"""{"dir":"${directory.getPath}","budget_bytes":${64 * MiB}}""")
    val guard = new LimitGuard(store, 64 * MiB, new LimitGuard.ThisProcess(() => fail("nothing is missing")))
    try {
      val limit = NativeStore.memoryLimit()
      assume(limit - NativeStore.memoryBeside(0) > limit / 16 + 64 * MiB, "the container of this test is full")
      guard.look(System.nanoTime)
      assert(guard.poolBudgetBytes == 64 * MiB)
      guard.start()
    } finally {
      guard.stop()
      store.close()
    }
    assert(guard.poolBudgetBytes == 64 * MiB)
  }
}
