package io.warmset.spark

import java.lang.management.ManagementFactory

/**
 * How much memory the pool of an executor gets when the user did not say.
 *
 * Invariant: pure arithmetic on what `Machine` was measured to be; the answer is never below the
 * least budget, and never above the machine. It does not watch memory afterwards.
 */
object MemoryRule {
  private val MiB = 1L << 20

  /** Left to the JVM's own memory outside the heap: code, stacks, network buffers. */
  val ReserveBytes: Long = 512 * MiB

  /** Part of the rest that the pool takes: the remainder is for page cache and other processes. */
  val Share: Double = 0.6

  val text: String =
    "60 % of what the machine's (or container's) memory leaves after the Java heap, Spark's own " +
      "off-heap memory and 512 MiB; where several executors share a machine, of the share that " +
      "spark.executor.cores is of its CPUs; at least 64 MiB. On YARN and Kubernetes: what " +
      "spark.executor.memoryOverhead has beyond Spark's default (a tenth of the heap, at least 384 MiB; with Python or R on " +
      "Kubernetes 40 %), 48 MiB per task slot for writing and aggregating (at least 128 MiB; with a larger " +
      "spark.warmset.rowGroup as much more) and, where less than 4 GiB are left, up to 64 MiB for reading."

  /**
   * What the rule looks at, in bytes and counts.
   *
   * @param totalBytes memory of the container, or of the machine if it has no limit
   * @param cpus CPUs the process may use
   * @param executorCores cores of this executor, if it does not have the machine to itself
   * @param container what a cluster manager gives this executor, where it bounds it
   */
  final case class Machine(
      totalBytes: Long,
      cpus: Int,
      heapBytesMax: Long,
      sparkOffHeapBytes: Long,
      executorCores: Option[Int],
      container: Option[ContainerRule.Container] = None) {

    /** The same with no more memory than `bytes`, the limit as the native side finds it. */
    def atMost(bytes: Long): Machine = copy(totalBytes = math.min(totalBytes, bytes))
  }

  def budgetBytes(machine: Machine): Long = machine.container.fold(ofMachine(machine))(_.poolBytesMax)

  private def ofMachine(machine: Machine): Long = {
    val part = machine.executorCores match {
      case Some(cores) if cores > 0 && cores < machine.cpus => cores.toDouble / machine.cpus
      case _ => 1.0
    }
    val free = machine.totalBytes * part - machine.heapBytesMax - machine.sparkOffHeapBytes -
      ReserveBytes
    math.max(64 * MiB, (free * Share).toLong / (2 * MiB) * (2 * MiB))
  }

  /**
   * This machine as the JVM sees it. Of container limits it may miss those of outer groups and
   * `memory.high`: see `atMost`.
   */
  def thisMachine(sparkOffHeapBytes: Long, executorCores: Option[Int]): Machine = {
    val total = ManagementFactory.getOperatingSystemMXBean match {
      case os: com.sun.management.OperatingSystemMXBean => os.getTotalMemorySize
      case _ => Runtime.getRuntime.maxMemory
    }
    Machine(total, Runtime.getRuntime.availableProcessors, Runtime.getRuntime.maxMemory,
      sparkOffHeapBytes, executorCores)
  }
}
