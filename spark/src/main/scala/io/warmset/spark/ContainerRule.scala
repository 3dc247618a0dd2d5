package io.warmset.spark

import scala.util.Try

import io.warmset.spark.kernels.KernelPlan
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

  /** Part of the heap that Spark adds for everything outside it, and the one that it adds for workers in other languages, too. */
  private val JvmFactor = 0.1
  private val WithWorkersFactor = 0.4

  /** Of a writing task, beside the rows that it gathers: a batch that is being encoded, and the encoder's memory. */
  private val EncodingBytes = 16 * MiB

  /** As the region store has it: up to so much is used beside the pool of small budgets, and counted in larger ones. */
  private val WindowBytes = 64 * MiB
  private val WindowPart = 64

  /**
   * @param heapBytes `spark.executor.memory`
   * @param overheadBytes what comes on top for everything outside the heap but Spark's own off-heap memory and
   *                      `spark.executor.pyspark.memory`
   * @param hasWorkers whether Python's or R's workers live in the overhead, as far as Spark's default counts them
   * @param slots tasks that run at a time
   * @param rowGroupBytes `spark.warmset.rowGroup`
   */
  final case class Container(
      heapBytes: Long,
      overheadBytes: Long,
      hasWorkers: Boolean = false,
      slots: Int = 1,
      rowGroupBytes: Long = 32 * MiB) {
    /** What the JVM needs outside its heap: Spark's default overhead. */
    def jvmBytes: Long = math.max(384 * MiB, (heapBytes * JvmFactor).toLong)

    /** What Spark's default overhead has for workers on top of that. */
    def workerBytes: Long = if (hasWorkers) math.max(0L, (heapBytes * WithWorkersFactor).toLong - jvmBytes) else 0L

    /** What is not the pool's. */
    def othersBytes: Long = jvmBytes + workerBytes + stagingBytes

    /**
     * What tasks write cached data through: each gathers a row group. One that aggregates in native code keeps its groups
     * in as much, and does not write then.
     */
    def stagingBytes: Long = {
      val task = math.max(rowGroupBytes, KernelPlan.Kept.bytesMax) + EncodingBytes
      math.max(slots * task, TransientMemory.keptBytesMax(slots))
    }

    /** What such a pool takes in all, with what the store reads through. */
    def withWindow(poolBytes: Long): Long = poolBytes + math.max(0L, WindowBytes - poolBytes / WindowPart)

    /** The most that the pool may have. */
    def poolBytesMax: Long = {
      val left = overheadBytes - othersBytes
      val pool = if (left >= WindowBytes * WindowPart) left else (left - WindowBytes) / (WindowPart - 1) * WindowPart
      math.max(0L, pool / (2 * MiB) * (2 * MiB))
    }
  }

  /** The executors' container, where such a manager bounds it. */
  def of(conf: SparkConf): Option[Container] = {
    val master = conf.get("spark.master", "")
    val kubernetes = master.startsWith("k8s://")
    if (master != "yarn" && !kubernetes) None
    else {
      val heap = heapMebibytes(conf)
      // As Spark's BasicExecutorFeatureStep: its own factor goes before that of Kubernetes.
      val factors = "spark.executor.memoryOverheadFactor" +:
        Seq("spark.kubernetes.memoryOverheadFactor").filter(_ => kubernetes)
      val factor = factors.flatMap(conf.getOption).headOption.fold(JvmFactor)(_.toDouble)
      val least = mebibytes(conf, "spark.executor.minMemoryOverhead").getOrElse(384L)
      val overhead = mebibytes(conf, Overhead).getOrElse(math.max((heap * factor).toLong, least))
      Some(Container(heap * MiB, overhead * MiB, kubernetes && hasWorkers(conf), TaskSlots.of(conf, cpus = 1),
        rowGroup(conf)))
    }
  }

  /** The heap that an executor is asked for. */
  def heapMebibytes(conf: SparkConf): Long = mebibytes(conf, "spark.executor.memory").getOrElse(1024L)

  /** A wrong one is for those to say who read all settings. */
  private def rowGroup(conf: SparkConf): Long = Try(WarmsetConf.RowGroup.read(key => conf.getOption(key))).getOrElse(1024 * MiB)

  /**
   * Spark's step for the driver's pod says there what the application is written in, and gives it its larger default then.
   * Python's workers are counted apart where they have a size of their own.
   */
  private def hasWorkers(conf: SparkConf): Boolean = conf.get("spark.kubernetes.resource.type", "") match {
    case "python" => !conf.contains("spark.executor.pyspark.memory")
    case "r" => true
    case _ => false
  }

  /** Why the executors' containers are too small for what is asked for, with the line that mends it; None if they are not. */
  def problem(conf: WarmsetConf, container: Container): Option[String] = {
    val (wanted, asked) = (conf.totalMemoryBytes, conf.memoryBytes) match {
      case (Some(total), _) =>
        (total - container.heapBytes + math.max(MemoryRule.ReserveBytes + container.workerBytes, container.othersBytes),
          s"${WarmsetConf.TotalMemory.name} is ${Units.bytesShort(total)}")
      case (None, Some(memory)) =>
        (container.withWindow(memory) + container.othersBytes, s"${WarmsetConf.Memory.name} is ${Units.bytesShort(memory)}")
      case (None, None) =>
        val some = math.max(container.heapBytes, WarmsetConf.MemoryBytesMin)
        val least = container.withWindow(WarmsetConf.MemoryBytesMin) + container.othersBytes
        // Any overhead that leaves the least will do; half of the container is a start.
        val enough = if (container.overheadBytes >= least) least else container.withWindow(some) + container.othersBytes
        (enough, "cached data needs memory there")
    }
    if (wanted <= container.overheadBytes) None
    else {
      val taken = Seq("the JVM" -> container.jvmBytes, "Python or R" -> container.workerBytes,
        "tasks that write or aggregate" -> container.stagingBytes)
        .collect { case (who, bytes) if bytes > 0 => s"${Units.bytesShort(bytes)} for $who" }
      Some(s"executors' containers have ${Units.bytesShort(container.overheadBytes)} outside of the Java heap, less " +
        s"${taken.mkString(", ")}, and $asked: start the application with --conf $Overhead=${(wanted + MiB - 1) / MiB}m")
    }
  }

  /** A setting that is a size, in MiB unless it names a unit. */
  private def mebibytes(conf: SparkConf, key: String): Option[Long] = conf.getOption(key).map(JavaUtils.byteStringAsMb)
}
