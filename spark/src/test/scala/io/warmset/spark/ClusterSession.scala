package io.warmset.spark

import java.io.File
import java.nio.file.{Files, Path}
import java.util.concurrent.CompletableFuture

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.SPARK_VERSION
import org.apache.spark.sql.SparkSession
import org.apache.spark.warmset.ClusterAccess
import org.scalatest.BeforeAndAfterAll
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
 * Two executors in processes of their own. Needs a Spark installation of the version that the tests
 * run against, which a PySpark package is.
 */
abstract class ClusterSession extends AnyFunSuite with Eventually with BeforeAndAfterAll {
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

  protected def home: File = sparkHome.getOrElse(fail(s"no Spark $SPARK_VERSION installation: set SPARK_HOME " +
    "to one, or run `make .venv/.stamp .venv-43/.stamp`, which install PySpark 4.2 and 4.3"))

  private final class Running(settings: (String, String)*) {
    private val directory = Files.createTempDirectory("warmset-cluster").toFile
    private val before = Option(System.getProperty("spark.test.home"))
    System.setProperty("spark.test.home", home.getPath)
    val spark: SparkSession = start(directory, settings)

    /** Waits for both executors: one may have been killed by the test before. */
    def run(body: SparkSession => Unit): Unit = {
      ClusterAccess.waitForExecutors(spark.sparkContext, 2)
      body(spark)
      assert(directory.listFiles().isEmpty, "region files have no name")
    }

    def stop(): Unit = {
      spark.stop()
      SparkSession.clearActiveSession()
      SparkSession.clearDefaultSession()
      before.foreach(System.setProperty("spark.test.home", _))
    }
  }

  private var shared: Option[Running] = None

  /** What all tests of a suite that need no settings of their own run in; they come before those that do. */
  protected def sharedSettings: Seq[(String, String)] = Seq("spark.task.maxFailures" -> "8")

  /** In a cluster that tests share, which may lose executors: others take their places. Nothing is cached afterwards. */
  protected def inSharedCluster(body: SparkSession => Unit): Unit = {
    val cluster = shared.getOrElse(new Running(sharedSettings: _*))
    shared = Some(cluster)
    try {
      cluster.run(body)
      val spark = cluster.spark
      spark.catalog.clearCache()
      spark.sparkContext.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
      eventually(assert(regions(spark) == 0))
    } catch {
      case cause: Throwable =>
        // The next test is to have a cluster that nothing has happened to.
        stopShared()
        throw cause
    }
  }

  private def stopShared(): Unit = {
    shared.foreach(_.stop())
    shared = None
  }

  override def afterAll(): Unit = try stopShared() finally super.afterAll()

  protected def withCluster(settings: (String, String)*)(body: SparkSession => Unit): Unit = {
    stopShared()
    val cluster = new Running(settings: _*)
    try cluster.run(body) finally cluster.stop()
  }

  private def start(directory: File, settings: Seq[(String, String)]): SparkSession = {
    val all = Map("spark.plugins" -> "io.warmset.spark.WarmsetPlugin",
      "spark.warmset.memory" -> "64m", "spark.warmset.dir" -> directory.getPath,
      "spark.warmset.smallPartition" -> "0", "spark.warmset.stats.interval" -> "100ms",
      "spark.warmset.flashReserve" -> "1g",
      "spark.ui.enabled" -> "false", "spark.sql.shuffle.partitions" -> "2",
      "spark.executor.memory" -> "768m", "spark.locality.wait" -> "0", "spark.sql.inMemoryColumnarStorage.batchSize" -> "1000",
      "spark.executor.extraClassPath" -> ourClasses, "spark.executorEnv.SPARK_SCALA_VERSION" -> "2.13",
      "spark.executor.extraJavaOptions" -> "-XX:TieredStopAtLevel=1") ++ settings
    val builder = SparkSession.builder().master("local-cluster[2,1,768]").appName("cluster")
    all.foreach { case (k, v) => builder.config(k, v) }
    builder.getOrCreate()
  }

  /** The directories of this build, for executors. */
  protected def ourClasses: String =
    Seq(classOf[WarmsetPlugin], classOf[ClusterSession], classOf[org.apache.fory.Fory])
    .map(c => new File(c.getProtectionDomain.getCodeSource.getLocation.toURI).getPath)
    .mkString(File.pathSeparator)

  protected def pids(spark: SparkSession): Set[Long] = eventually {
    val found = spark.sparkContext.parallelize(1 to 16, 16)
      .map { _ => OnExecutor.pause(50); OnExecutor.pid }.collect().toSet
    assert(found.size == 2)
    found
  }

  protected def kill(pid: Long): Unit = {
    val process = ProcessHandle.of(pid)
    assert(process.isPresent && pid != ProcessHandle.current.pid)
    process.get.destroyForcibly()
  }

  /** Runs `body`, whose tasks stop at `OnExecutor.stopHere`, and kills the first executor that does. */
  protected def killingInside(spark: SparkSession)(body: String => Unit): Unit = {
    val signals = Files.createTempDirectory("warmset-signals")
    val killed = new CompletableFuture[Long]
    val killer = new Thread(() => {
      val here = eventually(Option(signals.toFile.list()).flatMap(_.headOption).get).toLong
      kill(here)
      killed.complete(here)
      Files.createFile(signals.resolve("go"))
    })
    killer.start()
    body(signals.toString)
    assert(killed.isDone && !pids(spark)(killed.get), "an executor was killed meanwhile")
  }

  /** Regions over all executors, as the driver last heard. */
  protected def regions(spark: SparkSession): Int = {
    val history = StatsHistory.of(spark.sparkContext).get
    val alive = ClusterAccess.executors(spark.sparkContext)
    alive.flatMap(history.last).flatMap { report =>
      new ObjectMapper().readTree(report.regionsJson).elements.asScala.map(_.path("regions").asInt)
    }.sum
  }
}
