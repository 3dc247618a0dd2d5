package org.apache.spark.warmset

import org.apache.spark.SparkContext

/** The listeners of an application. */
object Listeners {
  /** Waits until they have heard everything that has happened so far. */
  def drain(sc: SparkContext): Unit = sc.listenerBus.waitUntilEmpty()
}
