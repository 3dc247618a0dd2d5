package io.warmset.rdd

import scala.util.Using

import org.scalacheck.{Arbitrary, Gen}
import org.scalatest.funsuite.AnyFunSuite
import org.scalatestplus.scalacheck.ScalaCheckPropertyChecks

import org.apache.spark.ml.{linalg => ml}
import org.apache.spark.mllib.{linalg => old}
import org.apache.spark.sql.types.{IntegerType, StructType}

import ElementTesting._

/** What a codec gives back is what Java's serialisation gives back. */
class ElementRoundTripSuite extends AnyFunSuite with ScalaCheckPropertyChecks {
  private val odd = java.lang.Double.longBitsToDouble(0x7FF80000DEADBEEFL)
  private val doubles = Array(0.0, -0.0, 1.5, odd, Double.NegativeInfinity, Double.MinPositiveValue)

  test("values") {
    check(Seq(null, true, false, 1.toByte, 2.toShort, 'c', 3, 4L, 5.5f, 6.5, odd, Float.NaN, (),
      "", "latin é", "\u0416\u20ac\ud83d\ude00", "\ud83d", "x" * 100000, "\u0416" * 100000,
      BigInt(7).bigInteger, BigInt(-7).pow(100).bigInteger,
      new java.math.BigDecimal("-12.340"), new java.math.BigDecimal("1e400")))
  }

  test("NaNs keep their bits, which Java makes all the same") {
    val written = write(Seq[Any](odd, Array(odd), Holder(odd), (odd, 1.0)))
    for ((got, element) <- written.read().zip(Seq[Any](odd, Array(odd), Holder(odd), (odd, 1.0)))) {
      assert(differs(element, got, javaNaNs = false).isEmpty)
    }
    written.close()
  }

  test("arrays of primitives, of every length around the loop's end") {
    for (n <- Seq(0, 1, 7, 8, 11, 12, 13, 24, 25, 95, 96, 97, 1000, 300000)) {
      check(Seq(Array.tabulate(n)(_ % 3 == 0), Array.tabulate(n)(_.toByte), Array.tabulate(n)(_.toShort),
        Array.tabulate(n)(_.toChar), Array.tabulate(n)(_ * 77), Array.tabulate(n)(_ * 1234567890123L),
        Array.tabulate(n)(_ * 0.5f), Array.tabulate(n)(i => doubles(i % doubles.length))))
    }
  }

  test("arrays of references") {
    check(Seq(Array("a", null, "\u0416"), Array[Any](1, "b", null, Array(1, 2), Array.empty[Any]),
      Array(Array(1.0, 2.0), null, Array.empty[Double]), Array[Integer](1, null, 3),
      Array(Some(1), None, null), Array.ofDim[String](3, 2), Array.empty[String]))
  }

  test("tuples, options, lists, modules, case classes") {
    check(Seq((1, 2), (1L, 2.0), ("a", Array(1.0)), (1, "two", 3.0, '4', null), Some("x"), None, Some(None),
      Nil, List(1, "a", null), List(List(1), Nil), Whole, Shade.Light, Shade.Dark(3), Left(1), Right("r"),
      Empty(), Named(1, "n", doubles), Named(2, null, null), Holder(Holder(Holder(null))),
      Holder(Whole), (Shade.Light, Shade.Dark(1)), Tree(1, Tree(2, null, null), Tree(3, null, null))))
  }

  test("collections of Scala that Java writes field by field") {
    check(Seq(scala.collection.immutable.ArraySeq(1, 2, 3), scala.collection.immutable.ArraySeq("a", null),
      scala.collection.mutable.ArraySeq(1.5, 2.5), Map(1 -> "a"), Map(1 -> 2, 3 -> 4), Map.empty[Int, Int],
      Set(1, 2, 3), Set.empty[Int]))
  }

  test("transient fields and lazy values") {
    val read = Lazily(3)
    assert(read.cached.length == 3 && read.kept == "keptkeptkept")
    check(Seq(Lazily(2), read, new Plain(1, Array("x"), "gone")))
    val written = write(Seq(read))
    val back = written.read().head.asInstanceOf[Lazily]
    assert(back.cached.toSeq == Seq(1, 1, 1) && back.kept == read.kept)
    written.close()
  }

  test("fields of every kind, inherited ones too") {
    val empty = new JavaElements.Fields
    val full = new JavaElements.MoreFields
    full.z = true; full.b = -1; full.s = -2; full.c = '\uffff'; full.i = Int.MinValue; full.l = Long.MinValue
    full.f = Float.MinPositiveValue; full.d = odd; (full: JavaElements.Fields).text = "t\u0416"
    full.zs = Array(true, false); full.bs = Array(1, 2); full.ss = Array(3); full.cs = Array('x')
    full.is = Array(4); full.ls = Array(5L); full.fs = Array(6f); full.ds = doubles
    full.any = Named(1, "n", Array(1.0)); full.comparable = "c"; full.numbers = Array[Number](1, 2.5, null)
    full.plain = JavaElements.Plain.C; full.bodies = JavaElements.WithBodies.TWO
    full.leaf = new JavaElements.Leaf(9, "leaf")
    check(Seq(empty, full))
    check(Seq(JavaElements.Plain.B, JavaElements.WithBodies.ONE, java.util.concurrent.TimeUnit.DAYS))
  }

