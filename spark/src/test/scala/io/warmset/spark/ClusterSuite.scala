package io.warmset.spark

import java.io.File
import java.nio.file.{Files, Path}
import java.util.concurrent.CompletableFuture
import java.util.concurrent.atomic.AtomicInteger

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.{SPARK_VERSION, TaskContext, TaskKilled}
import org.apache.spark.deploy.warmset.TwoHosts
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd, SparkListenerTaskStart}
import org.apache.spark.sql.{DataFrame, Row, SparkSession}
import org.apache.spark.storage.StorageLevel
import org.apache.spark.warmset.ClusterAccess
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** What tasks of these tests do in their executors. */
object OnExecutor {
  def pid: Long = ProcessHandle.current.pid

  def pause(ms: Long): Boolean = { Thread.sleep(ms); true }

  /** Says by a file that this executor is in mid-scan, and waits there for the file `go`. */
  def stopHere(signals: String): Boolean = {
    Path.of(signals, pid.toString).toFile.createNewFile()
    val until = System.nanoTime + 30000000000L
    while (!Path.of(signals, "go").toFile.exists && System.nanoTime < until) pause(10)
    true
  }
}

/**
 * Two executors in processes of their own: replicas, remote reads, lost and decommissioned
 * executors, speculation. Needs a Spark installation of the version that the tests run against,
 * which a PySpark package is.
 */
