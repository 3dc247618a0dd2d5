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
        public boolean equals(Object o) { return toString().equals("" + o); }
        public int hashCode() { return x; }
        public String toString() { return x + " " + more[1] + " " + other; }
        static final class Leaf implements java.io.Serializable {
          private String name = "leaf";
          public String toString() { return name; }
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
      val written = write(Seq(make(from, "make", 5), make(from, "list", 6)), new ElementCoder(fallbacks(from)))
      assert(written.id(0) >= ElementCoder.ID_FIRST && written.id(1) == ElementCoder.ID_FORY, written.reasons)
      val read = written.read()
      assert(read.head.getClass.getClassLoader eq from)
      assert(read.map(_.toString) == Seq(s"${5 * factor} 2.5 leaf", s"[${6 * factor} 2.5 leaf]"))
      written.close()
    }
  }

  private def used(method: String): WeakReference[ClassLoader] = {
    val from = loader(3)
    val thread = Thread.currentThread()
    val before = thread.getContextClassLoader
    thread.setContextClassLoader(from)
    try {
      val written = write(Seq(make(from, method, 1)), new ElementCoder(ElementFallbacks.current()))
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
