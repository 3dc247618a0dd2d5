package org.apache.spark.sql.warmset

import java.io.File

import scala.io.Source
import scala.util.Using

import org.apache.commons.io.FileUtils
import org.scalatest.funsuite.AnyFunSuite

import io.warmset.spark.{CachedColumnsExec, InKeySet, WarmsetAggregateExec, WarmsetSession}
import org.apache.spark.sql.{classic, Row}
import org.apache.spark.sql.catalyst.expressions.BloomFilterMightContain
import org.apache.spark.sql.execution.{FileSourceScanExec, SparkPlan}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.ShuffleExchangeLike
import org.apache.spark.sql.execution.joins.BaseJoinExec

/**
 * TPC-DS' published queries, from Spark's test jar, answer over cached tables what Spark answers over files: with all that
 * Warmset does for whole queries, without it, and with it under the cost-based optimiser.
 *
 * A share of them runs, without the last; `WARMSET_TPCDS=all` runs all (`make test-full`), `WARMSET_TPCDS=q5,v2.7/q5a` some.
 * `WARMSET_SEED` names other data.
 */
class TpcdsSuite extends AnyFunSuite with WarmsetSession {
  import TpcdsSuite._

  override protected def settings: Map[String, String] = Map(
    // Some dimensions are below it and some above, and statistics say which.
    "spark.sql.autoBroadcastJoinThreshold" -> "20k",
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "500", "spark.warmset.rowGroup" -> "1m")

  override protected def filteredRowsMin: Int = 200

  private val asked = sys.env.getOrElse("WARMSET_TPCDS", Share.mkString(","))
  private val ways = if (asked == Share.mkString(",")) Ways else Ways :+ Cbo
  private val queries = if (asked == "all") Published else asked.split(',').toSeq.map(_.trim)
  private var expected = Map.empty[String, OrderedAnswer]
  private var seen = Map.empty[(String, String), Seq[SparkPlan]]
  // Its tables are other files with the same rows, so that it reads nothing from a cache.
  private lazy val plain = spark.newSession().asInstanceOf[classic.SparkSession]

  // A table that is broadcast takes at least one page of the heap, of 64 MiB by default, and queries broadcast dozens. Spark
  // makes such tables with settings of their own, from the properties of the process.
  private val pageSize = "spark.buffer.pageSize"

  override def beforeAll(): Unit = {
    sys.props(pageSize) = "1m"
    super.beforeAll()
    val data = new TpcdsData(sys.env.get("WARMSET_SEED").fold(1L)(_.toLong))
    (Off ++ Interpreted).foreach { case (key, value) => plain.conf.set(key, value) }
    data.write(plain, s"$directory/plain")
    FileUtils.copyDirectory(new File(s"$directory/plain"), new File(s"$directory/cached"))
    data.names.foreach { name =>
      data.register(spark, s"$directory/cached", name)
      spark.sql(s"CACHE TABLE $name")
    }
  }

  override def afterEach(): Unit = eventually(assert(pins == 0, "segments are pinned that nobody reads"))

  override def afterAll(): Unit = {
    spark.catalog.clearCache()
    assertNothingLeft()
    super.afterAll()
    sys.props -= pageSize
  }

  private def text(name: String): String = {
    val path = if (name.startsWith(Newer)) s"tpcds-v2.7.0/${name.stripPrefix(Newer)}.sql" else s"tpcds/$name.sql"
    Using.resource(Source.fromResource(path))(_.mkString)
  }

  queries.foreach { name =>
    test(s"TPC-DS $name") {
      val answer = OrderedAnswer.of(plain, text(name))
      expected += name -> answer
      ways.foreach { case (way, settings) =>
        withSettings(settings) {
          val df = spark.sql(text(name))
          val fault = answer.fault(df.collect().toSeq)
          val nodes = planNodes(df)
          assert(fault.isEmpty, s"with $way:\n${nodes.head}")
          assert(!nodes.exists(_.isInstanceOf[FileSourceScanExec]), s"with $way: not all of it is cached:\n${nodes.head}")
          seen += (name, way) -> nodes
        }
      }
    }
  }

