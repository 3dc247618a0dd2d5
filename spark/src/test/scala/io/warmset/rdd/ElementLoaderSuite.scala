package io.warmset.rdd

import java.lang.ref.WeakReference

import org.codehaus.janino.SimpleCompiler
import org.scalatest.funsuite.AnyFunSuite

import ElementTesting._

/** Classes that a child class loader defines, as a shell's and a job's jar do. */
class ElementLoaderSuite extends AnyFunSuite {
  private def loader(factor: Int): ClassLoader = {
    val compiler = new SimpleCompiler
    compiler.setParentClassLoader(getClass.getClassLoader)
    compiler.cook(s"""
      package shell;
      class Point implements java.io.Serializable {
        private final int x;
        private final double[] more = {1.5, 2.5};
        private Object other;
        Point(int x) { this.x = x * $factor; }
        public static Object make(int x) { Point p = new Point(x); p.other = new Leaf(); return p; }
        public static Object list(int x) {
          java.util.ArrayList list = new java.util.ArrayList();
          list.add(make(x));
          return list;
        }
        public static Object own(int x) { return new Own(x * $factor); }
        public static Object ownInList(int x) {
          java.util.ArrayList list = new java.util.ArrayList();
          list.add(own(x));
          return list;
        }
        public boolean equals(Object o) { return toString().equals("" + o); }
        public int hashCode() { return x; }
        public String toString() { return x + " " + more[1] + " " + other; }
        static final class Leaf implements java.io.Serializable {
          private String name = "leaf";
          public String toString() { return name; }
        }
        public static final class Own implements java.io.Externalizable {
          private int x;
          public Own() {}
          Own(int x) { this.x = x; }
          public void writeExternal(java.io.ObjectOutput out) throws java.io.IOException {
            out.writeInt(x + $factor);
          }
          public void readExternal(java.io.ObjectInput in) throws java.io.IOException {
            x = in.readInt() - $factor;
          }
          public String toString() { return "own " + x; }
        }
      }""")
    compiler.getClassLoader
  }

  private def make(from: ClassLoader, method: String, x: Int): Any = {
    val made = from.loadClass("shell.Point").getMethod(method, classOf[Int])
    made.setAccessible(true)
    made.invoke(null, Int.box(x))
  }

  test("classes of a child loader, not public, are read with their own loader's classes") {
    val (one, two) = (loader(1), loader(2))
    for ((from, factor) <- Seq(one -> 1, two -> 2)) {
      val written = write(Seq(make(from, "make", 5), make(from, "list", 6)), newCoder(fallbacks(from)))
      assert(written.id(0) >= ElementCoder.ID_FIRST && written.id(1) == ElementCoder.ID_FORY, written.reasons)
      val read = written.read()
      assert(read.head.getClass.getClassLoader eq from)
      assert(read.map(_.toString) == Seq(s"${5 * factor} 2.5 leaf", s"[${6 * factor} 2.5 leaf]"))
      written.close()
    }
  }

  test("one partition with classes of one name from several loaders: each is read as itself, or refused") {
    val loaders = Seq(1, 2, 3).map(loader)
    for (method <- Seq("make", "list", "own", "ownInList"); home <- loaders :+ getClass.getClassLoader) {
      val elements = for (x <- 0 until 40; from <- loaders) yield make(from, method, x)
      val coder = newCoder(fallbacks(home))
      val sink = new ByteSink(1024)
      val kept = elements.filter(element => coder.write(element.asInstanceOf[AnyRef], sink))
      val source = new ByteSource(sink.address, sink.position)
      kept.foreach { element =>
        val read = coder.read(source)
        assert(loaderOf(read) eq loaderOf(element), s"$method: $element is of another class when it is read")
        assert(read.toString == element.toString)
      }
      sink.close()
      assert(method != "make" || kept.length == elements.length)
      assert(home == getClass.getClassLoader || kept.length >= 40, "its own loader's at least")
    }
  }

  test("a class that comes again with other fields: old elements are read as the old class, new as the new") {
    val versions = Seq("int a; String b;" -> "a = i; b = \"b\" + i;", "String a; long[] more; double b;" ->
      "a = \"a\" + i; more = new long[] {i, -i}; b = i / 8.0;", "" -> "", "Object a; byte b;" -> "a = Integer.valueOf(i);")
    val makers = versions.map { case (fields, values) =>
      val compiler = new SimpleCompiler
      compiler.setParentClassLoader(getClass.getClassLoader)
      compiler.cook(s"package shell; public final class Point implements java.io.Serializable { $fields " +
        s"public Point(int i) { $values } }")
      compiler.getClassLoader.loadClass("shell.Point").getConstructor(classOf[Int])
    }
    // Each version meets the bytes of all others, in one partition and in its arrays.
    val elements = for (i <- 0 until 50; maker <- makers) yield maker.newInstance(Int.box(i))
    val all = elements :+ elements.take(8).toArray[Any]
    val written = write(all)
    assert(all.indices.forall(written.id(_) >= ElementCoder.ID_FIRST), written.reasons)
    all.zip(written.read()).foreach { case (element, read) => assert(differs(element, read).isEmpty) }
    written.close()
  }

  private def loaderOf(element: Any): ClassLoader = element match {
    case list: java.util.List[_] => list.get(0).getClass.getClassLoader
    case other => other.getClass.getClassLoader
  }

  private def used(method: String): WeakReference[ClassLoader] = {
    val from = loader(3)
    val thread = Thread.currentThread()
    val before = thread.getContextClassLoader
    thread.setContextClassLoader(from)
    try {
      val written = write(Seq(make(from, method, 1)), newCoder(ElementFallbacks.current()))
      written.read()
      written.close()
    } finally thread.setContextClassLoader(before)
    new WeakReference(from)
  }

  private def goes(reference: WeakReference[ClassLoader]): Boolean =
    Iterator.continually { System.gc(); Thread.sleep(20); reference.get }.take(50).contains(null)

  test("a loader goes when its elements do: codecs") {
    assert(goes(used("make")), "something holds the class loader")
  }

  test("a loader goes when its elements do: Fory, whose own tables are softly held") {
    val reference = used("list")
    val filled = scala.collection.mutable.ArrayBuffer.empty[Array[Byte]]
    try while (reference.get != null) filled += new Array[Byte](64 << 20)
    catch { case _: OutOfMemoryError => filled.clear() }
    assert(goes(reference), "something holds the class loader")
  }

  test("the fallbacks of a thread's loader are shared") {
    assert(ElementFallbacks.current() eq ElementFallbacks.current())
  }
}