class ClusterSuite extends AnyFunSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(30, Seconds), Span(100, Millis))

  private lazy val sparkHome: Option[File] = {
    val above = Iterator.iterate(Path.of("").toAbsolutePath)(_.getParent).takeWhile(_ != null)
    val inVenvs = above.flatMap { dir =>
      Option(dir.toFile.listFiles()).toSeq.flatten.filter(_.getName.startsWith(".venv")).flatMap { venv =>
        Option(new File(venv, "lib").listFiles()).toSeq.flatten
          .map(new File(_, "site-packages/pyspark"))
      }
    }
    (sys.env.get("SPARK_HOME").map(new File(_)).iterator ++ inVenvs)
      .find(home => new File(home, s"jars/spark-core_2.13-$SPARK_VERSION.jar").isFile)
  }

  private def home: File = sparkHome.getOrElse(fail(s"no Spark $SPARK_VERSION installation: set SPARK_HOME " +
    "to one, or run `make .venv/.stamp .venv-43/.stamp`, which install PySpark 4.2 and 4.3"))

  private def withCluster(settings: (String, String)*)(body: SparkSession => Unit): Unit = {
    val directory = Files.createTempDirectory("warmset-cluster").toFile
    val before = Option(System.getProperty("spark.test.home"))
    System.setProperty("spark.test.home", home.getPath)
    val all = Map("spark.plugins" -> "io.warmset.spark.WarmsetPlugin",
      "spark.warmset.memory" -> "64m", "spark.warmset.dir" -> directory.getPath,
      "spark.warmset.smallPartition" -> "0", "spark.warmset.stats.interval" -> "100ms",
      "spark.ui.enabled" -> "false", "spark.sql.shuffle.partitions" -> "2",
      "spark.executor.memory" -> "768m", "spark.locality.wait" -> "0", "spark.sql.inMemoryColumnarStorage.batchSize" -> "1000",
      "spark.executor.extraClassPath" -> ourClasses, "spark.executorEnv.SPARK_SCALA_VERSION" -> "2.13",
      "spark.executor.extraJavaOptions" -> "-XX:TieredStopAtLevel=1") ++ settings
    val builder = SparkSession.builder().master("local-cluster[2,1,768]").appName("cluster")
    all.foreach { case (k, v) => builder.config(k, v) }
    val spark = builder.getOrCreate()
    try {
      ClusterAccess.waitForExecutors(spark.sparkContext, 2)
      body(spark)
      assert(directory.listFiles().isEmpty, "region files have no name")
    } finally {
      spark.stop()
      SparkSession.clearActiveSession()
      SparkSession.clearDefaultSession()
      before.foreach(System.setProperty("spark.test.home", _))
    }
  }

  /** The directories of this build, for executors. */
  private def ourClasses: String = Seq(classOf[WarmsetPlugin], classOf[ClusterSuite])
    .map(c => new File(c.getProtectionDomain.getCodeSource.getLocation.toURI).getPath)
    .mkString(File.pathSeparator)

  private def rows(spark: SparkSession): DataFrame = spark.range(0, 40000, 1, 4)
    .selectExpr("id", "concat('s', id) s", "id / 2D d")

  private val expected = Row(40000L * 39999 / 2, "s9999", 40000L * 39999 / 4.0)
  private def answer(df: DataFrame): Row = df.selectExpr("sum(id)", "max(s)", "sum(d)").head()

  private def pids(spark: SparkSession): Set[Long] = eventually {
    val found = spark.sparkContext.parallelize(1 to 16, 16)
      .map { _ => OnExecutor.pause(50); OnExecutor.pid }.collect().toSet
    assert(found.size == 2)
    found
  }

  private def kill(pid: Long): Unit = {
    val process = ProcessHandle.of(pid)
    assert(process.isPresent && pid != ProcessHandle.current.pid)
    process.get.destroyForcibly()
  }

  /** Regions over all executors, as the driver last heard. */
  private def regions(spark: SparkSession): Int = {
    val history = StatsHistory.of(spark.sparkContext).get
    val alive = ClusterAccess.executors(spark.sparkContext)
    alive.flatMap(history.last).flatMap { report =>
      new ObjectMapper().readTree(report.regionsJson).elements.asScala.map(_.path("regions").asInt)
    }.sum
  }

  for ((name, level) <- Seq("MEMORY_AND_DISK" -> StorageLevel.MEMORY_AND_DISK,
      "MEMORY_ONLY_SER" -> StorageLevel.MEMORY_ONLY_SER)) {
    test(s"$name: blocks are read where they are and from afar, and go with unpersist") {
      withCluster() { spark =>
        val df = rows(spark).persist(level)
        for (_ <- 1 to 3) assert(answer(df) == expected)
        eventually(assert(regions(spark) == 4))
        df.unpersist(blocking = true)
        eventually(assert(regions(spark) == 0))
      }
    }
  }

  for ((name, level) <- Seq("MEMORY_AND_DISK_2" -> StorageLevel.MEMORY_AND_DISK_2,
      "MEMORY_ONLY_SER_2" -> StorageLevel.MEMORY_ONLY_SER_2)) {
    test(s"$name: a replica is a region too, and serves when an executor is killed") {
      withCluster() { spark =>
        val computed = spark.sparkContext.longAccumulator
        val counted = spark.udf.register("counted", (id: Long) => { computed.add(1); id })
        val df = rows(spark).selectExpr("counted(id) id", "s", "d").persist(level)
        assert(answer(df) == expected)
        assert(computed.value == 40000)
        eventually(assert(regions(spark) == 8))
        kill(pids(spark).head)
        assert(answer(df) == expected)
        assert(computed.value == 40000, "nothing was computed again")
      }
    }
  }

  test("an executor killed in mid-scan: the answer is right") {
    withCluster("spark.task.maxFailures" -> "8") { spark =>
      val signals = Files.createTempDirectory("warmset-signals")
      val path = signals.toString
      spark.udf.register("stop", (id: Long) => id % 10000 != 5000 || OnExecutor.stopHere(path))
      val df = rows(spark).persist(StorageLevel.MEMORY_AND_DISK)
      assert(answer(df) == expected)
      val killed = new CompletableFuture[Long]
      val killer = new Thread(() => {
        val here = eventually(Option(signals.toFile.list()).flatMap(_.headOption).get).toLong
        kill(here)
        killed.complete(here)
        Files.createFile(signals.resolve("go"))
      })
      killer.start()
      assert(answer(df.filter("stop(id)")) == expected)
      assert(killed.isDone && !pids(spark)(killed.get), "an executor was killed in mid-scan")
      assert(answer(df) == expected)
      df.unpersist(blocking = true)
      eventually(assert(regions(spark) == 0))
    }
  }

  test("a decommissioned executor hands its blocks over") {
    withCluster("spark.decommission.enabled" -> "true", "spark.storage.decommission.enabled" -> "true",
        "spark.storage.decommission.rddBlocks.enabled" -> "true") { spark =>
      val computed = spark.sparkContext.longAccumulator
      spark.udf.register("counted", (id: Long) => { computed.add(1); id })
      val df = rows(spark).selectExpr("counted(id) id", "s", "d").persist(StorageLevel.MEMORY_ONLY)
      assert(answer(df) == expected)
      eventually(assert(regions(spark) == 4))
      ClusterAccess.decommissionOne(spark.sparkContext)
      eventually(assert(ClusterAccess.executors(spark.sparkContext).size == 1))
      assert(answer(df) == expected)
      assert(computed.value == 40000, "nothing was computed again")
      eventually(assert(regions(spark) == 4))
    }
  }

  test("speculative tasks: the slow copy is killed, the answer is right, nothing is left") {
    TwoHosts.run(home, 768)(url => withCluster("spark.master" -> url, "spark.cores.max" -> "2",
        "spark.speculation" -> "true", "spark.speculation.interval" -> "50ms",
        "spark.speculation.multiplier" -> "1.1", "spark.speculation.quantile" -> "0.3",
        "spark.speculation.minTaskRuntime" -> "100ms",
        "spark.speculation.efficiency.enabled" -> "false") { spark =>
      val copies, killed = new AtomicInteger
      spark.sparkContext.addSparkListener(new SparkListener {
        override def onTaskStart(event: SparkListenerTaskStart): Unit =
          if (event.taskInfo.speculative) copies.incrementAndGet()
        override def onTaskEnd(event: SparkListenerTaskEnd): Unit =
          if (event.reason.isInstanceOf[TaskKilled]) killed.incrementAndGet()
      })
      spark.udf.register("slow", (id: Long) =>
        id != 35000 || TaskContext.get().attemptNumber() > 0 || OnExecutor.pause(8000))
      val df = rows(spark).filter("slow(id)").persist(StorageLevel.MEMORY_AND_DISK)
      assert(answer(df) == expected)
      eventually(assert(copies.get > 0 && killed.get > 0, s"${copies.get} copies, ${killed.get} killed"))
      assert(answer(df) == expected)
      df.unpersist(blocking = true)
      eventually(assert(regions(spark) == 0))
    })
  }

  test("executors that cannot open a store keep batches on the heap") {
    withCluster("spark.warmset.memory" -> "900000g") { spark =>
      val df = rows(spark).persist(StorageLevel.MEMORY_AND_DISK)
      for (_ <- 1 to 2) assert(answer(df) == expected)
      assert(regions(spark) == 0)
    }
  }
}
