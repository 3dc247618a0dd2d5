package io.warmset.spark

import org.apache.spark.sql.{Column, DataFrame}
import org.apache.spark.sql.catalyst.CatalystTypeConverters
import org.apache.spark.sql.catalyst.plans.logical.{ColumnStat, Filter, LogicalPlan, Project, Statistics}
import org.apache.spark.sql.execution.adaptive.TableCacheQueryStageExec
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.columnar.warmset.{CountedRelation, TableStatistics}
import org.apache.spark.sql.execution.joins.{BroadcastHashJoinExec, SortMergeJoinExec}
import org.apache.spark.sql.functions._
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

/** What a cached relation tells the optimiser is what a query finds, and decides plans as the files' sizes would. */
class StatisticsSuite extends AnyFunSuite with WarmsetSession {
  private val Cbo = "spark.sql.cbo.enabled" -> "true"
  private val Off = "spark.warmset.statistics.enabled" -> "false"

  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "300", "spark.warmset.rowGroup" -> "1m",
    "spark.warmset.statistics.enabled" -> "true")

  private def unlessNull(every: Int, value: String): String = s"if(id % $every = 0, null, $value)"

  private def rows(n: Long = 5000): DataFrame = spark.range(0, n, 1, 3).selectExpr("id",
    unlessNull(6, "cast(id % 200 - 100 as byte)") + " b8", unlessNull(5, "cast(id % 300 - 150 as short)") + " sm",
    unlessNull(7, "cast(pmod(xxhash64(id), 100000) as int)") + " i",
    unlessNull(11, "xxhash64(id)") + " l", "if(id % 2 = 0, -9223372036854775808L, 9223372036854775807L) ends",
    unlessNull(9, "cast(id % 500 / 8D as float)") + " f", unlessNull(8, "sqrt(cast(id as double)) - 20") + " d",
    "if(id % 2 = 0, 0D, double('-0.0')) zeroes", "if(id = 77, double('NaN'), id / 3) nan",
    "if(id = 4, float('Infinity'), float(id)) inf", "double('NaN') nans",
    unlessNull(4, "cast((id % 900) / 4D as decimal(12,2))") + " dec",
    unlessNull(5, "cast((id % 800) / 8D as decimal(25,3))") + " big",
    unlessNull(5, "cast(concat(if(id % 3 = 0, '-', ''), id % 901, '23456789012345678901.', id % 10) as decimal(38,10))") + " wide",
    unlessNull(3, "id % 2 = 0") + " flag", "true yes", "cast(null as int) none", "cast(null as string) nothing",
    unlessNull(6, "concat('text ', id, repeat('x', cast(id % 100 as int)))") + " s",
    unlessNull(6, "concat('cat_', id % 8)") + " cat", "'' empty", "repeat('é', cast(id % 3 as int)) wide_text",
    unlessNull(6, "cast(concat('b', id % 30) as binary)") + " bin",
    unlessNull(5, "date_add(date'2020-01-01', cast(id % 500 as int))") + " day",
    unlessNull(5, "timestamp'1969-12-31 23:00:00' + make_dt_interval(0, cast(id % 999 as int))") + " ts")

  /** Of types, or with values, that Spark's estimates cannot take. */
  private def others: Seq[String] = Seq("timestamp_ntz'2020-01-01 00:00:00' ntz", "make_ym_interval(1, 3) ym",
    "'x' collate UTF8_LCASE lc", "array(id) arr", "named_struct('x', id) st", "make_dt_interval(1) dt")

  private val withoutBounds = Set("s", "cat", "empty", "wide_text", "bin")
  private val untold = Set("nan", "inf", "nans", "none", "nothing", "ntz", "ym", "lc", "arr", "st", "dt")

  private def withConf[T](settings: (String, String)*)(body: => T): T = {
    val before = settings.map { case (k, _) => k -> spark.conf.getOption(k) }
    settings.foreach { case (k, v) => spark.conf.set(k, v) }
    try body
    finally before.foreach { case (k, v) => v.fold(spark.conf.unset(k))(spark.conf.set(k, _)) }
  }

  private def optimized(df: DataFrame): LogicalPlan =
    df.asInstanceOf[org.apache.spark.sql.classic.DataFrame].queryExecution.optimizedPlan

  private def planned(df: DataFrame): String =
    df.asInstanceOf[org.apache.spark.sql.classic.DataFrame].queryExecution.executedPlan.toString

  private def relation(df: DataFrame): InMemoryRelation =
    optimized(df).collectFirst { case r: InMemoryRelation => r }.get

  private def cached(df: DataFrame): DataFrame = {
    val made = df.cache()
    made.count()
    made
  }

  private def stats(df: DataFrame): Statistics = relation(df.where("true")).computeStats()

  private def columnStats(df: DataFrame): Map[String, ColumnStat] =
    stats(df).attributeStats.map { case (a, s) => a.name -> s }.toMap

  private def equal(told: Any, found: Any, dataType: DataType): Boolean = (told, found) match {
    case (a: Double, b: Double) => a == b
    case (a: Float, b: Float) => a == b
    case _ => told == CatalystTypeConverters.createToCatalystConverter(dataType)(found)
  }

  test("each type's statistics are what an aggregate finds") {
    val plain = rows().selectExpr("*" +: others: _*)
    val flat = plain.schema.filter(f => TableStatistics.ofUse(f.dataType))
    val found = flat.map { f =>
      val c: Column = col(f.name)
      val length = if (withoutBounds(f.name)) ceil(avg(octet_length(c))) else lit(0L)
      f.name -> plain.agg(min(c), max(c), sum(when(c.isNull, 1L).otherwise(0L)), countDistinct(c), length).head()
    }
    val df = cached(plain)
    val told = columnStats(df)
    assert(stats(df).rowCount.contains(BigInt(5000)))
    assert(told.keySet == plain.columns.toSet -- untold)
    for ((f, (name, row)) <- flat.zip(found) if !untold(name)) {
      val stat = told(name)
      // Spark divides by the distinct values of texts after `is null`.
      val counted = !withoutBounds(name) || row.getLong(2) == 0
      assert(stat.nullCount == Option.when(counted)(BigInt(row.getLong(2))), name)
      if (withoutBounds(name)) {
        assert(stat.min.isEmpty && stat.max.isEmpty && stat.avgLen.contains(row.getLong(4)), s"$name $stat $row")
      } else {
        assert(equal(stat.min.get, row.get(0), f.dataType) && equal(stat.max.get, row.get(1), f.dataType), s"$name $stat $row")
        assert(stat.avgLen.contains(f.dataType.defaultSize.toLong))
      }
      val distinct = row.getLong(3).toDouble
      // Five standard errors.
      def close(n: BigInt): Boolean = math.abs(n.toDouble - distinct) <= 0.16 * distinct
      assert(if (counted) close(stat.distinctCount.get) else stat.distinctCount.isEmpty, s"$name $stat $row")
    }
  }

  test("a table without rows") {
    val df = cached(rows(0))
    assert(stats(df).rowCount.contains(BigInt(0)) && stats(df).attributeStats.isEmpty && stats(df).sizeInBytes <= 1)
    withConf(Cbo)(assert(df.as("a").join(df.as("b"), "id").where("a.s like '%x' and b.i > 5").count() == 0))
  }

  test("a projection has the bytes of its columns, whatever else the relation has") {
    val df = cached(rows())
    val whole = stats(df).sizeInBytes
    def bytes(columns: String*): BigInt = {
      val plan = optimized(df.select(columns.head, columns.tail: _*))
      assert(plan.isInstanceOf[Project])
      val own = relation(df.select(columns.head, columns.tail: _*)).computeStats().sizeInBytes
      assert((plan.stats.sizeInBytes - own).abs <= columns.length + 8, s"${plan.stats} and $own")
      own
    }
    assert(whole == optimized(df).stats.sizeInBytes)
    // Two columns of one value: as much as Spark takes for rows without columns.
    assert(bytes("yes", "empty") == 8 * 5000)
    assert(bytes("s") > bytes("cat") && bytes("s") < whole / 2)
    assert(bytes("s", "l") > bytes("s") && bytes("l") >= 8 * 5000)
    val filtered = df.where("s > 'text 3'").select("l")
    assert(optimized(filtered).collectFirst { case f: Filter => f }.isDefined)
    assert((optimized(filtered).stats.sizeInBytes - bytes("l")).abs < 16)
    val parts = df.select("l", "ends", "d", "s").columns.map(bytes(_))
    assert(bytes("l", "ends", "d", "s") <= parts.sum)
    val explained = df.select("l").queryExecution.explainString(org.apache.spark.sql.execution.CostMode)
    assert("""InMemoryRelation [^\n]*Statistics\(sizeInBytes=\S+ [KM]iB, rowCount=5\.00E\+3\)""".r.findFirstIn(explained).isDefined,
      explained)
  }

  test("joins are broadcast by the columns that are read: planned before and while the query runs") {
    val wide = cached(spark.range(0, 20000, 1, 2).selectExpr("id", "id % 25 n", "repeat(uuid(), 30) filler"))
    val large = cached(spark.range(0, 40000, 1, 2).selectExpr("id % 20000 k", "id v", "repeat(uuid(), 10) filler"))
    def joins(adaptive: Boolean): (Int, Int) = {
      val query = large.join(wide.select("id", "n"), large("k") === wide("id")).groupBy("n").agg(sum("v"))
      withConf("spark.sql.adaptive.enabled" -> adaptive.toString, "spark.sql.autoBroadcastJoinThreshold" -> "200k") {
        query.collect()
        val nodes = planNodes(query)
        nodes.collect { case s: TableCacheQueryStageExec => s }.foreach { stage =>
          assert(stage.computeStats().get.rowCount.exists(_ >= 20000))
        }
        (nodes.count(_.isInstanceOf[BroadcastHashJoinExec]), nodes.count(_.isInstanceOf[SortMergeJoinExec]))
      }
    }
    for (adaptive <- Seq(false, true)) {
      assert(joins(adaptive) == ((1, 0)), s"adaptive $adaptive")
      withConf(Off)(assert(joins(adaptive) == ((0, 1)), s"adaptive $adaptive, without statistics"))
    }
  }

  test("a cache that a query makes is known to the rest of it") {
    val wide = spark.range(0, 20000, 1, 2).selectExpr("id", "id % 25 n", "repeat(uuid(), 30) filler").cache()
    val large = cached(spark.range(0, 40000, 1, 2).selectExpr("id % 20000 k", "id v"))
    val query = large.join(wide.select("id", "n"), large("k") === wide("id")).groupBy("n").agg(sum("v"))
    withConf("spark.sql.autoBroadcastJoinThreshold" -> "200k", "spark.sql.adaptive.autoBroadcastJoinThreshold" -> "200k") {
      assert(query.collect().length == 25)
      val stages = planNodes(query).collect { case s: TableCacheQueryStageExec => s.computeStats().get }
      assert(stages.length == 2 && stages.forall(s => s.sizeInBytes < (200 << 10) || s.rowCount.contains(BigInt(40000))))
      assert(planNodes(query).exists(_.isInstanceOf[BroadcastHashJoinExec]))
    }
  }

  test("until all partitions have been made, and without the setting, statistics are Spark's") {
    val df = rows().cache()
    assert(stats(df).attributeStats.isEmpty)
    df.limit(1).collect()
    assert(stats(df).attributeStats.isEmpty)
    df.count()
    assert(stats(df).attributeStats.nonEmpty)
    withConf(Off) {
      assert(!relation(df.where("id > 1")).isInstanceOf[CountedRelation])
      assert(stats(df).attributeStats.isEmpty && stats(df).rowCount.contains(BigInt(5000)))
      val uncounted = cached(rows().where("id % 2 = 0"))
      spark.conf.unset(Off._1)
      assert(stats(uncounted).attributeStats.isEmpty)
    }
    withConf(Off.copy(_2 = "perhaps")) {
      val failure = intercept[IllegalArgumentException](optimized(df.where("id > 2")))
      assert(failure.getMessage.contains(Off._1) && failure.getMessage.contains("perhaps"))
    }
  }

  test("partitions that are made again, and caches that are made again, are counted once") {
    val df = cached(rows())
    val before = columnStats(df)
    assert(BlockAccess.drop(relation(df).cacheBuilder.cachedColumnBuffers.id))
    assert(df.agg(sum("id")).head().getLong(0) == 5000L * 4999 / 2)
    assert(stats(df).rowCount.contains(BigInt(5000)) && columnStats(df) == before)
    df.unpersist(blocking = true)
    assert(columnStats(cached(rows())) == before)
  }

  test("the cost-based optimiser takes what it is told, of any type, and plans every comparison") {
    val plain = rows(400).selectExpr("*" +: others.take(3): _*)
    def pairs(df: DataFrame, c: String): DataFrame = df.as("a").join(df.select(c).distinct().as("b"), c)
    val counted = Seq("i", "nan", "s", "nothing")
    val want = counted.map(c => pairs(plain, c).count())
    val first = plain.head(1).head
    val df = cached(plain)
    withConf(Cbo, "spark.sql.cbo.joinReorder.enabled" -> "true") {
      assert(counted.map(c => pairs(df, c).count()) == want)
      // Estimates are made while a plan is, and fail then if they do.
      for (f <- plain.schema; c = col(f.name)) {
        val value = if (first.isNullAt(first.fieldIndex(f.name))) lit(null).cast(f.dataType) else lit(first.getAs[Any](f.name))
        val compared = Seq(c === value, c < value, c >= value, c <=> value, c.isNull, c.isNotNull, c.isin(value, value))
        (compared :+ compared.reduce(_ || _)).map(df.where(_)).foreach { some =>
          for (query <- Seq(some, some.groupBy(c).count(), pairs(some, f.name).join(df.select(f.name), f.name))) {
            val plan = optimized(query)
            assert((plan.stats.sizeInBytes > 0 || plan.maxRows.contains(0L)) && planned(query).nonEmpty)
          }
        }
      }
      assert(optimized(df.where("i < 50000").select("id")).stats.rowCount.exists(n => n > 100 && n < 300))
    }
  }

  test("what ANALYZE TABLE finds is kept where it says more") {
    val df = cached(rows())
    df.createOrReplaceTempView("analyzed")
    withConf("spark.sql.statistics.histogram.enabled" -> "true") {
      spark.sql("analyze table analyzed compute statistics for columns id")
    }
    val stat = columnStats(df)
    assert(stat("id").histogram.isDefined && stat("i").distinctCount.isDefined)
  }
}
