package io.warmset.spark.rddblocks

import java.lang.StackWalker.{Option => Retain, StackFrame}

import org.apache.spark.InterruptibleIterator

/**
 * Who reads elements, as far as it lets arrays be used again.
 *
 * MLlib's trainers go over elements of classes that are private to MLlib, add each to a sum before
 * they take the next, and keep none: gradients of blocks of rows (`RDDLossFunction`), of which the
 * first array takes a megabyte; k-means' sums of the points nearest to each center; a random
 * forest's statistics of its nodes.
 */
private[spark] object Consumer {
  /** By the class of the elements, the classes of the methods that take them, with a part of the method's name. */
  private val Takers = Map(
    "org.apache.spark.ml.feature.InstanceBlock" -> Map(
      "org.apache.spark.rdd.RDD" -> "$treeAggregate$",
      "org.apache.spark.ml.clustering.KMeans" -> "$trainWithBlock$"),
    "org.apache.spark.mllib.clustering.VectorWithNorm" -> Map(
      "org.apache.spark.mllib.clustering.KMeans" -> "$runAlgorithmWithWeight$"),
    "org.apache.spark.ml.tree.impl.BaggedPoint" -> Map(
      "org.apache.spark.ml.tree.impl.RandomForest$" -> "$findBestSplits$"))
  private val Folds =
    Seq("foldLeft", "aggregate", "foreach", "isEmpty", "nonEmpty").flatMap(name => Seq(name, s"$name$$")).toSet
  private val Steps = Set("hasNext", "next") ++ Folds
  private val Completion = "org.apache.spark.util.CompletionIterator"
  private val walker = StackWalker.getInstance(Retain.RETAIN_CLASS_REFERENCE)
  private val Ours = Seq(s"${classOf[ElementReader].getPackageName}.", "scala.runtime.java8.")

  /**
   * Whether an element of that class that was handed out is done with when the next one is asked for.
   * Looks at the calls that led here: that method has to be the one that takes the elements.
   */
  def isDoneWith(element: Any): Boolean = {
    val takers = if (element == null) null else Takers.getOrElse(element.getClass.getName, null)
    takers != null && walker.walk(_.dropWhile(passesOn(_)).findFirst.filter(takes(takers, _)).isPresent)
  }

  private def takes(takers: Map[String, String], frame: StackFrame): Boolean = {
    val method = takers.getOrElse(frame.getClassName, null)
    method != null && frame.getMethodName.contains(method)
  }

  private def passesOn(frame: StackFrame): Boolean = {
    val (owner, method) = (frame.getClassName, frame.getMethodName)
    Ours.exists(owner.startsWith) || Steps(method) && wraps(frame) ||
      Folds(method) && owner.startsWith("scala.collection.")
  }

  /** What Spark wraps around the values of a cached block; neither looks ahead. */
  private def wraps(frame: StackFrame): Boolean =
    classOf[InterruptibleIterator[_]].isAssignableFrom(frame.getDeclaringClass) ||
      frame.getClassName.startsWith(Completion)
}
