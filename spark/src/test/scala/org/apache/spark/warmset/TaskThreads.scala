package org.apache.spark.warmset

import java.util.concurrent.{Callable, Executors}

import scala.jdk.CollectionConverters._

import org.apache.spark.TaskContext

/** More threads of a task. */
object TaskThreads {
  /** What `body` gives on `count` threads of this thread's task, when all have ended. */
  def run[T](count: Int)(body: Int => T): Seq[T] = {
    val task = TaskContext.get()
    val threads = Executors.newFixedThreadPool(count)
    val bodies = (0 until count).map { thread =>
      (() => {
        TaskContext.setTaskContext(task)
        try body(thread) finally TaskContext.unset()
      }): Callable[T]
    }
    try threads.invokeAll(bodies.asJava).asScala.map(_.get).toSeq finally threads.shutdown()
  }
}
