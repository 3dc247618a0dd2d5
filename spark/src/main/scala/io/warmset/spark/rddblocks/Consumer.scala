package io.warmset.spark.rddblocks

import java.lang.StackWalker.StackFrame

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
  /** What Spark wraps around the values of a cached block; none of it looks ahead. */
  private val Wrappers = Seq(
    "org.apache.spark.util.CompletionIterator", "org.apache.spark.InterruptibleIterator", "org.apache.spark.rdd.RDD$$")
  private val Ours = Seq(s"${classOf[ElementReader].getPackageName}.", "scala.runtime.java8.")

  /**
   * Whether an element of that class that was handed out is done with when the next one is asked for.
   * Looks at the calls that led here: a tree aggregation has to be the one that takes the elements.
   */
  def isDoneWith(element: Any): Boolean = isBlock(element) &&
    StackWalker.getInstance.walk(_.dropWhile(passesOn(_)).findFirst.filter(aggregates(_)).isPresent)

  def isBlock(element: Any): Boolean = element != null && element.getClass.getName == Blocks

  private def aggregates(frame: StackFrame): Boolean =
    frame.getClassName == "org.apache.spark.rdd.RDD" && frame.getMethodName.contains("$treeAggregate$")

  private def passesOn(frame: StackFrame): Boolean = {
    val (owner, method) = (frame.getClassName, frame.getMethodName)
    Ours.exists(owner.startsWith) || Steps(method) && Wrappers.exists(owner.startsWith) ||
      Folds(method) && owner.startsWith("scala.collection.")
  }
}