  test("objects of the library of Java that Java writes field by field") {
    check(Seq(new java.util.UUID(1, 2), Array(new java.util.UUID(3, 4))))
  }

  test("what MLlib persists") {
    val dense = ml.Vectors.dense(doubles)
    val sparse = ml.Vectors.sparse(10, Array(1, 3), Array(1.0, 2.0))
    val oldDense = old.Vectors.dense(1.0, 2.0)
    val oldSparse = old.Vectors.sparse(5, Array(0), Array(-0.0))
    val matrix = new ml.DenseMatrix(2, 3, doubles, true)
    val sparseMatrix = new ml.SparseMatrix(3, 2, Array(0, 1, 1, 3), Array(0, 0, 1), Array(1.0, 2.0, 3.0), true)
    check(Seq(dense, sparse, oldDense, oldSparse, matrix, sparseMatrix,
      org.apache.spark.ml.feature.LabeledPoint(1.0, dense), org.apache.spark.ml.feature.LabeledPoint(0.0, sparse),
      org.apache.spark.mllib.regression.LabeledPoint(1.0, oldDense),
      org.apache.spark.mllib.regression.LabeledPoint(1.0, oldSparse),
      MlElements.instance(1, 2, sparse), MlElements.instance(1, 2, dense),
      MlElements.block(Array(1.0, 0.0), Array.empty, matrix), MlElements.block(Array(1.0, 0.0, 1.0), Array(2.0, 1.0, 1.0), sparseMatrix),
      MlElements.treePoint(1, Array(1, 2, 3), 1.0), MlElements.withNorm(oldDense, 2.0),
      MlElements.bagged(MlElements.treePoint(1, Array(1), 1.0), Array(1, 0, 2), 0.5),
      MlElements.block(Array.fill(1000)(1.0), Array.empty, new ml.DenseMatrix(1000, 131, Array.fill(131000)(0.1), true))))
  }

  test("class tags, classes and schemas are kept once for a partition") {
    val schema = new StructType().add("a", IntegerType)
    val row = new org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema(Array[Any](1), schema)
    val rows = Seq.fill(5000)(new org.apache.spark.sql.catalyst.expressions.GenericRowWithSchema(Array[Any](2),
      new StructType().add("a", IntegerType)))
    val many = write(rows)
    assert(rows.indices.forall(many.id(_) >= ElementCoder.ID_FIRST) && many.read() == rows)
    many.close()
    val written = write(Seq(row, row, new Tagged[Named](scala.reflect.classTag[Named], null), classOf[Named]))
    val read = written.read()
    assert((0 until 4).forall(written.id(_) >= ElementCoder.ID_FIRST), written.reasons)
    assert(read(0) == row && (read(0).asInstanceOf[AnyRef] ne row))
    assert(read(1).asInstanceOf[org.apache.spark.sql.Row].schema eq schema)
    assert(read(2).asInstanceOf[Tagged[Named]].tag == scala.reflect.classTag[Named])
    assert(read(3) == classOf[Named])
    written.close()
  }

  test("classes mixed in one partition, and grown later, read in any order") {
    val coder = newCoder()
    val first = write(Seq(1, "a", Named(1, "n", Array(1.0)), None), coder)
    val second = write(Seq((1, 2), Named(2, "m", Array(2.0)), new java.util.ArrayList[Int]), coder)
    assert(first.read().take(2) == Seq(1, "a"))
    assert(second.read().head == ((1, 2)))
    assert(first.read().last == None)
    assert(second.read().last == new java.util.ArrayList[Int])
    first.close()
    second.close()
  }

  private def element(depth: Int): Gen[Any] = {
    val leaf: Gen[Any] = Gen.oneOf(Arbitrary.arbitrary[Int], Arbitrary.arbitrary[Long], Arbitrary.arbitrary[Double],
      Arbitrary.arbitrary[String], Arbitrary.arbitrary[Array[Byte]], Arbitrary.arbitrary[Array[Double]],
      Arbitrary.arbitrary[Array[Int]], Arbitrary.arbitrary[Boolean], Arbitrary.arbitrary[Char], Gen.const(null),
      Gen.const(None), Gen.const(Whole), Gen.oneOf(JavaElements.Plain.values().toSeq))
    if (depth == 0) leaf else {
      val inner = Gen.lzy(element(depth - 1))
      Gen.oneOf[Any](leaf, inner.map(Some(_)), Gen.listOfN(3, inner), Gen.listOfN(4, inner).map(_.toArray[Any]),
        Gen.zip(inner, inner), Gen.zip(inner, inner, inner), inner.map(Holder(_)), inner.map(new Generic(_)),
        Gen.zip(Arbitrary.arbitrary[Long], Arbitrary.arbitrary[String], Arbitrary.arbitrary[Array[Double]])
          .map((Named.apply _).tupled),
        Gen.containerOfN[Array, Double](5, Arbitrary.arbitrary[Double]).map(ml.Vectors.dense(_)))
    }
  }

