package io.warmset.rdd

import java.io.{ByteArrayInputStream, ByteArrayOutputStream}

import scala.util.Random

import org.apache.spark.SparkConf
import org.apache.spark.ml.linalg.DenseMatrix
import org.apache.spark.serializer.{JavaSerializer, KryoSerializer, Serializer}

/**
 * Not a test: prints nanoseconds per element of writing and reading, and bytes, beside Spark's
 * serialisers; and the same per value of arrays of doubles. Run: mvn -o test-compile, then
 * java -cp ... io.warmset.rdd.ElementBenchmark [name ...]
 */
object ElementBenchmark {
  private val rnd = new Random(1)
  private var sink = 0L

  def main(args: Array[String]): Unit = {
    val kinds = Seq[(String, Int, Int => Any)](
      ("Named(Long, String, Array[Double] of 8)", 100000, i => Named(i, s"name $i", Array.fill(8)(rnd.nextDouble()))),
      ("Named, values that repeat", 100000, i =>
        Named(i, s"sensor-${i % 1000}", Array.tabulate(8)(c => (i + 17 * c) % 700 / 7.0))),
      ("TreePoint of 20", 100000, i => MlElements.treePoint(i % 2, Array.fill(20)(rnd.nextInt(32)), 1.0)),
      ("LabeledPoint, dense of 10", 100000, i => org.apache.spark.ml.feature.LabeledPoint(i,
        org.apache.spark.ml.linalg.Vectors.dense(Array.fill(10)(rnd.nextDouble())))),
      ("(Int, Double)", 100000, i => (i, i * 0.5)),
      ("Long", 100000, i => i.toLong),
      ("InstanceBlock of 1 MB", 100, i => MlElements.block(Array.fill(2600)(1.0), Array.empty,
        new DenseMatrix(2600, 50, Array.fill(130000)(rnd.nextDouble()), true))),
      ("ArrayList of 10 (Fory)", 20000, i =>
        new java.util.ArrayList[Any](java.util.List.of(i, 1, 2, 3, 4, 5, 6, 7, 8, 9))))
    for ((name, count, make) <- kinds if args.isEmpty || args.exists(name.contains)) {
      val elements = Array.tabulate(count)(make)
      val conf = new SparkConf(false)
      println(name)
      warm(elements)
      spark("Kryo", new KryoSerializer(conf), elements)
      spark("Java", new JavaSerializer(conf), elements)
    }
    for ((name, values) <- arrays if args.isEmpty || args.exists(name.contains)) {
      println(s"$name, per value of arrays of $ValuesPerArray")
      warm(Array.fill[Any](100)(values()), ValuesPerArray)
    }
    if (sink == 42) println()
  }

  private val ValuesPerArray = 130000

  private def arrays: Seq[(String, () => Any)] = Seq[(String, () => Any)](
    "Long, copied" -> (() => Array.fill(ValuesPerArray)(rnd.nextLong()))) ++ Seq[(String, () => Double)](
    "random bits" -> (() => java.lang.Double.longBitsToDouble(rnd.nextLong())),
    "gaussian" -> (() => rnd.nextGaussian()),
    "floats" -> (() => rnd.nextFloat().toDouble),
    "decimals" -> (() => rnd.nextInt(1000000) / 100.0),
    "whole numbers" -> (() => rnd.nextInt(100).toDouble),
    "200 levels" -> (() => (1 + rnd.nextInt(200)) / 3.7))
    .map { case (name, value) => (s"Double, $name", () => Array.fill(ValuesPerArray)(value())) }

  /** `values` is how many each element has, if they are to be reported one by one. */
  private def warm(elements: Array[Any], values: Int = 1): Unit = {
    val bytes = new ByteSink(1 << 20)
    var coder: ElementCoder = null
    val write = best(elements.length * values) {
      bytes.reset()
      coder = ElementTesting.newCoder(ElementFallbacks.current())
      elements.foreach(element => require(coder.write(element, bytes), coder.lastReason))
    }
    val read = best(elements.length * values) {
      val source = new ByteSource(bytes.address, bytes.position)
      var i = 0
      while (i < elements.length) {
        sink += coder.read(source).getClass.getName.length
        i += 1
      }
    }
    report("warmset", write, read, bytes.position, elements.length * values)
    bytes.close()
  }

  private def spark(name: String, serializer: Serializer, elements: Array[Any]): Unit = {
    val instance = serializer.newInstance()
    var bytes = Array.empty[Byte]
    val write = best(elements.length) {
      val out = new ByteArrayOutputStream(1 << 20)
      val stream = instance.serializeStream(out)
      stream.writeAll(elements.iterator)
      stream.close()
      bytes = out.toByteArray
    }
    val read = best(elements.length) {
      val stream = instance.deserializeStream(new ByteArrayInputStream(bytes))
      stream.asIterator.foreach(element => sink += element.getClass.getName.length)
      stream.close()
    }
    report(name, write, read, bytes.length, elements.length)
  }

  private def report(name: String, write: Double, read: Double, bytes: Long, count: Int): Unit =
    println(f"  $name%-8s write $write%12.2f ns, read $read%12.2f ns, ${bytes.toDouble / count}%.2f bytes")

  /** Nanoseconds per element: the lower quartile of 15 runs, after warming up for two seconds. */
  private def best(count: Int)(body: => Unit): Double = {
    val end = System.nanoTime() + 2000000000L
    while (System.nanoTime() < end) body
    val nanos = (1 to 15).map { _ =>
      val start = System.nanoTime()
      body
      System.nanoTime() - start
    }
    nanos.sorted.apply(3).toDouble / count
  }
}
