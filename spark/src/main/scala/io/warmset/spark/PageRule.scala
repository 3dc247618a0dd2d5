package io.warmset.spark

import org.apache.spark.SparkConf

/**
 * The size of the pages in which Spark's operators take execution memory, where nobody has set it.
 *
 * Spark's own grows with the heap up to 64 MiB, and no page is smaller: a broadcast table of five rows takes one, which stays until
 * the collector finds the query gone. Joins with small tables, of which Warmset plans many, fill the old generation with them.
 *
 * Invariant: never more than Spark's own, and so many fit into a task's page table that one task can have all memory.
 */
object PageRule {
  val Key = "spark.buffer.pageSize"
  private val MiB = 1L << 20

  /** With 4 MiB instead of 64, in a heap of 4 GiB, seven of TPC-H's queries take 33 s instead of 39. */
  private val BytesMin = 4 * MiB

  /** As Spark's `MemoryManager` and `TaskMemoryManager` have them. */
  private val SparkBytesMin = MiB
  private val SparkBytesMax = 64 * MiB
  private val SafetyFactor = 16
  private val ReservedBytes = 300 * MiB
  private val PagesMax = 1L << 13

  /** An array's header, so that a page takes whole regions of G1's. */
  private val HeaderBytes = 16L

  /**
   * What the key is to be set to, in bytes; None where Spark's own is as small, or where the settings do not say what that is.
   *
   * @param heapBytes that of the process in which tasks run
   */
  def bytes(conf: SparkConf, heapBytes: Long, cpus: Int): Option[Long] =
    if (conf.contains(Key) || conf.getBoolean("spark.memory.offHeap.enabled", defaultValue = false)) None
    else TaskSlots.cores(conf, cpus).flatMap { cores =>
      val memory = (heapBytes - ReservedBytes) * conf.getDouble("spark.memory.fraction", 0.6) *
        (1 - conf.getDouble("spark.memory.storageFraction", 0.5))
      val theirs = powerOfTwo((memory / cores / SafetyFactor).toLong).max(SparkBytesMin).min(SparkBytesMax)
      val ours = powerOfTwo(heapBytes / (PagesMax / 2)).max(BytesMin)
      Option.when(ours < theirs)(ours - HeaderBytes)
    }

  /** The heap in which tasks run: this one, or that of an executor. */
  def heapBytes(conf: SparkConf, isLocal: Boolean): Long =
    if (isLocal) Runtime.getRuntime.maxMemory else ContainerRule.heapMebibytes(conf) * MiB

  /** The least one that is not below. */
  private def powerOfTwo(bytes: Long): Long = if (bytes <= 1) 1 else java.lang.Long.highestOneBit(bytes - 1) << 1
}
