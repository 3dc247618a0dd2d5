package org.apache.spark.warmset

import org.apache.spark.{TaskContext, TaskContextImpl}

/** The end of a task, whose other threads may be anywhere then. */
object TaskEnd {
  /** Has everything done now that is done when this thread's task completes. */
  def now(): Unit = TaskContext.get().asInstanceOf[TaskContextImpl].markTaskCompleted(None)
}
