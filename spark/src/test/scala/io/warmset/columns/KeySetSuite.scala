package io.warmset.columns

import scala.util.Random

import org.scalatest.funsuite.AnyFunSuite

/** Every key is found; other numbers are told apart, always where the set is exact. */
class KeySetSuite extends AnyFunSuite {
  private val random = new Random(7)

  private def check(keys: Array[Long], exact: Boolean): Unit = {
    val set = new KeySet(keys ++ Array(3L), keys.length)
    val all = keys.toSet
    assert(set.isExact == exact && !set.isEmpty && set.min == keys.min && set.max == keys.max)
    keys.foreach(k => assert(set.mayContain(k), k))
    val others = (Seq.fill(20000)(random.nextLong()) ++
      Seq.fill(20000)(set.min + math.floorMod(random.nextLong(), math.max(1L, set.max - set.min))) ++
      keys.take(2000).flatMap(k => Seq(k - 1, k + 1)) ++ Seq(0L, Long.MinValue, Long.MaxValue)).filterNot(all)
    val wrong = others.count(set.mayContain)
    assert(wrong <= (if (exact) 0 else others.length / 20), s"$wrong of ${others.length}")
  }

  test("none") {
    val set = new KeySet(Array(5L), 0)
    assert(set.isEmpty && !set.mayContain(0) && !set.mayContain(5) && !set.mayContain(Long.MaxValue))
  }

  test("one, few and many, close together and far apart") {
    check(Array(0L), exact = true)
    check(Array(Long.MaxValue), exact = true)
    check(Array(Long.MinValue, Long.MaxValue), exact = false)
    check(Array(-5L, 7L, 7L, 60000L), exact = true)
    check(Array.tabulate(100000)(i => i * 3L - 1000), exact = true)
    check(Array.fill(100000)(random.nextLong()), exact = false)
    check(Array.tabulate(5000)(i => i * 1000003L), exact = false)
    for (n <- Seq(1, 2, 3, 31, 32, 33, 1000)) check(Array.fill(n)(random.nextInt(1 << 16) - 5L), exact = true)
  }

  test("a sketch counts, whatever the parts") {
    for (n <- Seq(1, 10, 500, 3000, 100000)) {
      val whole = new DistinctSketch
      val parts = Seq.fill(3)(new DistinctSketch)
      (0 until n).foreach { i =>
        whole.add(i * 7L)
        parts(i % 3).add(i * 7L)
        parts(0).add(i * 7L)
      }
      val merged = new DistinctSketch
      parts.foreach(p => DistinctSketch.merge(merged.registers, p.registers))
      assert(merged.registers.toSeq == whole.registers.toSeq)
      assert(math.abs(whole.estimate / n - 1) < 0.12, n)
      whole.clear()
      assert(whole.estimate == 0)
    }
  }
}
