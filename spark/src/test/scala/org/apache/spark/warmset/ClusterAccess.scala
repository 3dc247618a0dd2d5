package org.apache.spark.warmset

import org.apache.spark.{SparkContext, TestUtils}
import org.apache.spark.scheduler.ExecutorDecommissionInfo
import org.apache.spark.scheduler.cluster.StandaloneSchedulerBackend

/** The executors of a test's cluster. */
object ClusterAccess {
  def waitForExecutors(sc: SparkContext, count: Int): Unit =
    TestUtils.waitUntilExecutorsUp(sc, count, 60000)

  def executors(sc: SparkContext): Seq[String] = backend(sc).getExecutorIds()

  def decommissionOne(sc: SparkContext): Unit =
    backend(sc).decommissionExecutor(executors(sc).min, ExecutorDecommissionInfo("test", None),
      adjustTargetNumExecutors = false)

  private def backend(sc: SparkContext) =
    sc.schedulerBackend.asInstanceOf[StandaloneSchedulerBackend]
}
