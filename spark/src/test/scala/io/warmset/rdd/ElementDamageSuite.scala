package io.warmset.rdd

import java.util.concurrent.{Callable, Executors}

import scala.util.{Failure, Random, Success, Try}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.ml.linalg.Vectors
import org.apache.spark.unsafe.Platform

import ElementTesting._

/** Damaged bytes are an exception, never more; and reading is for any number of threads. */
class ElementDamageSuite extends AnyFunSuite {
  private def elements: Seq[Any] = Seq(Named(1, "name", Array(1.0, 2.0)), ("a\u0416", Array[Any](1, "x", null)),
    org.apache.spark.ml.feature.LabeledPoint(1.0, Vectors.dense(1.0, 2.0)), List(1, 2L, Some("three")),
    org.apache.spark.ml.feature.LabeledPoint(1.0, Vectors.sparse(9, Array(1), Array(2.0))),
    new JavaElements.Fields, JavaElements.Plain.B, new java.util.ArrayList[Int](java.util.List.of(1, 2)),
    Array(Array(1), Array(2, 3)), BigDecimal("1.25").bigDecimal, Array("s", null), Whole,
    new Tagged(scala.reflect.classTag[Int], 1), new JavaElements.Node(1, new JavaElements.Node(2, null)))

  private def narrowed: Seq[Any] = {
    val random = new Random(2)
    DoubleArraysSuite.kinds(random).map { case (name, value) => Named(1, name, Array.fill(260)(value())) }
  }

  /** A copy at the very end of a block, so that reading beyond it is reading what is not ours. */
  private def copied[A](written: Written, bytes: Long)(body: Long => A): A = {
    val block = Platform.allocateMemory(bytes + 8)
    Platform.copyMemory(null, written.sink.address, null, block, bytes)
    try body(block) finally Platform.freeMemory(block)
  }

  test("a source gives nothing beyond its end") {
    val block = Platform.allocateMemory(16)
    val source = new ByteSource(block, 16)
    assert(source.take(10) == block && source.take(0) == block + 10 && source.remaining == 6 && source.position == 10)
    for (bytes <- Seq(7L, Long.MaxValue, -1L, Long.MinValue)) {
      assert(intercept[IllegalStateException](source.take(bytes)).getMessage.contains("damaged"))
    }
    assert(source.take(6) == block + 10)
    Platform.freeMemory(block)
  }

  test("a sink grows and keeps what was written") {
    val sink = new ByteSink(1)
    for (i <- 0 until 10000) Platform.putLong(null, sink.reserve(8), i)
    assert(sink.position == 80000)
    assert((0 until 10000).forall(i => Platform.getLong(null, sink.address + 8L * i) == i))
    sink.truncate(8)
    assert(sink.position == 8 && Platform.getLong(null, sink.address) == 0)
    intercept[IllegalArgumentException](sink.truncate(9))
    intercept[IllegalArgumentException](sink.reserve(-1))
    sink.close()
    sink.close()
    intercept[IllegalStateException](sink.reserve(1))
  }

  test("every truncation is damage") {
    for (element <- elements ++ narrowed) {
      val written = write(Seq(element))
      for (bytes <- 0L until written.sink.position) copied(written, bytes) { at =>
        Try(written.coder.read(new ByteSource(at, bytes))) match {
          case Failure(e: IllegalStateException) => assert(e.getMessage.contains("damaged"), s"$element, $bytes")
          case other => fail(s"$element, $bytes bytes of ${written.sink.position}: $other")
        }
      }
      written.close()
    }
  }

  test("garbled bytes are damage or other values, and whatever is read can be used") {
    val written = write(elements)
    val rnd = new Random(1)
    var damaged = 0
    for (_ <- 0 until 20000) copied(written, written.sink.position) { at =>
      for (_ <- 0 to rnd.nextInt(3)) {
        val where = at + rnd.nextInt(written.sink.position.toInt)
        val value = rnd.nextInt(3) match {
          case 0 => rnd.nextInt().toByte
          case 1 => (Platform.getByte(null, where) ^ (1 << rnd.nextInt(8))).toByte
          case _ => (Platform.getByte(null, where) + rnd.nextInt(5) - 2).toByte
        }
        Platform.putByte(null, where, value)
      }
      val source = new ByteSource(at, written.sink.position)
      Try(elements.indices.foreach(_ => use(written.coder.read(source)))) match {
        case Success(_) =>
        case Failure(e: IllegalStateException) =>
          damaged += 1
          assert(e.getMessage.contains("damaged"), e)
        case Failure(e) => throw e
      }
    }
    info(s"$damaged of 20000 noticed")
    assert(damaged > 2000)
    written.close()
  }

  /** Walks through everything an element leads to. */
  private def use(element: Any): Unit = differs(element, element).foreach(d => assert(d.contains("another object")))

  test("many threads read at once") {
    val all = Seq.tabulate(200)(i => elements :+ i).flatten
    val written = write(all)
    val expected = written.read()
    val threads = Executors.newFixedThreadPool(8)
    try {
      val reads = (0 until 16).map(_ => threads.submit(new Callable[Option[String]] {
        def call(): Option[String] = written.read().zip(expected).flatMap { case (got, element) =>
          differs(element, got)
        }.headOption
      }))
      reads.foreach(read => assert(read.get().isEmpty))
    } finally threads.shutdown()
    written.close()
  }
}
