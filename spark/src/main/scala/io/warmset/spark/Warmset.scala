package io.warmset.spark

/**
 * What other programs in the process may ask Warmset: benchmarks and notebooks, through the JVM.
 *
 * Invariant: every call works whether or not this process has a store. Nothing here changes one.
 */
object Warmset {
  /** The statistics of this process's store as JSON; an empty object if it has none. */
  def statsJson(): String = StoreHolder.current.map(_.stats()).getOrElse("{}")

  /** The regions of this process's store as a JSON array. */
  def regionsJson(): String = StoreHolder.current.map(_.store.regions()).getOrElse("[]")
}
