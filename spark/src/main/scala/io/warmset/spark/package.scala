package io.warmset

import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel

/** `import io.warmset.spark._` gives RDDs `persistWarm()`. */
package object spark {
  implicit final class WarmRdd[T](private val rdd: RDD[T]) extends AnyVal {
    /**
     * Keeps this RDD in regions from its first computation on, whether or not
     * `spark.warmset.rdd.enabled` is set. Readers get deserialized copies, as from a serialised
     * level. Where Warmset is not active this is `persist(MEMORY_AND_DISK)`.
     */
    def persistWarm(): RDD[T] = rdd.persist(
      if (StatsHistory.of(rdd.sparkContext).exists(_.rdds)) WarmLevel else StorageLevel.MEMORY_AND_DISK)
  }

  /**
   * Objects outside the heap: a level that Spark accepts, has no name for, and has no use of. From
   * PySpark it is `StorageLevel(True, True, True, True, 1)`.
   */
  val WarmLevel: StorageLevel =
    StorageLevel(useDisk = true, useMemory = true, useOffHeap = true, deserialized = true, 1)
}
