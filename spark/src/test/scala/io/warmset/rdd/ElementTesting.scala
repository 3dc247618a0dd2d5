package io.warmset.rdd

import java.lang.reflect.Modifier
import java.util.IdentityHashMap

import org.apache.spark.SparkConf
import org.apache.spark.serializer.JavaSerializer

/** What the suites of elements share: round trips, and a comparison that nothing escapes. */
object ElementTesting {
  def fallbacks(loader: ClassLoader = getClass.getClassLoader): ElementFallbacks =
    new ElementFallbacks(loader, () => new JavaSerializer(new SparkConf(false)).newInstance())

  /** With room for all its tables. */
  def newCoder(others: ElementFallbacks = fallbacks()): ElementCoder =
    new ElementCoder(others, new TableBudget(Long.MaxValue))

  /** As Spark's Java serializer gives it back. */
  def javaCopy[T](value: T): T = {
    val serializer = new JavaSerializer(new SparkConf(false)).newInstance()
    serializer.deserialize[Any](serializer.serialize[Any](value)).asInstanceOf[T]
  }

  /** The elements written by one coder, and how to read them. */
  final class Written(
      val coder: ElementCoder, val sink: ByteSink, val ends: Seq[Long], val reasons: Seq[String])
    extends AutoCloseable {
    def source: ByteSource = new ByteSource(sink.address, sink.position)
    def read(): Seq[Any] = {
      val from = source
      val read = ends.map { end =>
        val element = coder.read(from)
        assert(from.position == end, "reading took other bytes than writing made")
        element
      }
      assert(from.remaining == 0)
      read
    }

    /** The id of element `i`: what wrote it. */
    def id(i: Int): Int = {
      val start = if (i == 0) 0 else ends(i - 1)
      Raw.U.getShort(sink.address + start) & 0xFFFF
    }
    def close(): Unit = sink.close()
  }

  def write(elements: Seq[Any], coder: ElementCoder = newCoder()): Written = {
    val sink = new ByteSink(16)
    val (ends, reasons) = elements.map { element =>
      assert(coder.write(element, sink), s"${coder.lastReason} for $element")
      (sink.position, coder.lastReason)
    }.unzip
    new Written(coder, sink, ends, reasons)
  }

  /** Writes and reads the elements, and compares each with its copy by Java. */
  def check(elements: Seq[Any], byCodec: Boolean = true): Unit = {
    val written = write(elements)
    try {
      if (byCodec) {
        elements.indices.foreach { i =>
          assert(written.id(i) != ElementCoder.ID_FORY && written.id(i) != ElementCoder.ID_SPARK,
            s"element $i, a ${elements(i).getClass}: ${written.reasons(i)}")
        }
      }
      written.read().zip(elements).zipWithIndex.foreach { case ((got, element), i) =>
        val difference = differs(javaCopy(element), got)
        assert(difference.isEmpty, s"element $i, $element: ${difference.get}")
      }
    } finally written.close()
  }

  private val values: Set[Class[_]] = Set(classOf[String], classOf[java.math.BigDecimal],
    classOf[java.math.BigInteger], classOf[java.lang.Boolean], classOf[java.lang.Byte],
    classOf[java.lang.Short], classOf[java.lang.Character], classOf[java.lang.Integer],
    classOf[java.lang.Long], classOf[Class[_]])

