package io.warmset.rdd

import scala.util.Random

import org.apache.spark.unsafe.Platform
import org.apache.spark.util.SizeEstimator
import org.scalatest.funsuite.AnyFunSuite

import ElementTesting._

/** Strings and small arrays of doubles that repeat take a code, and come back as they were. */
class RepeatedValuesSuite extends AnyFunSuite {
  private def bits(values: Array[Double]): Seq[Long] =
    values.toSeq.map(java.lang.Double.doubleToRawLongBits)

  /** Writes and reads them; what they take, and the coder. */
  private def written[A](elements: Seq[Named])(use: (Written, Seq[Named]) => A): A = {
    val all = write(elements)
    try {
      val read = all.read().map(_.asInstanceOf[Named])
      read.zip(elements).foreach { case (got, element) =>
        assert(got.id == element.id && got.name == element.name && bits(got.values) == bits(element.values))
      }
      assert(all.coder.tableBytes <= all.sink.position / 16)
      use(all, read)
    } finally all.close()
  }

  private def bytesEach(elements: Seq[Named]): Double =
    written(elements)((all, _) => all.sink.position.toDouble / elements.length)

  private def size(coder: ElementCoder): Long =
    SizeEstimator.estimate(Array[AnyRef](coder.strings, coder.doubles))

  test("what repeats is written once, and read as one object") {
    val elements = IndexedSeq.tabulate(40000) { i =>
      Named(i, s"sensor-${i % 900}", Array.tabulate(10)(c => (i + c * 17) % 700 / 7.0))
    }
    written(elements) { (all, read) =>
      val plain = 18 + 10 + 80
      assert(all.sink.position < 0.55 * elements.length * plain)
      val (one, other) = (read(35100), read(36000))
      assert(one.name == other.name && (one.name eq other.name))
      assert(one.values ne other.values, "whoever has an array may change it")
      assert(one.name.length == 8 || one.name.length == 10)
    }
  }

  test("what does not repeat leaves no table") {
    val random = new Random(1)
    val elements = IndexedSeq.tabulate(40000)(i => Named(i, s"$i of many", Array.fill(3)(random.nextGaussian())))
    written(elements) { (all, _) =>
      assert(all.coder.tableBytes < 2000, "hashes may be the same now and then")
      all.coder.written()
      assert(size(all.coder) < 5000)
    }
  }

  test("what begins to repeat late is found") {
    val random = new Random(2)
    val strange = IndexedSeq.tabulate(30000)(i => Named(i, random.nextString(9), Array.fill(4)(random.nextDouble())))
    val alike = IndexedSeq.tabulate(30000)(i => Named(i, s"name ${i % 50}", Array.fill(4)(i % 50 / 3.0)))
    val late = bytesEach(strange ++ alike) * 60000 - bytesEach(strange) * 30000
    assert(late < 1.2 * bytesEach(alike) * 30000)
  }

  test("more than the tables hold") {
    val random = new Random(3)
    val names = IndexedSeq.tabulate(100000)(i => Named(i, s"${10000 + i % 9000}", Array.fill(20)(random.nextDouble())))
    written(names)((all, _) => assert(all.coder.tableBytes == 8192 * (56 + 2 * 5)))
    val levels = IndexedSeq.tabulate(120000)(i => Named(i, "n", Array(i % 5000 / 7.0)))
    written(levels)((all, _) => assert(all.coder.tableBytes == 4096 * 8 + 56 + 2))
  }

  test("names that come in turn, as many as share the places of their hashes") {
    val random = new Random(4)
    def each(names: Int) = bytesEach(IndexedSeq.tabulate(300000) { i =>
      Named(i, s"a name, number ${10000 + i % names}", Array.fill(8)(random.nextDouble()))
    })
    // Twenty bytes of a name are left out for nearly all.
    assert(each(5000) < each(1) + 5)
  }

  test("one field repeats and the other does not, whichever comes first") {
    // It has given up looking at each when they begin to repeat.
    val elements = IndexedSeq.tabulate(60000) { i =>
      (if (i < 20000) s"at first $i" else s"sensor ${i % 200}", s"$i of many")
    }
    for (some <- Seq(elements, elements.map(_.swap))) {
      val all = write(some)
      assert(all.coder.tableBytes >= 190 * (56 + 2 * 8))
      assert(all.read() == some)
      all.close()
    }
  }

  test("the budget is for all coders, and what is given back can be taken again") {
    val budget = new TableBudget(20 * (56 + 2 * 7))
    val elements = IndexedSeq.tabulate(10000)(i => s"name ${10 + i % 30}")
    def taken(): Long = {
      val all = write(elements, new ElementCoder(fallbacks(), budget))
      assert(all.read() == elements)
      all.close()
      all.coder.tableBytes
    }
    val first = taken()
    assert(first == 20 * (56 + 2 * 7) && budget.heldBytes == first)
    assert(taken() == 0)
    budget.giveBack(first)
    assert(taken() == first)
  }

  test("an element that is refused when half of it is written") {
    val coder = newCoder()
    val sink = new ByteSink(1)
    val expected = (0 until 20000).filter { i =>
      val right = if (i % 10 == 9) new Thread else s"${i % 9}"
      coder.write(Pair(s"${i % 30}", right), sink) || { assert(i % 10 == 9); false }
    }
    assert(expected.length == 18000)
    val source = new ByteSource(sink.address, sink.position)
    for (i <- expected) assert(coder.read(source) == Pair(s"${i % 30}", s"${i % 9}"))
    assert(source.remaining == 0 && coder.tableBytes > 0)
    sink.close()
  }

