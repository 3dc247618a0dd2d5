package io.warmset.spark

import java.io.File
import java.nio.file.Files

import com.fasterxml.jackson.databind.{JsonNode, ObjectMapper}
import org.apache.spark.sql.{Dataset, SparkSession}
import org.apache.spark.sql.execution.{ColumnarToRowExec, SparkPlan}
import org.apache.spark.sql.execution.adaptive.{AdaptiveSparkPlanHelper}
import org.scalatest.{BeforeAndAfterAll, BeforeAndAfterEach, Suite}
import org.scalatest.concurrent.Eventually
import org.scalatest.time.{Millis, Seconds, Span}

/**
 * A local Spark session with the plugin on, for one suite; after each test nothing is cached, no
 * segment is pinned and no region is left.
 */
trait WarmsetSession extends BeforeAndAfterAll with BeforeAndAfterEach with Eventually
    with AdaptiveSparkPlanHelper { this: Suite =>

  implicit override val patienceConfig: PatienceConfig =
    PatienceConfig(Span(10, Seconds), Span(20, Millis))

  protected var spark: SparkSession = _
  protected lazy val directory: File = Files.createTempDirectory("warmset-test").toFile

  protected def master: String = "local[2]"

  protected def settings: Map[String, String] = Map.empty

  protected def newSession(more: Map[String, String] = Map.empty): SparkSession = {
    SparkSession.getActiveSession.foreach(_.stop())
    val all = Map(
      "spark.plugins" -> "io.warmset.spark.WarmsetPlugin",
      "spark.warmset.memory" -> "256m",
      "spark.warmset.dir" -> directory.getPath,
      "spark.warmset.smallPartition" -> "0",
      "spark.warmset.flashReserve" -> "1g",
      "spark.warmset.required" -> "true",
      "spark.sql.shuffle.partitions" -> "2",
      "spark.ui.enabled" -> "false") ++ settings ++ more
    val builder = SparkSession.builder().master(master).appName(suiteName)
    all.foreach { case (k, v) => builder.config(k, v) }
    builder.getOrCreate()
  }

  /** Runs `body` with a session of its own. */
  protected def inSession(more: (String, String)*)(body: => Unit): Unit = {
    spark.stop()
    spark = newSession(more.toMap)
    body
    spark.stop()
    spark = newSession()
  }

  /** Runs `body` with other settings of the session. */
  protected def withSettings[T](other: Map[String, String])(body: => T): T = {
    val before = other.keys.map(key => key -> spark.conf.getOption(key)).toMap
    other.foreach { case (key, value) => spark.conf.set(key, value) }
    try body
    finally before.foreach { case (key, value) => value.fold(spark.conf.unset(key))(spark.conf.set(key, _)) }
  }

  protected def withSetting[T](key: String, value: String)(body: => T): T = withSettings(Map(key -> value))(body)

  /** From how many rows on scans get runtime filters in this suite. */
  protected def filteredRowsMin: Int = usualRowsMin
  private val usualRowsMin = RuntimeFilters.rowsMin

  override def beforeAll(): Unit = {
    super.beforeAll()
    RuntimeFilters.rowsMin = filteredRowsMin
    spark = newSession()
  }

  override def afterAll(): Unit = {
    RuntimeFilters.rowsMin = usualRowsMin
    try {
      if (spark != null) spark.stop()
      SparkSession.clearActiveSession()
      SparkSession.clearDefaultSession()
    } finally super.afterAll()
  }

  override def afterEach(): Unit = {
    if (spark != null && !spark.sparkContext.isStopped) {
      spark.catalog.clearCache()
      if (StoreHolder.current.isDefined) assertNothingLeft()
    }
    super.afterEach()
  }

  protected def assertNothingLeft(): Unit = eventually {
    assert(pins == 0, "segments are pinned that nobody reads")
    assert(regions.isEmpty, "regions are left that nobody owns")
    assert(StoreHolder.current.forall(_.tables.heldBytes == 0), "tables are left that nobody reads")
  }

  protected def regions: Seq[JsonNode] = StoreAccess.regions

  protected def pins: Long = StoreAccess.pins

  /** How many blocks of that RDD lie in regions. */
  protected def inRegions(rdd: Int): Int = {
    val prefix = s"rdd_${rdd}_"
    new ObjectMapper().readTree(RegionBlocks.annotate(() => Warmset.regionsJson())).findValuesAsText("block")
      .stream.filter(_.startsWith(prefix)).count().toInt
  }

  protected def segments: Long = regions.map(_.path("segments").asLong).sum

  /** The executed plan's nodes, through adaptive stages. */
  protected def planNodes(ds: Dataset[_]): Seq[SparkPlan] = {
    val plan = ds.asInstanceOf[org.apache.spark.sql.classic.Dataset[_]].queryExecution.executedPlan
    collectWithSubqueries(plan) { case node => node }
  }

  protected def readsAsColumns(ds: Dataset[_]): Boolean =
    planNodes(ds).exists(_.isInstanceOf[ColumnarToRowExec])
}
