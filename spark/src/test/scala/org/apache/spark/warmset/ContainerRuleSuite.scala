package org.apache.spark.warmset

import io.warmset.spark.{ContainerRule, MemoryRule, WarmsetConf}
import org.apache.spark.{SecurityManager, SparkConf}
import org.apache.spark.deploy.k8s.{KubernetesConf, SparkPod}
import org.apache.spark.deploy.k8s.features.BasicExecutorFeatureStep
import org.apache.spark.resource.ResourceProfile
import org.scalatest.funsuite.AnyFunSuite

/** Executors' containers on YARN and Kubernetes: the sizes that Spark asks for, and what of them cached data gets. */
class ContainerRuleSuite extends AnyFunSuite {
  private val MiB = 1L << 20

  private def spark(settings: (String, String)*): SparkConf = new SparkConf(false).setAll(settings)

  private def warmset(settings: (String, String)*): WarmsetConf = WarmsetConf.read(settings.toMap.get)

  for ((settings, factor) <- Seq[(Seq[(String, String)], Double)](
      Seq.empty -> 0.1,
      Seq("spark.executor.memory" -> "8g") -> 0.1,
      Seq("spark.executor.memory" -> "8g", "spark.executor.memoryOverhead" -> "3000") -> 0.1,
      Seq("spark.executor.memory" -> "8g", "spark.executor.memoryOverhead" -> "5g") -> 0.1,
      Seq("spark.executor.memory" -> "20000m", "spark.executor.memoryOverheadFactor" -> "0.3") -> 0.3)) {
    test(s"heap and overhead are those that Spark asks a manager for: ${settings.mkString(", ")}") {
      val conf = spark(settings :+ ("spark.master" -> "yarn"): _*)
      ResourceProfile.clearDefaultProfile()
      val profile = ResourceProfile.getOrCreateDefaultProfile(conf)
      val asked = ResourceProfile.getResourcesForClusterManager(
        profile.id, profile.executorResources, 384L, factor, conf, false, Map.empty)
      val container = ContainerRule.of(conf).get
      assert(container.heapBytes == asked.executorMemoryMiB * MiB)
      assert(container.overheadBytes == asked.memoryOverheadMiB * MiB)
      ResourceProfile.clearDefaultProfile()
    }
  }

  /** What Spark's own step asks Kubernetes for. */
  private def podBytes(conf: SparkConf): Long = {
    ResourceProfile.clearDefaultProfile()
    try {
      val profile = ResourceProfile.getOrCreateDefaultProfile(conf)
      val executor = KubernetesConf.createExecutorConf(conf, "1", "application", None)
      val pod = new BasicExecutorFeatureStep(executor, new SecurityManager(conf), profile).configurePod(SparkPod.initialPod())
      pod.container.getResources.getLimits.get("memory").getNumericalAmount.longValueExact
    } finally ResourceProfile.clearDefaultProfile()
  }

  private def kubernetes(settings: (String, String)*): SparkConf = spark(Seq("spark.master" -> "k8s://https://host",
    "spark.kubernetes.container.image" -> "image", "spark.driver.host" -> "host") ++ settings: _*)

  private val Both = Seq("spark.kubernetes.memoryOverheadFactor" -> "0.4", "spark.executor.memoryOverheadFactor" -> "0.2")
  for (settings <- Seq(Nil, Both, Both.take(1), Both.drop(1), Both :+ ("spark.executor.memoryOverhead" -> "3g"),
      Seq("spark.executor.minMemoryOverhead" -> "1g"))) {
    test(s"a pod is as large as Spark makes it: ${settings.mkString(", ")}") {
      val conf = kubernetes(settings :+ ("spark.executor.memory" -> "8g"): _*)
      val container = ContainerRule.of(conf).get
      assert(container.heapBytes + container.overheadBytes == podBytes(conf))
    }
  }