  test("arrays that are used again") {
    val elements = IndexedSeq.tabulate(5000)(i => Array.fill(5 + i / 2500)(i % 20 / 3.0))
    val all = write(elements)
    val (source, spares) = (all.source, new SpareArrays)
    source.reuse(spares)
    val read = elements.map { element =>
      spares.startAgain()
      val got = all.coder.read(source).asInstanceOf[Array[Double]]
      assert(bits(got) == bits(element))
      got
    }
    assert(read(4000) eq read(4001))
    assert(all.sink.position < 46 * 1600 + 18 * 3400)
    all.close()
  }

  test("special values, lengths and strings of every kind") {
    val specials = DoubleArraysSuite.Specials.toArray
    val names = Array("", "a", "\u00e9", "\u0416\u20ac\ud83d\ude00", "\ud83d", "x" * 64, "x" * 65, "\u0416" * 64, null)
    val elements = IndexedSeq.tabulate(20000) { i =>
      val values = if (i % 13 == 0) null else Array.tabulate(i % 257)(c => specials((i + c) % specials.length))
      Named(i, names(i % names.length), values)
    }
    val all = write(elements)
    all.read().map(_.asInstanceOf[Named]).zip(elements).foreach { case (got, element) =>
      assert(got.name == element.name)
      if (element.values == null) assert(got.values == null)
      else assert(bits(got.values) == bits(element.values))
    }
    assert(all.sink.position < elements.map(e => if (e.values == null) 40L else 40L + 3 * e.values.length).sum)
    all.close()
  }

  test("strings and arrays on their own, in tuples, arrays and lists") {
    check(IndexedSeq.tabulate(12000)(i => s"${i % 20}"))
    check(IndexedSeq.tabulate(4000)(i => Array.fill(5)(i % 20 / 3.0)))
    check(IndexedSeq.tabulate(4000) { i =>
      (s"${i % 20}", Array.fill(5)(i % 20 / 3.0), List(s"${i % 7}"), Array(s"${i % 3}", null))
    })
    val arrays = IndexedSeq.tabulate(20000)(i => Array.fill(5)(i % 20 / 3.0))
    val own = write(arrays ++ IndexedSeq.tabulate(20000)(i => s"number ${i % 20}"))
    assert(own.sink.position < 20000 * (16 + 6) + 60000)
    own.close()
  }

  test("one string twice in an element is no reason to write it otherwise") {
    val elements = IndexedSeq.tabulate(20000) { i => val s = s"${i % 5}"; (s, s) }
    val all = write(elements)
    assert(elements.indices.forall(all.id(_) >= ElementCoder.ID_FIRST))
    assert(all.read() == elements && all.coder.tableBytes > 0)
    all.close()
  }

  test("a coder that goes on after it was done knows what it knew") {
    val sink = new ByteSink(1)
    val coder = newCoder()
    def add(from: Int): Seq[Named] = {
      val elements = IndexedSeq.tabulate(5000)(i => Named(from + i, s"name ${i % 40}", Array(i % 40 / 7.0)))
      elements.foreach(element => assert(coder.write(element, sink)))
      coder.written()
      elements
    }
    val first = add(0)
    val bytes = sink.position
    val known = coder.tableBytes
    val all = first ++ add(5000)
    assert(coder.tableBytes == known && sink.position - bytes < bytes)
    assert(size(coder) < known + 1000, "nothing is kept that only writing needs")
    val source = new ByteSource(sink.address, sink.position)
    all.foreach { element =>
      val got = coder.read(source).asInstanceOf[Named]
      assert(got.name == element.name && bits(got.values) == bits(element.values))
    }
    sink.close()
  }

  test("some read while one writes") {
    val elements = IndexedSeq.tabulate(60000)(i => Named(i, s"name ${i % 3000}", Array.fill(3)(i % 3000 / 7.0)))
    val coder = newCoder()
    val sink = new ByteSink(16 << 20)
    val ends = new java.util.concurrent.ConcurrentLinkedQueue[Long]
    @volatile var failure: Option[Throwable] = None
    @volatile var done = false
    val reader = new Thread(() => try {
      var at = 0L
      var i = 0
      while (!done || !ends.isEmpty) Option(ends.poll()).filter(_ > 0).foreach { end =>
        val source = new ByteSource(sink.address + at, end - at)
        while (source.remaining > 0) {
          val got = coder.read(source).asInstanceOf[Named]
          assert(got.name == elements(i).name && bits(got.values) == bits(elements(i).values))
          i += 1
        }
        at = end
      }
      assert(i == elements.length)
    } catch { case e: Throwable => failure = Some(e) })
    reader.start()
    try elements.grouped(100).foreach { some =>
      some.foreach(element => assert(coder.write(element, sink)))
      ends.add(sink.position)
    } finally done = true
    reader.join()
    failure.foreach(throw _)
    sink.close()
  }

  test("every byte damaged: an exception, or an element whose name and values can be used") {
    val all = write(IndexedSeq.tabulate(3000)(i => Named(i, s"name ${i % 20}", Array.fill(5)(i % 20 / 3.0))))
    try {
      val from = all.ends(2998)
      val length = (all.ends.last - from).toInt
      assert(length < 40)
      val block = Platform.allocateMemory(length)
      var damaged = 0
      try {
        for (at <- 0 until length; change <- 1 to 255) {
          Platform.copyMemory(null, all.sink.address + from, null, block, length)
          Platform.putByte(null, block + at, (Platform.getByte(null, block + at) ^ change).toByte)
          try all.coder.read(new ByteSource(block, length)) match {
            case named: Named => assert(s"${named.name}${Option(named.values).map(_.sum)}".nonEmpty)
            case _ =>
          } catch {
            case e: IllegalStateException =>
              damaged += 1
              assert(e.getMessage.contains("damaged"))
          }
        }
      } finally Platform.freeMemory(block)
      assert(damaged > 1000)
    } finally all.close()
  }
}
