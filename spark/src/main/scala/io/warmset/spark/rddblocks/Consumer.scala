package io.warmset.spark.rddblocks

import java.lang.StackWalker.{Option => Retain, StackFrame}

import org.apache.spark.InterruptibleIterator

/**
 * Who reads elements, as far as it lets arrays be used again.
 *
 * MLlib's trainers descend gradients over blocks of rows of which the first array takes a megabyte.
 * The class is private to MLlib, and all that ever folds it there (`RDDLossFunction`) adds each
 * block to a sum before it takes the next, and keeps none.
 */
private[spark] object Consumer {
  private val Blocks = "org.apache.spark.ml.feature.InstanceBlock"
  private val Folds = Set("foldLeft", "foldLeft$", "aggregate", "aggregate$")
  private val Steps = Set("hasNext", "next") ++ Folds
  private val Completion = "org.apache.spark.util.CompletionIterator"
  private val walker = StackWalker.getInstance(Retain.RETAIN_CLASS_REFERENCE)
  private val Ours = Seq(s"${classOf[ElementReader].getPackageName}.", "scala.runtime.java8.")

  /**
   * Whether an element of that class that was handed out is done with when the next one is asked for.
   * Looks at the calls that led here: a tree aggregation has to be the one that takes the elements.
   */
  def isDoneWith(element: Any): Boolean = isBlock(element) &&
    walker.walk(_.dropWhile(passesOn(_)).findFirst.filter(aggregates(_)).isPresent)

  def isBlock(element: Any): Boolean = element != null && element.getClass.getName == Blocks

  private def aggregates(frame: StackFrame): Boolean =
    frame.getClassName == "org.apache.spark.rdd.RDD" && frame.getMethodName.contains("$treeAggregate$")

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