  test("of the default overhead of Python and R on Kubernetes, cached data gets nothing") {
    for (language <- Seq("python", "r")) {
      // What Spark's step for the driver's pod gives such an application.
      def container(settings: (String, String)*) = ContainerRule.of(kubernetes(Seq("spark.executor.memory" -> "10g",
        "spark.kubernetes.resource.type" -> language, "spark.kubernetes.memoryOverheadFactor" -> "0.4") ++ settings: _*)).get
      assert(container().poolBytesMax == 0)
      assert(ContainerRule.problem(warmset(), container()).exists(_.contains("memoryOverhead=14464m")))
      assert(container("spark.executor.memoryOverhead" -> "14464m").poolBytesMax == 10240 * MiB)
      val total = ContainerRule.problem(warmset("spark.warmset.totalMemory" -> "20g"), container())
      assert(total.exists(_.contains(s"memoryOverhead=${10240 + 1024 + 3072 + 128}m")), total)
    }
    val apart = kubernetes("spark.executor.memory" -> "10g", "spark.kubernetes.resource.type" -> "python",
      "spark.kubernetes.memoryOverheadFactor" -> "0.4", "spark.executor.pyspark.memory" -> "2g")
    assert(ContainerRule.of(apart).get.poolBytesMax == 2924 * MiB, "3072 less 128, and less 18 in which to read")
    assert(ContainerRule.of(kubernetes(Both.take(1) :+ ("spark.kubernetes.resource.type" -> "java"): _*)).get.workerBytes == 0)
  }

  test("other managers bound no container") {
    for (master <- Seq("local[2]", "spark://host:7077", "local-cluster[2,1,1024]")) {
      assert(ContainerRule.of(spark("spark.master" -> master)).isEmpty)
    }
  }

  test("cached data gets what the overhead has beyond the JVM's part, whatever the host has") {
    val conf = spark("spark.master" -> "k8s://https://host", "spark.executor.memory" -> "8g",
      "spark.executor.memoryOverhead" -> "5g", "spark.executor.cores" -> "4")
    val container = ContainerRule.of(conf).get
    val machine = MemoryRule.Machine(512L << 30, 64, 8L << 30, 0, Some(4), Some(container))
    val budget = MemoryRule.budgetBytes(machine)
    assert(container.stagingBytes == 4 * 48 * MiB)
    assert(budget == (5120 - 192) * MiB - 8192 * MiB / 10 / (2 * MiB) * (2 * MiB) - 2 * MiB)
    assert(budget + container.jvmBytes <= container.overheadBytes)
    assert(ContainerRule.problem(warmset(), container).isEmpty)
  }

  test("containers of Spark's default size have no room, and the line that mends it is said") {
    val container = ContainerRule.of(spark("spark.master" -> "yarn", "spark.executor.memory" -> "4g")).get
    val why = ContainerRule.problem(warmset(), container).get
    val less = "less 409.6 MiB for the JVM, 128 MiB for tasks that write or aggregate"
    assert(why.contains(s"have 409 MiB outside of the Java heap, $less"), why)
    assert(why.contains("--conf spark.executor.memoryOverhead=4634m"), why)
    val mended = ContainerRule.of(spark("spark.master" -> "yarn", "spark.executor.memory" -> "4g",
      "spark.executor.memoryOverhead" -> "4634m")).get
    assert(ContainerRule.problem(warmset(), mended).isEmpty && mended.poolBytesMax == 4096 * MiB)
  }

  test("sizes that were asked for are compared with the container") {
    val conf = spark("spark.master" -> "yarn", "spark.executor.memory" -> "4g", "spark.executor.memoryOverhead" -> "1g")
    val container = ContainerRule.of(conf).get
    assert(ContainerRule.problem(warmset("spark.warmset.memory" -> "384m"), container).isEmpty)
    val memory = ContainerRule.problem(warmset("spark.warmset.memory" -> "2g"), container).get
    assert(memory.contains("memoryOverhead=2618m"), memory)
    assert(ContainerRule.problem(warmset("spark.warmset.totalMemory" -> "4g"), container).isEmpty)
    val total = ContainerRule.problem(warmset("spark.warmset.totalMemory" -> "8g"), container).get
    assert(total.contains("memoryOverhead=4634m"), total)
  }
}
