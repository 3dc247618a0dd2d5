package io.warmset.rdd

import org.apache.spark.util.SizeEstimator
import org.scalatest.funsuite.AnyFunSuite

/** The table of what an element led to: right at any size, and gone when it is not needed. */
class SharedReferencesSuite extends AnyFunSuite {
  private def meet(references: SharedReferences, count: Int): Unit = {
    val objects = Array.fill(count)(new Object)
    assert(objects.forall(references.add))
    assert(!objects.exists(references.add), "each has been met")
    references.clear()
    assert(objects.take(1).forall(references.add), "the next element begins")
    references.clear()
  }

  test("objects are told from each other, few and many") {
    val references = new SharedReferences
    Seq(1, 16, 17, 40, 1000, 100000, 20, 3).foreach(meet(references, _))
  }

  test("one large element leaves no table behind that each small one would clear") {
    val references = new SharedReferences
    meet(references, 20000)
    assert(SizeEstimator.estimate(references) > 100000, "the next may be as large")
    meet(references, 20)
    assert(SizeEstimator.estimate(references) < 10000)
  }

  test("what is written keeps no table") {
    val references = new SharedReferences
    meet(references, 20000)
    references.release()
    assert(SizeEstimator.estimate(references) < 1000)
    val coder = ElementTesting.newCoder(null)
    def written(elements: Int): Long = {
      val sink = new ByteSink(1 << 20)
      try {
        val element = Array.tabulate[AnyRef](elements)(i => Array[Int](i))
        assert(coder.write(element, sink))
        coder.written()
      } finally sink.close()
      SizeEstimator.estimate(coder)
    }
    assert(written(20000) <= written(2) + 100)
  }
}
