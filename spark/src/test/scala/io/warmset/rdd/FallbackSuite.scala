package io.warmset.rdd

import java.util.{ArrayList => JArrayList, HashMap => JHashMap}

import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.sql.catalyst.InternalRow

import ElementTesting._

/** What the codecs do not take is serialised by others, or stays as it is. */
class FallbackSuite extends AnyFunSuite {
  private def by(element: Any): Int = {
    val written = write(Seq(element))
    try written.id(0) finally written.close()
  }

  test("classes that serialise themselves") {
    check(Seq(new JavaElements.Custom(8), Holder(new JavaElements.Custom(4)), new JavaElements.Derived(5)), byCodec = false)
    assert(by(new JavaElements.Custom(8)) == ElementCoder.ID_FORY)
  }

  test("classes of which Fory would make something else than Java") {
    val bean = new JavaElements.Bean
    bean.list.add("x")
    bean.said = "by the program"
    for (element <- Seq[AnyRef](new JavaElements.Derived(5), bean, new JavaElements.Picky(3))) {
      check(Seq(element, Holder(element), (element, element)), byCodec = false)
      assert(by(element) == ElementCoder.ID_SPARK, element)
    }
  }

  test("collections") {
    val list = new JArrayList[Any](java.util.List.of(1, "a"))
    val map = new JHashMap[String, Any](java.util.Map.of("k", list))
    for (element <- Seq[Any](list, map, Vector(1, 2, 3), Map(1 -> 2, 3 -> 4, 5 -> 6, 7 -> 8, 9 -> 10), (1, map),
        (1 to 100).toSet, scala.collection.mutable.ArrayBuffer("a"), scala.collection.mutable.HashMap(1 -> 2),
        java.time.Instant.ofEpochSecond(5), java.sql.Timestamp.valueOf("2020-01-01 00:00:00"), BigDecimal("1.5"),
        Seq(Named(1, "n", Array(1.0))).toVector.map(_.id), 1 to 5, java.util.List.of(1, 2))) {
      val written = write(Seq(element))
      assert(written.read().head == element, written.reasons)
      written.close()
    }
  }

  test("two references to one object, and cycles, inside an element") {
    val array = Array(1.0, 2.0)
    val node = new JavaElements.Node(1, null)
    node.next = node
    val self = Array[Any](null)
    self(0) = self
    val left = new JavaElements.Left
    left.right = new JavaElements.Right
    val halves = new JavaElements.Left
    halves.right = new JavaElements.Right
    halves.right.left = halves
    check(Seq((array, array), Array(array, array), Pair(Pair(array, "x"), array), node, self, halves,
      Holder(Array.fill(40)(array))), byCodec = false)
    check(Seq(left, (array, array.clone()), Array.tabulate(100)(i => Array(i)), ("s", "s")))
    val many = Array.tabulate[Any](100)(i => Array(i))
    many(99) = many(3)
    check(Seq(many), byCodec = false)
    val written = write(Seq((array, array)))
    assert(written.reasons.head.contains("referred to twice"))
    val (a, b) = written.read().head.asInstanceOf[(Array[Double], Array[Double])]
    assert(a eq b)
    written.close()
  }

  test("nothing is remembered from element to element") {
    val array = Array(1.0, 2.0)
    check(Seq(Holder(array), Holder(array), (array, 1), Array.tabulate(50)(i => Array(i)), (array, 2)))
  }

  private def chain(n: Int): JavaElements.Node =
    (1 to n).foldLeft(null: JavaElements.Node)((next, i) => new JavaElements.Node(i, next))

