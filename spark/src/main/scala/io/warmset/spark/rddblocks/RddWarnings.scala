package io.warmset.spark.rddblocks

import java.util.concurrent.ConcurrentHashMap

import org.apache.spark.internal.Logging

/** Says once per class that its elements stay on the heap, and why. */
private[spark] object RddWarnings extends Logging {
  private val said = ConcurrentHashMap.newKeySet[String]
  private val ClassesMax = 1000

  def onHeap(element: Any, why: String): Unit = {
    val name = element.getClass.getName
    if (said.size < ClassesMax && said.add(name)) {
      logWarning(s"Elements of class $name cannot be kept in regions and stay on the Java heap, " +
        s"under Spark's own rules: $why. A class goes there that is java.io.Serializable, with all that " +
        "its objects refer to")
    }
  }
}
