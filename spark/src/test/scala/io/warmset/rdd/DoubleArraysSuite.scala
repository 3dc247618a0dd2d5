package io.warmset.rdd

import scala.util.{Failure, Random, Success, Try}

import org.scalacheck.Gen
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.ml.linalg.DenseMatrix
import org.apache.spark.unsafe.Platform

import DoubleArraysSuite._
import ElementTesting._

/** Arrays of doubles take fewer bytes where they can, and come back with every bit. */
class DoubleArraysSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private def bits(values: Array[Double]): Seq[Long] =
    values.toSeq.map(java.lang.Double.doubleToRawLongBits)

  /** Without room for any. */
  private def repeated = new RepeatedDoubles(new TableBudget.Room(new TableBudget(0)))

  private def written(values: Array[Double]): Array[Byte] = {
    val sink = new ByteSink(1)
    try {
      DoubleArrays.write(values, 0, sink, repeated)
      copied(sink, 0)
    } finally sink.close()
  }

  private def copied(sink: ByteSink, from: Long): Array[Byte] = {
    val bytes = new Array[Byte]((sink.position - from).toInt)
    Platform.copyMemory(null, sink.address + from, bytes, Platform.BYTE_ARRAY_OFFSET, bytes.length)
    bytes
  }

  /** Reads from memory that ends where the bytes do. */
  private def read(bytes: Array[Byte], length: Int): Array[Double] = {
    val block = Platform.allocateMemory(bytes.length.max(1))
    try {
      Platform.copyMemory(bytes, Platform.BYTE_ARRAY_OFFSET, null, block, bytes.length)
      val source = new ByteSource(block, bytes.length)
      val values = DoubleArrays.read(length, source, repeated)
      assert(source.remaining == 0, "reading took other bytes than writing made")
      values
    } finally Platform.freeMemory(block)
  }

  /** Checks the round trip; returns the bytes that the array takes. */
  private def bytesOf(values: Array[Double]): Int = {
    val bytes = written(values)
    assert(bits(read(bytes, values.length)) == bits(values))
    bytes.length
  }

  private def plainBytes(n: Int): Int = 8 * n + (if (n < DoubleArrays.VALUES_MIN) 0 else 1)

  test("what each kind of values takes") {
    val expected = Map("random bits" -> 8.0, "gaussian" -> 7.2, "one sign" -> 7.1, "floats" -> 4.1, "prices" -> 3.1,
      "negative decimals" -> 3.1, "counts" -> 1.1, "large whole" -> 6.1, "levels" -> 1.2, "many levels" -> 2.9,
      "constant" -> 1.1, "specials" -> 1.1, "subnormals" -> 7.1)
    for ((name, value) <- kinds(new Random(1))) {
      val n = 20000
      val bytes = bytesOf(Array.fill(n)(value()))
      if (expected(name) == 8.0) assert(bytes == plainBytes(n), name)
      else assert(bytes <= expected(name) * n, s"$name: ${bytes.toDouble / n} bytes each")
    }
  }

  test("arrays that are used again have nothing of what was in them, and each of an element has its own") {
    val random = new Random(3)
    // One value in a hundred is of another kind, so that there are patches.
    val elements = kinds(random).map(_._2).zip(kinds(random).map(_._2).reverse).flatMap { case (most, few) =>
      def values(n: Int) = Array.fill(n)(if (random.nextInt(100) == 0) few() else most())
      Seq((values(3000), values(3000)), (values(3000), values(100)), (values(2000), values(0)))
    }
    val written = write(elements)
    try {
      val (source, spares) = (written.source, new SpareArrays)
      source.reuse(spares)
      var before: (Array[Double], Array[Double]) = null
      for ((first, second) <- elements) {
        spares.startAgain()
        val read = written.coder.read(source).asInstanceOf[(Array[Double], Array[Double])]
        assert(bits(read._1) == bits(first) && bits(read._2) == bits(second))
        assert(read._1 ne read._2)
        if (before != null && before._1.length == first.length) assert(read._1 eq before._1)
        before = read
      }
      source.reuse(null)
    } finally written.close()
  }

  test("an element with more arrays than are kept") {
    val elements = Seq.tabulate(3)(e => Array.tabulate(150)(i => Array.fill(300)(e * 1e10 + i)))
    val seen = readAgain(elements)(_.map(_.toSeq).toSeq)
    assert(seen >= 150 && seen < 300, "of those beyond the kept ones each is new")
  }

  test("arrays of ints are used again, and several elements may have theirs at a time") {
    val elements = Seq.tabulate(6)(e => Array.tabulate(4)(i => Array.tabulate(20)(e * 100 + i + _)))
    assert(readAgain(elements, together = 2)(_.map(_.toSeq).toSeq) == 8)
  }

  /** Reads all, so many at a time before arrays are used again; gives how many arrays there were. */
  private def readAgain[T <: AnyRef](elements: Seq[Array[T]], together: Int = 1)(shown: Array[T] => Any): Int = {
    val written = write(elements)
    try {
      val (source, spares) = (written.source, new SpareArrays)
      source.reuse(spares)
      val arrays = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap[AnyRef, java.lang.Boolean])
      for (some <- elements.grouped(together)) {
        spares.startAgain()
        val read = some.map(_ => written.coder.read(source).asInstanceOf[Array[T]])
        assert(read.map(shown) == some.map(shown))
        read.flatten.foreach(arrays.add)
      }
      arrays.size
    } finally written.close()
  }

  test("any two kinds mixed, at lengths around every limit") {
    val random = new Random(2)
    val all = kinds(random).map(_._2)
    val rates = Gen.oneOf(0.0, 0.001, 0.01, 0.03, 0.04, 0.5)
    val lengths = Gen.oneOf(0, 1, 255, 256, 257, 1000, 1023, 1024, 1025, 5000)
    forAll(Gen.oneOf(all), Gen.oneOf(all), rates, lengths, minSuccessful(1000)) { (most, others, rate, n) =>
      val bytes = bytesOf(Array.fill(n)(if (random.nextDouble() < rate) others() else most()))
      assert(bytes <= plainBytes(n))
    }
  }

  test("smaller arrays are as they were") {
    for (n <- 0 until DoubleArrays.VALUES_MIN) assert(written(Array.fill(n)(1.5)).length == 8 * n)
    assert(bytesOf(Array.fill(DoubleArrays.VALUES_MIN)(1.5)) < 400)
  }

  test("a special value among others is a patch") {
    val random = new Random(3)
    for ((name, value) <- kinds(random) if name != "random bits" && name != "specials"; special <- Specials) {
      val values = Array.fill(6400)(value())
      val without = bytesOf(values)
      for (at <- Seq(0, 1, 3333, 6399)) {
        val with1 = values.clone()
        with1(at) = special
        val grown = bytesOf(with1) - without
        // A range that is full may leave out a few of its ends.
        assert(grown <= 10 * DoubleArrays.PATCH_BYTES, s"$name with $special: ${grown.toDouble / values.length}")
      }
    }
  }

  test("as many patches as may be, and one more") {
    val random = new Random(4)
    def withPatches(count: Int): Array[Double] = {
      val values = Array.fill(3200)(random.nextInt() / 100.0)
      for (p <- 0 until count) {
        val at = if (p < 100) p * DoubleArrays.PATCH_SHARE else p
        values(at) = java.lang.Double.longBitsToDouble(0x7FF0000000000001L + random.nextInt(1 << 30))
      }
      values
    }
    assert(bytesOf(withPatches(100)) < 3200 * 4 + 100 * DoubleArrays.PATCH_BYTES + 100)
    assert(bytesOf(withPatches(101)) > 3200 * 6)
  }

  test("what is left out of mantissas is zero, or a patch") {
    val random = new Random(5)
    for (digits <- 0 to 52) {
      def value(): Double = java.lang.Double.longBitsToDouble((1000L + random.nextInt(4) << 52) |
        (random.nextLong() >>> 12 >>> digits << digits))
      val values = Array.fill(3000)(value())
      val bytes = bytesOf(values)
      assert(bytes < 3000 * ((52 - digits + 2 + 7) / 8) + 100, s"$digits digits")
      if (digits > 0) values(77) = Math.nextUp(values(77))
      assert(bytesOf(values) <= bytes + DoubleArrays.PATCH_BYTES)
    }
  }

  test("small arrays that refuse are soon not looked at, large ones always, and it ends with the first that fits") {
    val random = new Random(6)
    val sink = new ByteSink(1)
    def add(n: Int, value: => Double): Long = {
      val values = Array.fill(n)(value)
      val from = sink.position
      DoubleArrays.write(values, 0, sink, repeated)
      assert(bits(read(copied(sink, from), n)) == bits(values))
      sink.position - from
    }
    def strange = java.lang.Double.longBitsToDouble(random.nextLong())
    for (_ <- 0 until 50) assert(add(1000, strange) == plainBytes(1000))
    assert(add(20000, 1.5) < 30000)
    for (_ <- 0 until 50) add(1000, strange)
    val sizes = Seq.fill(40)(add(1000, 1.5))
    val (looked, fits) = sizes.span(_ == plainBytes(1000))
    assert(looked.nonEmpty && looked.length < 20 && fits.forall(_ < 1200))
    sink.close()
  }

  test("every byte damaged: an exception, or an array of the right length") {
    val random = new Random(7)
    var damaged = 0
    for ((name, value) <- kinds(random)) {
      val values = Array.fill(300)(value())
      values(5) = Specials.head
      values(299) = -0.0
      val bytes = written(values)
      for (at <- bytes.indices; change <- (0 until 8).map(1 << _) ++ Seq(0x7F, 0x80, 0xFF)) {
        val other = bytes.clone()
        other(at) = (other(at) ^ change).toByte
        Try(read(other, values.length)) match {
          case Success(got) => assert(got.length == values.length)
          case Failure(e: IllegalStateException) =>
            damaged += 1
            assert(e.getMessage.contains("damaged"), name)
          case Failure(e: org.scalatest.exceptions.TestFailedException) if e.getMessage.contains("other bytes") =>
          case Failure(e) => throw e
        }
      }
    }
    assert(damaged > 500)
  }

  test("headers and patches that no array has are damage") {
    def refused(bytes: Array[Byte], at: Int, value: Int, said: String = "doubles in words"): Unit = {
      val other = bytes.clone()
      other(at) = value.toByte
      val caught = intercept[IllegalStateException](read(other, 300))
      assert(caught.getMessage.contains(said), s"byte $at = $value: $caught")
    }
    val random = new Random(9)
    def array(value: => Double) = written(Array.tabulate(300)(i => if (i == 7) Specials.head else value))
    val table = array(1.0 + random.nextFloat())
    val scaled = array(random.nextInt(250) / 10.0)
    assert(table.head == DoubleArrays.TABLE && scaled.head == DoubleArrays.SCALED)
    for (bytes <- Seq(table, scaled)) {
      assert(bytes(4) == 1)
      Seq(-1, 3, 127).foreach(refused(bytes, 0, _, "form"))
      Seq(-1, 0, 8).foreach(refused(bytes, 1, _))
      Seq(10, -1).foreach(refused(bytes, 4, _))
      refused(bytes, 7, 0x80)
      // The index of the patch: 7 + 256 k.
      val index = bytes.length - DoubleArrays.PATCH_BYTES
      assert(bytes(index) == 7)
      refused(bytes, index + 1, 2, "a patch of value")
      refused(bytes, index + 3, 0x80, "a patch of value")
    }
    Seq(-1, 8 * table(1) + 1, 8 * table(1) - 13).foreach(refused(table, 2, _))
    Seq(-1, 53).foreach(refused(table, 3, _))
    refused(scaled, 1, 7)
    Seq(-1, 5).foreach(refused(scaled, 2, _))
  }

  test("a damaged length makes no large array") {
    for ((_, value) <- kinds(new Random(8))) {
      val bytes = written(Array.fill(1000)(value()))
      for (length <- Seq(-2, Int.MinValue, 10000, Int.MaxValue)) {
        assert(intercept[IllegalStateException](read(bytes, length)).getMessage.contains("damaged"))
      }
    }
  }

  test("in fields, matrices and on their own, arrays of doubles are narrowed") {
    val floats = Array.tabulate(1000)(i => (i * 0.1f).toDouble)
    val elements = Seq[Any](floats, Named(1, "n", floats), Array(floats, null),
      MlElements.block(Array.fill(1000)(1.0), Array.empty, new DenseMatrix(1000, 1, floats, true)))
    for (element <- elements) {
      check(Seq(element))
      val all = write(Seq(element))
      assert(all.sink.position < 6000, element)
      all.close()
    }
  }
}

