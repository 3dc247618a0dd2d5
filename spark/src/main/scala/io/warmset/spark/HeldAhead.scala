package io.warmset.spark

/** What is held in the pool for readers that are yet to come: nobody misses it if it is let go. */
private[spark] object HeldAhead {
  @volatile private var holder: () => Unit = () => ()

  /** To be called once by whoever holds it; `letGo` may be called on any thread, with Spark's locks held. */
  def by(letGo: () => Unit): Unit = holder = letGo

  def letGo(): Unit = holder()
}
