package io.warmset.spark

import org.apache.spark.SparkConf
import org.apache.spark.network.util.JavaUtils

/**
 * The memory that YARN or Kubernetes was asked for, per executor, and what of it cached data may have.
 *
 * Invariant: pure arithmetic on Spark's settings, the same as Spark's own (`ResourceProfile`). The pool is charged to
 * the memory overhead, beyond what a JVM without Warmset gets of it by default: what the manager does not know of, it
 * gives to others, or kills.
 */
object ContainerRule {
  private val MiB = 1L << 20
  private val Overhead = "spark.executor.memoryOverhead"

  /**
   * @param heapBytes `spark.executor.memory`
   * @param overheadBytes what comes on top for everything outside the heap but Spark's own off-heap memory and Python
   */
  final case class Container(heapBytes: Long, overheadBytes: Long) {
    /** What the JVM needs outside its heap: Spark's default overhead. */
    def jvmBytes: Long = math.max(384 * MiB, heapBytes / 10)

    /** The most that the pool may have. */
    def poolBytesMax: Long = math.max(0L, (overheadBytes - jvmBytes) / (2 * MiB) * (2 * MiB))
  }

  /** The executors' container, where such a manager bounds it. */
  def of(conf: SparkConf): Option[Container] = {
    val master = conf.get("spark.master", "")
    val kubernetes = master.startsWith("k8s://")
    if (master != "yarn" && !kubernetes) None
    else {
      val heap = mebibytes(conf, "spark.executor.memory").getOrElse(1024L)
      val factors = Seq("spark.kubernetes.memoryOverheadFactor").filter(_ => kubernetes) :+
        "spark.executor.memoryOverheadFactor"
      val factor = factors.flatMap(conf.getOption).headOption.fold(0.1)(_.toDouble)
      val least = mebibytes(conf, "spark.executor.minMemoryOverhead").getOrElse(384L)
      val overhead = mebibytes(conf, Overhead).getOrElse(math.max((heap * factor).toLong, least))
      Some(Container(heap * MiB, overhead * MiB))
    }
  }

  /** Why the executors' containers are too small for what is asked for, with the line that mends it; None if they are not. */
  def problem(conf: WarmsetConf, container: Container): Option[String] = {
    val (wanted, asked) = (conf.totalMemoryBytes, conf.memoryBytes) match {
      case (Some(total), _) =>
        (total + MemoryRule.ReserveBytes - container.heapBytes, s"${WarmsetConf.TotalMemory.name} is $total bytes")
      case (None, Some(memory)) => (memory + container.jvmBytes, s"${WarmsetConf.Memory.name} is $memory bytes")
      case (None, None) =>
        val some = math.max(container.heapBytes, WarmsetConf.MemoryBytesMin)
        val least = WarmsetConf.MemoryBytesMin + container.jvmBytes
        // Any overhead that leaves the least will do; half of the container is a start.
        (if (container.overheadBytes >= least) least else some + container.jvmBytes, "cached data needs memory there")
    }
    if (wanted <= container.overheadBytes) None
    else {
      Some(s"executors' containers have ${container.overheadBytes} bytes outside of the Java heap, ${container.jvmBytes} of " +
        s"them for the JVM, and $asked: start the application with --conf $Overhead=${(wanted + MiB - 1) / MiB}m")
    }
  }

  /** A setting that is a size, in MiB unless it names a unit. */
  private def mebibytes(conf: SparkConf, key: String): Option[Long] = conf.getOption(key).map(JavaUtils.byteStringAsMb)
}
