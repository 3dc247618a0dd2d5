package io.warmset.spark

import java.nio.file.Files

import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.scalatest.funsuite.AnyFunSuite

/**
 * Predicates on encoded columns, where types and expressions are not what they seem: the rows of
 * the uncached DataFrame, once more.
 */
class FilterTypesSuite extends AnyFunSuite with WarmsetSession with Passing {
  private lazy val warehouse = Files.createTempDirectory("warmset-warehouse").toFile

  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "100", "spark.warmset.rowGroup" -> "1m",
    "spark.sql.warehouse.dir" -> warehouse.getPath, "spark.sql.timeType.enabled" -> "true",
    "spark.sql.collation.objectLevel.enabled" -> "true")

  private def ids(df: DataFrame, predicate: String): Seq[Long] =
    df.filter(predicate).select("id").collect().map(_.getLong(0)).toSeq.sorted

  /** Rows that the scans of a query that has run gave to Spark's filter. */
  private def scanned(query: DataFrame): Long = planNodes(query).collect {
    case scan: InMemoryTableScanExec => scan.metrics("numOutputRows").value
  }.sum

  /** Compares each predicate's rows, of the DataFrame that `make` gives, with and without a cache. */
  private def check(predicates: String*)(make: => DataFrame): Unit =
    compare(passing(make, predicates).toSeq.map { case (p, ids) => p -> ids.toSeq.sorted })(make)

  private def compare(expected: Seq[(String, Seq[Long])])(make: => DataFrame): Unit = {
    assert(expected.exists(_._2.nonEmpty))
    for (adaptive <- Seq("true", "false")) {
      spark.conf.set("spark.sql.adaptive.enabled", adaptive)
      val df = make.cache()
      df.count()
      assert(regions.nonEmpty)
      inPairs(expected) { case (p, want) => assert(ids(df, p) == want, p) }
      df.unpersist(blocking = true)
    }
    spark.conf.unset("spark.sql.adaptive.enabled")
  }

  private def compared(column: String, values: String*): Seq[String] =
    for (v <- values; op <- Seq("=", "<", "<=", ">", ">=", "<=>", "!=")) yield s"$column $op $v"

  private def withTable(definition: String, values: String)(body: => Unit): Unit = {
    spark.sql(s"create table odd $definition")
    try {
      spark.range(0, 1000, 1, 2).selectExpr(values.split('|').toSeq: _*).write.insertInto("odd")
      body
    } finally spark.sql("drop table odd")
  }

  test("char and varchar columns") {
    withTable("(id bigint, c char(6), v varchar(9)) using parquet",
        "id|if(id % 7 = 0, null, concat('c', id % 40))|" +
          "if(id % 5 = 0, null, concat('v', id % 30, repeat(' ', cast(id % 3 as int))))") {
      val predicates = compared("c", "'c7'", "'c7    '", "'c7        '") ++ compared("v", "'v8'", "'v8  '") ++
        Seq("c in ('c1', 'c2  ')", "v in ('v1', 'v2 ', null)", "c like 'c3%'", "c like 'c3'", "c = v",
          "startswith(c, 'c1')", "endswith(c, ' ')", "endswith(v, ' ')", "c between 'c2' and 'c3'",
          "c is null and v is not null", "length(c) = 6", "v = 'v8' or c = 'c8'")
      check(predicates: _*)(spark.table("odd"))
    }
  }

  test("collations: trimmed on the right, by a table's default, by a column's own") {
    check(compared("s", "'x3'", "'x3  '") ++ Seq("s in ('x1', 'x2 ')", "startswith(s, 'x')",
        "s between 'x2' and 'x4'", "s is null"): _*) {
      spark.range(0, 1000, 1, 2).selectExpr("id",
        "if(id % 9 = 0, null, concat('x', id % 20, repeat(' ', cast(id % 3 as int)))) collate UTF8_BINARY_RTRIM s")
    }
    withTable("(id bigint, s string, b string collate UTF8_BINARY) using parquet " +
        "default collation UTF8_LCASE",
        "id|if(id % 2 = 0, concat('ab', id % 20), concat('AB', id % 20))|if(id % 2 = 0, 'ab', 'AB')") {
      check(compared("s", "'Ab3'") ++ compared("b", "'ab'", "'AB'") ++ Seq("s in ('aB1', 'ab2')",
        "startswith(s, 'aB1')", "contains(s, 'B1')", "s like 'AB1%'", "b like 'A%'", "s > 'AB5'"): _*) {
        spark.table("odd")
      }
    }
  }

  test("dates before 1582 and the ends of what dates and timestamps can be") {
    val least = "timestamp_micros(-9223372036854775808L)"
    val most = "timestamp_micros(9223372036854775807L)"
    check(compared("day", "date'0001-01-01'", "date'1582-10-04'", "date'1582-10-10'", "date'1582-10-15'",
        "date_from_unix_date(-2147483648)", "date_from_unix_date(2147483647)") ++
      compared("ts", "timestamp'0001-01-01 00:00:00'", "timestamp'1582-10-15 00:00:00'", least, most) ++
      compared("ntz", "timestamp_ntz'0001-01-01 00:00:00'", "timestamp_ntz'1582-10-04 12:00:00'") ++
      Seq("day in (date'0001-01-02', date'1582-10-04')", s"ts in ($least, $most)",
        "day between date'-0044-03-15' and date'0002-01-01'", "year(day) = 1582"): _*) {
      spark.range(0, 1000, 1, 2).selectExpr("id",
        "case id % 8 when 0 then date_from_unix_date(-2147483648) " +
          "when 1 then date_from_unix_date(2147483647) when 2 then null " +
          "when 3 then date_add(date'0001-01-01', int(id % 5)) when 4 then date'-0044-03-15' " +
          "else date_add(date'1582-10-03', int(id % 15)) end day",
        s"case id % 8 when 0 then $least when 1 then $most when 2 then null " +
          "else timestamp'1582-10-14 23:59:59' + make_dt_interval(int(id % 400) - 200, int(id)) end ts",
        "case id % 4 when 2 then null when 1 then timestamp_ntz'0001-01-01 00:00:00' " +
          "else timestamp_ntz'1582-10-04 00:00:00' + make_dt_interval(0, int(id % 30)) end ntz")
    }
  }

  test("times of day") {
    check(compared("t", "time'00:00:00'", "time'08:20:00'", "time'23:59:59.999999'") ++
        Seq("t in (time'08:20:00', time'08:21:00')", "t between time'01:00:00' and time'02:00:00'",
          "t is null", "hour(t) = 3"): _*) {
      spark.range(0, 1000, 1, 2).selectExpr("id",
        "if(id % 11 = 0, null, make_time(int(id % 24), int(id % 60), 0)) t")
    }
  }

  test("what depends on the rows it has seen sees all that it would see without a cache") {
    def rows = spark.range(0, 3000, 1, 2).selectExpr("id", "id % 10 x", "id div 10 y")
    val asked = Seq("rand(42) < 0.3 and x = 5", "x = 5 and rand(42) < 0.3", "rand(42) < 0.5 and y < 20",
      "y < 100 and rand(7) < 0.5 and x in (1, 2)", "monotonically_increasing_id() % 2 = 0 and x = 4")
    compare(asked.map(p => p -> ids(rows, p)))(rows)
    val df = rows.cache()
    df.count()
    def scannedFor(predicate: String): Long = {
      val query = df.filter(predicate).select("id")
      query.collect()
      scanned(query)
    }
    assert(scannedFor("x = 5 and rand(42) < 0.3") == 300, "what comes before it still thins rows out")
    assert(scannedFor("rand(42) < 0.3 and x = 5") == 3000)
    df.unpersist(blocking = true)
  }

  test("batches of large values are shown whole, without a copy") {
    // One partition of long strings, one of short ones.
    val df = spark.range(0, 200, 1, 2)
      .selectExpr("id", "id % 10 x", "if(id < 100, repeat(cast(id as string), 100000), 'short') s").cache()
    df.count()
    val query = df.filter("x = 5").select("id", "s")
    assert(query.selectExpr("sum(id)", "sum(length(s))").head().getLong(0) == 20 * 100)
    query.collect()
    assert(scanned(query) == 100 + 10)
    df.unpersist(blocking = true)
  }
}
