package io.warmset.spark

import java.util.concurrent.{CountDownLatch, TimeUnit}

import scala.collection.mutable.ArrayBuffer

import org.scalatest.funsuite.AnyFunSuite

/** What an executor makes of the driver's answers, and of none. */
class LineageSuite extends AnyFunSuite {
  private val MinuteNs = TimeUnit.MINUTES.toNanos(1)

  /** A lineage whose driver gives `answer`, at a time that stands still; what it was asked. */
  private class Asked(answer: Set[Int] => AnyRef, patienceMs: Long = 30000) {
    val rdds = new ArrayBuffer[Set[Int]]
    var nowNs = Long.MaxValue - MinuteNs / 2 // overflows in mid-test, as System.nanoTime may
    val lineage = new Lineage({ case RecomputableAmong(ids) =>
      rdds.synchronized(rdds += ids.toSet)
      answer(ids.toSet)
    }, patienceMs, () => nowNs)
  }

  test("a yes is for once, and only for what was asked; a no holds for a minute") {
    val driver = new Asked(_ => Array(1, 2, 9))
    assert(driver.lineage.recomputable(Set(1, 3)) == Set(1))
    assert(driver.lineage.recomputable(Set(1, 2, 3)) == Set(1, 2))
    assert(driver.lineage.recomputable(Set(3)).isEmpty)
    assert(driver.rdds == Seq(Set(1, 3), Set(1, 2)))
    driver.nowNs += MinuteNs
    assert(driver.lineage.recomputable(Set(2, 3)) == Set(2))
    assert(driver.rdds.last == Set(2, 3))
  }

  test("a driver without an answer is asked again a minute later") {
    for (answer <- Seq[() => AnyRef](() => throw new IllegalStateException("gone"), () => null)) {
      @volatile var works = false
      val driver = new Asked(asked => if (works) asked.toArray else answer())
      assert(driver.lineage.recomputable(Set(1)).isEmpty)
      works = true
      driver.nowNs += MinuteNs - 1
      assert(Seq(1, 2).forall(rdd => driver.lineage.recomputable(Set(rdd)).isEmpty))
      assert(driver.rdds.length == 1)
      driver.nowNs += 1
      assert(driver.lineage.recomputable(Set(1)) == Set(1))
    }
  }

  test("one that is too slow is not waited for, nor is its answer taken later") {
    val goOn = new CountDownLatch(1)
    val driver = new Asked(_ => { goOn.await(); Array(1) }, patienceMs = 500)
    assert(driver.lineage.recomputable(Set(1)).isEmpty)
    goOn.countDown()
    assert(driver.lineage.recomputable(Set(1)).isEmpty && driver.rdds.length == 1)
  }

  test("how large an RDD will be is not waited for long, nor by a task that is interrupted") {
    val goOn = new CountDownLatch(1)
    assert(new RddSpread({ case SpreadOf(3) => Array(10, 4) }).blocksHere(3).contains(2.5))
    assert(new RddSpread(_ => null).blocksHere(3).isEmpty)
    assert(new RddSpread(_ => throw new IllegalStateException("gone")).blocksHere(3).isEmpty)
    val slow = new RddSpread(_ => { goOn.await(); Array(10, 4) }, patienceMs = 200)
    assert(slow.blocksHere(3).isEmpty)
    @volatile var asking: Thread = null
    val counted = new CountDownLatch(1)
    val asked = new RddSpread(_ => { asking = Thread.currentThread; goOn.await(); counted.countDown(); null })
    Thread.currentThread.interrupt()
    assert(asked.blocksHere(3).isEmpty)
    assert(Thread.interrupted(), "the task stays interrupted")
    goOn.countDown()
    assert(counted.await(30, TimeUnit.SECONDS) && asking != Thread.currentThread, "the question goes on")
  }

  test("a task that is interrupted meanwhile does not go on waiting") {
    val goOn = new CountDownLatch(1)
    val driver = new Asked(_ => { goOn.await(); Array(1) })
    Thread.currentThread.interrupt()
    try intercept[InterruptedException](driver.lineage.recomputable(Set(1)))
    finally goOn.countDown()
  }

  test("a block may be the last of its data unless the driver says that it is not") {
    def says(answer: => AnyRef) = new Lineage({ case OfLocalCheckpoint(3) => answer }, patienceMs = 500).mayBeLast(3)
    assert(!says(Boolean.box(false)) && says(Boolean.box(true)) && says(null))
    assert(says(throw new IllegalStateException("gone")))
    val goOn = new CountDownLatch(1)
    assert(says { goOn.await(); Boolean.box(false) })
    goOn.countDown()
  }

  test("nothing is asked where there is nothing to ask about") {
    val driver = new Asked(_ => Array.empty[Int])
    assert(driver.lineage.recomputable(Set.empty).isEmpty && driver.rdds.isEmpty)
  }
}