object DoubleArraysSuite {
  val Specials: Seq[Double] = Seq(0x7FF80000DEADBEEFL, 0x7FF0000000000001L, 0xFFF8000000000000L, Long.MinValue, 0L, 1L,
    0x7FF0000000000000L, 0xFFF0000000000000L, 0x8000000000000001L, 0x7FEFFFFFFFFFFFFFL, 0x000FFFFFFFFFFFFFL)
    .map(java.lang.Double.longBitsToDouble)

  /** What arrays are made of, by name. */
  def kinds(random: Random): Seq[(String, () => Double)] = {
    val levels = Array.fill(200)(random.nextGaussian())
    val manyLevels = Array.fill(900)(random.nextGaussian())
    Seq(
      "random bits" -> (() => java.lang.Double.longBitsToDouble(random.nextLong())),
      "gaussian" -> (() => random.nextGaussian() * 1e-3),
      "one sign" -> (() => -random.nextDouble()),
      "floats" -> (() => random.nextGaussian().toFloat.toDouble),
      "prices" -> (() => random.nextInt(1 << 24) / 100.0),
      "negative decimals" -> (() => (random.nextInt(1 << 20) - 70000000) / 10000.0),
      "counts" -> (() => random.nextInt(256).toDouble),
      "large whole" -> (() => (random.nextLong() >> 17).toDouble),
      "levels" -> (() => levels(random.nextInt(levels.length))),
      "many levels" -> (() => manyLevels(random.nextInt(manyLevels.length))),
      "constant" -> (() => levels(0)),
      "specials" -> (() => Specials(random.nextInt(Specials.length))),
      "subnormals" -> (() => java.lang.Double.longBitsToDouble(random.nextLong() >>> 12)))
  }
}