  private val double = Arbitrary.arbitrary[Double]

  private def numbers(count: Int): Gen[Array[Double]] = Gen.containerOfN[Array, Double](count, double)

  private def vector: Gen[ml.Vector] = for {
    values <- Arbitrary.arbitrary[Array[Double]]
    indices <- Gen.someOf(0 until 40).map(_.sorted.toArray)
    some <- numbers(indices.length)
    isDense <- Arbitrary.arbitrary[Boolean]
  } yield if (isDense) ml.Vectors.dense(values) else ml.Vectors.sparse(40, indices, some)

  private def matrix: Gen[ml.Matrix] = for {
    rows <- Gen.choose(0, 5)
    columns <- Gen.choose(0, 5)
    values <- numbers(rows * columns)
    transposed <- Arbitrary.arbitrary[Boolean]
    isDense <- Arbitrary.arbitrary[Boolean]
  } yield {
    val dense = new ml.DenseMatrix(rows, columns, values, transposed)
    if (isDense) dense else dense.toSparse
  }

  /** Everything that MLlib's trainers persist. */
  private def ofMllib: Gen[Any] = Gen.oneOf[Any](
    vector, vector.map(old.Vectors.fromML), matrix, matrix.map(old.Matrices.fromML),
    Gen.zip(double, vector).map((org.apache.spark.ml.feature.LabeledPoint.apply _).tupled),
    Gen.zip(double, vector).map { case (label, v) =>
      org.apache.spark.mllib.regression.LabeledPoint(label, old.Vectors.fromML(v))
    },
    Gen.zip(double, double, vector).map((MlElements.instance _).tupled),
    // A block's rows lie one after the other.
    matrix.map(m => if (m.isTransposed) m else m.transpose).flatMap(m =>
      Gen.zip(numbers(m.numRows), Gen.oneOf(numbers(m.numRows), Gen.const(Array.empty[Double])))
        .map { case (labels, weights) => MlElements.block(labels, weights, m) }),
    Gen.zip(vector, double).map { case (v, norm) => MlElements.withNorm(old.Vectors.fromML(v), norm) },
    Gen.zip(double, Arbitrary.arbitrary[Array[Int]], double, Arbitrary.arbitrary[Array[Int]]).map {
      case (label, bins, weight, counts) => MlElements.bagged(MlElements.treePoint(label, bins, weight), counts, weight)
    })

  private def ofPrimitives: Gen[Any] = Gen.oneOf[Any](
    Arbitrary.arbitrary[Byte], Arbitrary.arbitrary[Short], Arbitrary.arbitrary[Float],
    Arbitrary.arbitrary[Array[Boolean]], Arbitrary.arbitrary[Array[Short]], Arbitrary.arbitrary[Array[Char]],
    Arbitrary.arbitrary[Array[Long]], Arbitrary.arbitrary[Array[Float]], Arbitrary.arbitrary[Array[String]],
    Arbitrary.arbitrary[BigInt].map(_.bigInteger), Arbitrary.arbitrary[Either[Int, String]],
    Arbitrary.arbitrary[List[Long]])

  test("random elements of what MLlib persists, and of primitives") {
    val nested = Gen.oneOf(ofMllib, ofPrimitives, Gen.zip(ofPrimitives, ofMllib), ofMllib.map(Some(_)))
    forAll(Gen.listOfN(5, nested), minSuccessful(400)) { elements: List[Any] => check(elements) }
  }

  test("random elements") {
    forAll(Gen.listOfN(5, element(4)), minSuccessful(300)) { elements: List[Any] => check(elements) }
  }

  test("random elements again and again, so that what repeats in them is kept once") {
    var shorter = 0
    forAll(Gen.listOfN(5, element(3)), minSuccessful(12)) { elements: List[Any] =>
      def bytes(all: Seq[Any]) = Using.resource(write(all))(_.sink.position)
      val once = bytes(elements)
      val times = (200000 / once).toInt.min(2000) + 1
      val all = IndexedSeq.fill(times)(elements).flatten
      if (bytes(all) < times * once) shorter += 1
      check(all)
    }
    assert(shorter > 2)
  }
}