  /**
   * Where two graphs of objects differ: in classes, values, bits of floating-point numbers, fields
   * (transient ones too), or in which references lead to the same object. The left one may have
   * come from Java's serialisation, which forgets the bits of NaNs.
   */
  def differs(left: Any, right: Any, javaNaNs: Boolean = true): Option[String] = {
    val partners = new IdentityHashMap[AnyRef, AnyRef]
    val reverse = new IdentityHashMap[AnyRef, AnyRef]

    def compare(a: AnyRef, b: AnyRef, path: String): Option[String] = {
      if (a == null || b == null) { if (a eq b) None else Some(s"$path: $a, $b") }
      else if (a.getClass != b.getClass) Some(s"$path: ${a.getClass}, ${b.getClass}")
      else if (values(a.getClass) || a.isInstanceOf[Enum[_]]
          || a.isInstanceOf[scala.reflect.ClassTag[_]]) {
        if (a == b) None else Some(s"$path: $a, $b")
      } else if (a.isInstanceOf[java.lang.Double] || a.isInstanceOf[java.lang.Float]) bits(a, b, path)
      else if (partners.containsKey(a) || reverse.containsKey(b)) {
        if ((partners.get(a) eq b) && (reverse.get(b) eq a)) None
        else Some(s"$path: leads to another object")
      } else {
        if (!immutable(a)) {
          partners.put(a, b)
          reverse.put(b, a)
        }
        (a, b) match {
          case (x: ::[_], y: ::[_]) => array(x.toArray[Any], y.toArray[Any], path)
          case _ => if (a.getClass.isArray) array(a, b, path) else fields(a, b, path)
        }
      }
    }

    // Those that Java keeps one of per reference, and elements need not.
    def immutable(a: AnyRef): Boolean = a.isInstanceOf[List[_]] ||
      (a.getClass.isArray && java.lang.reflect.Array.getLength(a) == 0)

    def bits(a: Any, b: Any, path: String): Option[String] = {
      val same = (a, b) match {
        case (x: Double, y: Double) if javaNaNs && x.isNaN => y.isNaN
        case (x: Float, y: Float) if javaNaNs && x.isNaN => y.isNaN
        case (x: Double, y: Double) =>
          java.lang.Double.doubleToRawLongBits(x) == java.lang.Double.doubleToRawLongBits(y)
        case (x: Float, y: Float) =>
          java.lang.Float.floatToRawIntBits(x) == java.lang.Float.floatToRawIntBits(y)
        case _ => a == b
      }
      if (same) None else Some(s"$path: $a, $b")
    }

    def array(a: AnyRef, b: AnyRef, path: String): Option[String] = {
      val length = java.lang.reflect.Array.getLength(a)
      if (length != java.lang.reflect.Array.getLength(b)) Some(s"$path: lengths")
      else (0 until length).iterator.map { i =>
        val (x, y) = (java.lang.reflect.Array.get(a, i), java.lang.reflect.Array.get(b, i))
        if (a.getClass.getComponentType.isPrimitive) bits(x, y, s"$path($i)")
        else compare(x, y, s"$path($i)")
      }.collectFirst { case Some(difference) => difference }
    }

    def fields(a: AnyRef, b: AnyRef, path: String): Option[String] = {
      val hierarchy = Iterator.iterate[Class[_]](a.getClass)(_.getSuperclass).takeWhile(_ != null)
      hierarchy.flatMap(_.getDeclaredFields).filterNot(f => Modifier.isStatic(f.getModifiers)).map { f =>
        val at = Raw.U.objectFieldOffset(f)
        val where = s"$path.${f.getName}"
        f.getType match {
          case java.lang.Boolean.TYPE | java.lang.Byte.TYPE => bits(Raw.U.getByte(a, at), Raw.U.getByte(b, at), where)
          case java.lang.Short.TYPE | java.lang.Character.TYPE =>
            bits(Raw.U.getShort(a, at), Raw.U.getShort(b, at), where)
          case java.lang.Integer.TYPE => bits(Raw.U.getInt(a, at), Raw.U.getInt(b, at), where)
          case java.lang.Float.TYPE => bits(Raw.U.getFloat(a, at), Raw.U.getFloat(b, at), where)
          case java.lang.Long.TYPE => bits(Raw.U.getLong(a, at), Raw.U.getLong(b, at), where)
          case java.lang.Double.TYPE => bits(Raw.U.getDouble(a, at), Raw.U.getDouble(b, at), where)
          case _ => compare(Raw.U.getObject(a, at), Raw.U.getObject(b, at), where)
        }
      }.collectFirst { case Some(difference) => difference }
    }

    compare(left.asInstanceOf[AnyRef], right.asInstanceOf[AnyRef], "element")
  }
}
