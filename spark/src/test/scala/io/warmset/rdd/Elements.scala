package io.warmset.rdd

/** Elements as Scala users have them. */
case class Named(id: Long, name: String, values: Array[Double])

case class Empty()

case class Holder(any: Any)

case class Pair(left: AnyRef, right: AnyRef)

case class Lazily(base: Int) {
  @transient lazy val cached: Array[Int] = Array.fill(base)(1)
  lazy val kept: String = "kept" * base
}

class Plain(var a: Int, val b: Array[String], @transient val c: String) extends Serializable

/** No case class, but equal by its parts. */
final class Tagged[T](val tag: scala.reflect.ClassTag[T], val value: T) extends Serializable

case object Whole

sealed trait Shade
object Shade {
  case object Light extends Shade
  case class Dark(by: Int) extends Shade
}

/** A tree: its class refers to itself. */
case class Tree(value: Int, left: Tree, right: Tree)

class NotSerializable(val x: Int)

class Generic[T](val inner: T) extends Serializable