  test("most of these queries say something, and their plans use what is tested") {
    val answers = queries.flatMap(name => expected.get(name).map(name -> _.rows))
    // A row of nulls and zeros is what aggregates without keys make of nothing.
    val empty = answers.filter(_._2.forall(_.toSeq.forall(v => v == null || v == 0 || v == 0L))).map(_._1)
    def count(of: Seq[SparkPlan] => Boolean) = queries.count(name => seen.get((name, "all")).exists(of))
    val native = count(_.exists(_.isInstanceOf[WarmsetAggregateExec]))
    val filtered = count(_.exists { case columns: CachedColumnsExec => columns.joinFilters.nonEmpty; case _ => false })
    val restricted = count(_.exists(_.expressions.exists(_.exists {
      case _: BloomFilterMightContain | _: InKeySet => true
      case _ => false
    })))
    def plan(name: String, way: String) = seen.getOrElse((name, way), Nil).collect {
      case join: BaseJoinExec => s"${join.joinType} ${join.nodeName}"
      case exchange: ShuffleExchangeLike => exchange.nodeName
      case scan: InMemoryTableScanExec => scan.relation.cacheBuilder.tableName.getOrElse("")
    }
    def differ(way: String, other: String) = queries.count(name => plan(name, way) != plan(name, other))
    val changed = differ("all", "none")
    val byCbo = if (ways.contains(Cbo)) s", ${differ(Cbo._1, "all")} with others by CBO" else ""
    val said = s"${queries.size} queries: ${answers.size - empty.size} find rows; $native with aggregates in native code, " +
      s"$filtered with join filters, $restricted with runtime filters, $changed with other plans by statistics$byCbo"
    info(said)
    if (empty.nonEmpty) info(s"queries that find nothing in this data: ${empty.mkString(", ")}")
    assert(empty.size * 10 <= queries.size, said)
    assert(queries.size < Share.size || native > 0 && restricted > 0 && Seq(filtered, changed).forall(_ * 5 > queries.size), said)
  }

  test("wrong answers are found, and those that a query leaves open are right") {
    def fault(query: String, rows: Row*) = OrderedAnswer.of(plain, query).fault(rows)
    val ties = "select a, b from values (2, 'x'), (1, 'y'), (1, 'z') as t(a, b) order by a"
    val (x, y, z) = (Row(2, "x"), Row(1, "y"), Row(1, "z"))
    Seq(Seq(y, z, x), Seq(z, y, x)).foreach(rows => assert(fault(ties, rows: _*) === None))
    Seq(Seq(x, y, z), Seq(y, y, x), Seq(y, z), Seq(y, z, x, x), Nil).foreach(rows => assert(fault(ties, rows: _*).isDefined, rows))
    Seq(y, z).foreach(row => assert(fault(s"$ties limit 1", row) === None))
    Seq(Seq(x), Seq(y, z), Nil).foreach(rows => assert(fault(s"$ties limit 1", rows: _*).isDefined, rows))
    assert(fault("select b from (values (1, 'x'), (2, 'y')) as t(a, b) order by a desc", Row("x"), Row("y")).isDefined)
    assert(fault("select 0.1d + 0.2d", Row(0.3)) === None)
    Seq(0.3001, Double.NaN).foreach(wrong => assert(fault("select 0.1d + 0.2d", Row(wrong)).isDefined))
    assert(fault("select null, 1.50bd", Row(null, new java.math.BigDecimal("1.50"))) === None)
    assert(fault("select null, 1.50bd", Row(0, new java.math.BigDecimal("1.50"))).isDefined)
  }

  test("all published queries are known") {
    assert(Published.count(_.startsWith(Newer)) === 32)
    assert(Published.size === 103 + 32)
    assert(Share.forall(Published.contains))
  }
}

private object TpcdsSuite {
  private val Newer = "v2.7/"

  private val Published: Seq[String] = {
    val names = (1 to 99).flatMap(n => Seq("", "a", "b").map(part => s"q$n$part"))
    def known(folder: String) = names.filter(name => getClass.getResource(s"/$folder/$name.sql") != null)
    known("tpcds") ++ known("tpcds-v2.7.0").map(Newer + _)
  }

  private val Share = Seq("q5", "q9", "q27", "q38", "q44", "q51", "q69", "q72", "q78", "q93", "v2.7/q36a")

  private def set(value: Boolean): Map[String, String] =
    Seq("statistics", "joinFilters", "kernels").map(part => s"spark.warmset.$part.enabled" -> value.toString).toMap

  private val Off = set(false)

  // Code for a query takes longer to compile than these tables take to read.
  private val Interpreted = Map("spark.sql.codegen.wholeStage" -> "false", "spark.sql.codegen.factoryMode" -> "NO_CODEGEN")

  private val Ways = Seq("none" -> Off, "all" -> set(true))

  private val Cbo = "all and CBO" -> (set(true) ++
    Seq("enabled", "joinReorder.enabled", "starSchemaDetection").map(key => s"spark.sql.cbo.$key" -> "true"))
}