  test("objects up to 32 deep have codecs; deeper ones go elsewhere; too deep ones stay") {
    check(Seq(chain(1), chain(20), chain(32)))
    for (depth <- Seq(33, 500)) {
      val written = write(Seq(chain(depth), 5))
      assert(written.id(0) <= ElementCoder.ID_SPARK && written.reasons.head.contains("deep"))
      val values = Iterator.iterate(written.read().head.asInstanceOf[JavaElements.Node])(_.next)
      assert(values.takeWhile(_ != null).map(_.value).toSeq == (1 to depth).reverse)
      written.close()
    }
    val sink = new ByteSink(16)
    val coder = newCoder()
    assert(coder.write("before", sink))
    val position = sink.position
    assert(!coder.write(chain(1000000), sink))
    assert(sink.position == position)
    assert(coder.lastReason.contains("deep"))
    assert(coder.write("after", sink))
    val source = new ByteSource(sink.address, sink.position)
    assert(coder.read(source) == "before" && coder.read(source) == "after")
    sink.close()
  }

  test("long lists are flat") {
    check(Seq(List.tabulate(100000)(identity)))
  }

  test("what nothing can serialise is refused, with the reason, and the sink is as before") {
    val coder = newCoder()
    val sink = new ByteSink(16)
    for (element <- Seq[Any](new JavaElements.Unserializable, new JavaElements.Pretender, new NotSerializable(1),
        Thread.currentThread(), (1, new NotSerializable(2)), Array[Any](1, new JavaElements.Pretender),
        new JArrayList[Any](java.util.List.of(new NotSerializable(3)))); _ <- 1 to 20) {
      assert(!coder.write(element, sink), s"$element")
      assert(sink.position == 0)
      assert(coder.lastReason.contains("erializable") , coder.lastReason)
    }
    assert(coder.write(1, sink) && coder.lastReason == null)
    sink.close()
  }

  test("an object that Spark's serialiser alone can take") {
    val kryo = new ElementFallbacks(getClass.getClassLoader,
      () => new org.apache.spark.serializer.KryoSerializer(new org.apache.spark.SparkConf(false)).newInstance())
    val written = write(Seq(new NotSerializable(5), (1, new NotSerializable(6))), newCoder(kryo))
    assert(written.id(0) == ElementCoder.ID_SPARK && written.id(1) == ElementCoder.ID_SPARK)
    assert(written.read().head.asInstanceOf[NotSerializable].x == 5)
    written.close()
  }

  test("a serialiser that fails again and again with a class is left in peace") {
    val asked = new java.util.concurrent.atomic.AtomicInteger
    val coder = newCoder(new ElementFallbacks(getClass.getClassLoader, () => {
      asked.incrementAndGet()
      new org.apache.spark.serializer.JavaSerializer(new org.apache.spark.SparkConf(false)).newInstance()
    }))
    val sink = new ByteSink(16)
    (1 to 1000).foreach(_ => assert(!coder.write(new JavaElements.Pretender, sink)))
    assert(coder.lastReason.contains("erializable"))
    // An instance that failed is not used again, so each failure has taken one.
    assert(asked.get >= 2 && asked.get <= 16)
    sink.close()
  }

  test("what is to be left alone is, wherever it is") {
    val edges = new org.apache.spark.graphx.Edge[Int](1, 2, 3)
    assert(ElementCoder.staysWithSpark(edges.getClass))
    assert(ElementCoder.staysWithSpark(classOf[Array[org.apache.spark.graphx.Edge[_]]]))
    assert(ElementCoder.staysWithSpark(classOf[org.apache.spark.sql.catalyst.expressions.UnsafeRow]))
    assert(ElementCoder.staysWithSpark(classOf[org.apache.spark.sql.execution.columnar.DefaultCachedBatch]))
    assert(ElementCoder.staysWithSpark(classOf[JavaElements.Closed]))
    assert(!ElementCoder.staysWithSpark(classOf[Named]) && !ElementCoder.staysWithSpark(classOf[Array[Byte]]))
    val coder = newCoder()
    val sink = new ByteSink(16)
    for (element <- Seq[Any](edges, (1, edges), InternalRow(1), new JavaElements.Closed, Array(new JavaElements.Closed),
        Holder(List(edges)), new JArrayList[Any](java.util.List.of(edges)),
        new JHashMap[Any, Any](java.util.Map.of(1, new JavaElements.Closed))); _ <- 1 to 3) {
      assert(!coder.write(element, sink), s"$element")
      assert(sink.position == 0 && coder.lastReason != null)
    }
    sink.close()
  }
}
