package io.warmset.spark

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.storage.StorageLevel
import org.scalatest.funsuite.AnyFunSuite

/** Predicates evaluated on encoded columns: the answers of the uncached DataFrame, from fewer rows. */
class FilterSuite extends AnyFunSuite with WarmsetSession with Passing {
  private val Rows = 6000L

  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "200", "spark.warmset.rowGroup" -> "1m")

  private def unlessNull(every: Int, value: String): String =
    s"if((id + $every) % $every = 0, null, $value)"

  /** Half of the rows, then one in a hundred of the others, have phase 1. */
  private def rows(n: Long = Rows): DataFrame = spark.range(0, n, 1, 2).selectExpr(
    "id", s"if(id % ($n div 2) < $n div 4, 1L, id % 100) phase",
    unlessNull(7, "cast(pmod(xxhash64(id), 1000) as int)") + " i",
    unlessNull(5, "cast(id % 300 - 150 as short)") + " sm",
    unlessNull(6, "cast(id % 200 - 100 as byte)") + " b8",
    unlessNull(11, "if(id % 500 = 3, 9223372036854775807L, if(id % 500 = 4, -9223372036854775808L, " +
      "xxhash64(id) % 100000))") + " l",
    unlessNull(9, "if(id % 40 = 0, float('NaN'), if(id % 41 = 0, float('-0.0'), " +
      "cast(id % 500 / 8D as float)))") + " f",
    unlessNull(8, "case id % 50 when 0 then double('NaN') when 1 then double('-0.0') when 2 then 0D " +
      "when 3 then double('Infinity') when 4 then double('-Infinity') " +
      "else sqrt(cast(id as double)) end") + " d",
    unlessNull(10, "cast(id % 5000 as double) / 100") + " price",
    unlessNull(4, "cast(id % 900 as decimal(12,2)) / 4BD") + " raw",
    unlessNull(4, "cast((id % 900) / 4D as decimal(12,2))") + " dec",
    unlessNull(5, "cast((id % 800) / 8D as decimal(25,3))") + " big",
    unlessNull(5, "cast(concat(id % 9, '23456789012345678901.', id % 10) as decimal(38,10))") + " wide",
    unlessNull(3, "id % 2 = 0") + " flag", "true yes", "id >= 0 and id % 3 = 0 third",
    unlessNull(6, "concat('text ', id, repeat('x', cast(id % 20 as int)))") + " s",
    unlessNull(6, "concat('cat_', id % 8, '%')") + " cat",
    unlessNull(6, "concat(if(id % 2 = 0, 'Cat', 'cAT'), id % 8) collate UTF8_LCASE") + " lc",
    unlessNull(6, "cast(concat('b', id % 30) as binary)") + " bin",
    unlessNull(5, "date_add(date'2020-01-01', cast(id % 500 as int))") + " day",
    unlessNull(5, "timestamp'2020-01-01 00:00:00' + make_dt_interval(0, cast(id % 999 as int))") + " ts",
    unlessNull(5, "timestamp_ntz'2020-01-01 00:00:00' + make_dt_interval(cast(id % 99 as int))") + " ntz",
    unlessNull(5, "make_ym_interval(cast(id % 7 as int), 3)") + " ym",
    unlessNull(5, "make_dt_interval(cast(id % 50 as int), 1)") + " dt", "null nothing",
    unlessNull(5, "array(id, null)") + " arr",
    unlessNull(5, "named_struct('x', id, 'y', concat('y', id % 3))") + " st").drop("raw")

  private val flat = Seq("phase", "i", "sm", "b8", "l", "f", "d", "price", "dec", "big", "wide",
    "flag", "yes", "third", "s", "cat", "lc", "bin", "day", "ts", "ntz", "ym", "dt")

  private def compared(column: String, values: String*): Seq[String] =
    for (v <- values; op <- Seq("=", "<", "<=", ">", ">=", "<=>", "!=")) yield s"$column $op $v"

  private val comparisons: Seq[String] =
    compared("i", "500") ++
    compared("l", "9223372036854775807L", "-9223372036854775808L", "17L") ++
    compared("d", "double('NaN')", "-0.0D", "double('Infinity')", "40D") ++
    compared("f", "float('NaN')", "float('0')") ++ compared("price", "12.34D") ++
    compared("dec", "100.25", "100.255", "100") ++ compared("big", "50.125") ++
    compared("wide", "323456789012345678901.3", "5") ++
    compared("s", "'text 77'", "'text'") ++ compared("cat", "'cat_3%'") ++
    compared("day", "date'2020-03-03'") ++ compared("ts", "timestamp'2020-01-05 03:00:00'") ++
    compared("ym", "interval '3-3' year to month") ++ compared("dt", "interval '7 01' day to hour")

  private val predicates: Seq[String] = comparisons ++ Seq(
      "500 = i", "500 < i", "500 <= i", "500 > i", "500 >= i", "500 <=> i", "17 < b8", "-101 < sm",
      "b8 = 100", "sm < -149",
      "b8 > 127", "i > 3000000000", "i < -3000000000", "i between 100 and 110",
      "i between 110 and 100", "i > 990 and i < 5",
      "i <=> null", "s <=> null", "flag <=> null", "not (i <=> 5)", "not (s <=> null)",
      "i in (1, 2, 3)", "i in (1, null, 3)", "i not in (1, 2, 3)", "i not in (1, null)",
      "l in (5, 9223372036854775807L)",
      "i in (1,2,3,4,5,6,7,8,9,10,11,12,13)", "i in (1,2,3,4,5,6,7,8,9,10,11,12,null)",
      "i not in (1,2,3,4,5,6,7,8,9,10,11,12,13)", "dec in (1.25, 2.50, 100.25)",
      "big in (1.125, 77.125)", "wide in (1, 2)",
      "dec in (1.25,2.25,3.25,4.25,5.25,6.25,7.25,8.25,9.25,10.25,11.25)", "dec in (1.255, 2.25)",
      "d in (0D, 40D, double('NaN'))",
      "s in ('text 1x', 'text 20', null)", "cat in ('cat_1%', 'cat_2%')",
      "day in (date'2020-03-03', date'2021-01-01')",
      "cat in ('a','b','c','d','e','f','g','h','i','j','k','cat_5%')",
      "cat not in ('cat_1%', 'cat_2%')",
      "flag", "not flag", "flag = true", "flag = false", "flag in (true, false)",
      "flag in (false, null)", "flag <=> false",
      "flag < true", "flag > false", "flag >= true", "flag <= false", "yes", "not yes",
      "yes and third", "flag and not third",
      "third in (true, false)", "yes in (false, null)", "flag != third",
      "i is null", "i is not null", "s is null", "cat is not null", "nothing is null",
      "nothing is not null", "arr is null",
      "st is not null", "st.x < 100", "arr[0] > 5950", "lc is null", "bin is not null",
      "flag is null and s is null",
      "i < 10 or l < 0", "s = 'text 20' or s is null", "s is null or cat = 'cat_3%'",
      "not (i < 990)", "not (i > 10 or i < 5)",
      "s like 'text 1%'", "s like '%xx'", "s like '%9x%'", "s like 'text _9%'", "s like 'text'",
      "not s like 'text 1%'",
      "cat like 'cat\\\\_3\\\\%'", "cat like '%\\\\%'", "cat like 'cat!_3%' escape '!'",
      "s like ''", "s like '%'",
      "s like '%x_x%'", "cat like null", "s rlike '^text 1+x*$'", "s ilike 'TEXT 11%'",
      "startswith(s, 'text 59')", "endswith(s, '7xxx')", "contains(s, ' 123')",
      "startswith(cat, '')", "contains(cat, null)",
      "s > 'text 5' and s < 'text 51'", "'text 5' <= s and 'text 55' > s", "s >= 'u'", "s < 'a'",
      "s <= ''", "s between 'text 2' and 'text 21'",
      "not (s > 'text 5' and s < 'text 6')", "s = cat", "s < cat", "length(s) = 7",
      "upper(cat) = 'CAT_3%'",
      "lc = 'CAT3'", "lc in ('cAt1', 'CAT2')", "startswith(lc, 'ca')", "lc > 'cat5'",
      "lc like 'CAT1'",
      "bin = X'6237'", "bin > X'6237'", "ntz < timestamp_ntz'2020-01-03 00:00:00'",
      "ts between timestamp'2020-01-01 05:00:00' and timestamp'2020-01-01 09:00:00'",
      "year(day) = 2021", "d > 1 and d < 5", "d >= 0D and d <= -0.0D", "isnan(d)", "not isnan(d)",
      "f between 5 and 6", "d <=> 0D",
      "phase = 1", "phase = 7", "phase = 1 and i < 50",
      "phase = 1 and cat = 'cat_1%' and dec between 50 and 60",
      "i < 800 and s like 'text 1%' and flag and d > 10 and l in (select id from range(3))",
      "id % 2 = 0 and i = 77",
      "id = 4321", "id < 0", "i = 5 and 1 = 0",
      "i = 500 and (s is null or s like '%x') and price < 30", "i < rand(5) * 0 + 3",
      "d > 70 or cat in ('cat_0%') and f < 3", "coalesce(i, 5) = 5", "i + 1 = 77", "i = sm",
      "i = cast('77' as int)",
      "b8 = 3 and sm = -147 and l is not null")

  private def answer(df: DataFrame): Seq[(Long, Long)] =
    df.selectExpr("id", s"xxhash64(${flat.mkString(", ")})").collect().map(r => (r.getLong(0),
      r.getLong(1))).toSeq.sorted

  private def withConf[T](settings: (String, String)*)(body: => T): T = {
    settings.foreach { case (k, v) => spark.conf.set(k, v) }
    try body
    finally settings.foreach { case (k, _) => spark.conf.unset(k) }
  }

  /** Asked before anything is cached: Spark would put the cache in the place of the same plan. */
  private lazy val expected: Map[String, Seq[(Long, Long)]] = {
    spark.catalog.clearCache()
    val all = answer(rows())
    passing(rows(), predicates).map { case (p, ids) => p -> all.filter(row => ids(row._1)) }
  }

  private def scanned(df: DataFrame): Long =
    planNodes(df).collect { case s: InMemoryTableScanExec => s.metrics("numOutputRows").value }.sum

  private val vectorized = "spark.sql.inMemoryColumnarStorage.enableVectorizedReader"
  private val modes = Seq(
    "adaptive, columns" -> Seq("spark.sql.adaptive.enabled" -> "true"),
    "not adaptive, columns, interpreted" -> Seq("spark.sql.adaptive.enabled" -> "false",
      "spark.sql.codegen.wholeStage" -> "false"),
    "not adaptive, rows" -> Seq("spark.sql.adaptive.enabled" -> "false", vectorized -> "false"))

  for ((name, conf) <- modes) test(s"every predicate gives the rows of the uncached DataFrame: $name") {
    assert(expected.count(_._2.nonEmpty) > 150)
    withConf(conf: _*) {
      val df = rows().persist(StorageLevel.MEMORY_AND_DISK)
      df.count()
      assert(regions.length == 2)
      inPairs(predicates) { p =>
        val got = answer(df.filter(p))
        assert(got == expected(p), s"$p: ${got.length} rows, expected ${expected(p).length}")
      }
      df.unpersist(blocking = true)
    }
  }

  test("a pattern that ends in its escape fails as it does uncached, and only where Spark looks at it") {
    val bad = Seq("s like 'abc!' escape '!'", "i = 3 and s like 'abc!' escape '!'",
      "s = '' or s like 'abc!' escape '!'")
    def outcome(df: DataFrame, p: String) = scala.util.Try(answer(df.filter(p))).toEither.left.map(_.getClass)
    val uncached = bad.map(outcome(rows(), _))
    val df = rows().cache()
    df.count()
    assert(bad.map(outcome(df, _)) == uncached)
    df.unpersist(blocking = true)
  }

  test("rows are taken out before they are decoded") {
    val df = rows().cache()
    df.count()
    // As columns only: of a scan that gives rows Spark counts what it holds, not what it gives.
    withConf(vectorized -> "true") {
      for ((p, most) <- Seq("i = 500" -> 40L, "cat = 'cat_3%' and i < 100" -> 150L,
      "s like '%3xxx'" -> 300L,
          "dec = 100.25" -> 20L, "d between 30 and 31" -> 250L, "i in (1, 2, 3)" -> 60L,
          "flag and yes and i < 20" -> 150L)) {
        val query = df.filter(p)
        val rows = query.selectExpr("id", "s").collect().length
        val scan = df.filter(p).selectExpr("id", "s")
        scan.collect()
        assert(rows > 0 && scanned(scan) >= rows && scanned(scan) <= most, s"$p: ${scanned(scan)} rows for $rows")
      }
    }
    withConf("spark.sql.inMemoryColumnarStorage.partitionPruning" -> "false") {
      val scan = df.filter("i = 500").select("id")
      scan.collect()
      assert(scanned(scan) == Rows, "the setting turns it off")
    }
    df.unpersist(blocking = true)
  }

  test("after batches of which most rows pass, selective ones are right and thinned out again") {
    val df = rows(40000).cache()
    df.count()
    val query = df.filter("phase = 1").select("id")
    // Each partition: 50 whole batches, then 50 of two rows, of which the filter rests through some.
    assert(query.collect().length == 20000 + 200)
    assert(scanned(query) < 40000 && scanned(query) >= 20200, scanned(query).toString)
    df.unpersist(blocking = true)
  }

  test("nested columns beside a filter, limits, and consumers of rows") {
    val nested = Seq("id", "arr", "st", "nothing")
    val want = rows().filter("i < 100 and cat = 'cat_2%'").select(nested.head, nested.tail: _*).orderBy("id").collect().toSeq
    val ids = rows().filter("i < 100").select("id").collect().map(_.getLong(0)).toSet
    val df = rows().cache()
    df.count()
    assert(df.filter("i < 100 and cat = 'cat_2%'").select(nested.head, nested.tail: _*).orderBy("id").collect().toSeq == want)
    val few = df.filter("i < 100")
    for (n <- Seq(1, 10, 100)) {
      val limited = few.select("id").limit(n).collect().map(_.getLong(0))
      assert(limited.length == n && limited.forall(ids))
      assert(few.orderBy("id").select("id").limit(n).collect().map(_.getLong(0)).toSeq == ids.toSeq.sorted.take(n))
    }
    assert(few.select("id").rdd.map(_.getLong(0)).collect().toSet == ids)
    assert(few.select("id").toLocalIterator().asScala.map(_.getLong(0)).toSet == ids)
    assert(few.count() == ids.size)
    assert(few.select("id").coalesce(1).collect().map(_.getLong(0)).toSet == ids)
    val joined = few.as("a").join(df.filter("i < 50").as("b"), "id").count()
    assert(joined == rows().filter("i < 50").count())
    df.unpersist(blocking = true)
  }

  test("a cache made of a filtered cache") {
    val want = answer(rows().filter("i < 100 and s like '%x%'"))
    val df = rows().cache()
    df.count()
    val second = df.filter("i < 100 and s like '%x%'").cache()
    assert(answer(second) == want && answer(second.filter("i >= 0")) == want)
    second.unpersist(blocking = true)
    df.unpersist(blocking = true)
  }

  test("long strings and strings of greatest bytes are pruned by short bounds, rightly") {
    def long = spark.range(0, 40, 1, 1).selectExpr("id", "concat(repeat(cast(id % 10 as string), 1000000), id) s",
      "cast(unhex(concat(repeat('FF', 70 + cast(id as int)), if(id % 2 = 0, '', '41'))) as string) top",
      "cast(concat(unhex(repeat('E38182', 30)), unhex(if(id % 3 = 0, 'E3', 'FF'))) as string) cut",
      "concat(repeat('é', 31), 'a', repeat('é', cast(id as int))) odd")
    val asked = Seq("s = concat(repeat('3', 1000000), '13')", "startswith(s, '33')",
      "startswith(s, repeat('3', 70))",
      "startswith(s, concat(repeat('3', 1000000), '2'))", "s > '5'", "s < '5'",
      "s >= repeat('9', 1000000)", "s > 'a'",
      "top = cast(unhex(repeat('FF', 72)) as string)",
      "top > cast(unhex(repeat('FF', 90)) as string)",
      "startswith(top, cast(unhex('FFFF') as string))",
      "startswith(top, cast(unhex(repeat('FF', 100)) as string))",
      "cut = cast(unhex(concat(repeat('E38182', 30), 'FF')) as string)", "startswith(cut, 'あ')",
      "startswith(cut, cast(unhex('E3') as string))", "startswith(cut, repeat('あ', 30))",
      "cut > repeat('あ', 30)",
      "startswith(odd, repeat('é', 31))", "odd = concat(repeat('é', 31), 'a', repeat('é', 9))",
      "startswith(odd, 'é')",
      "odd >= concat(repeat('é', 31), 'aé')", "odd > concat(repeat('é', 31), 'b')")
    def ids(df: DataFrame, p: String) = df.filter(p).select("id").collect().map(_.getLong(0)).toSeq.sorted
    val want = asked.map(p => p -> ids(long, p))
    withConf("spark.sql.inMemoryColumnarStorage.batchSize" -> "4") {
      val df = long.cache()
      df.count()
      want.foreach { case (p, expected) => assert(ids(df, p) == expected, p) }
      assert(want.count(_._2.nonEmpty) > 15)
      val none = df.filter("s > 'a'").select("id")
      assert(none.collect().isEmpty && scanned(none) == 0, "bounds still prune")
      val heap = BlockAccess.stored(spark.sparkContext).map(_.memSize).sum
      assert(heap < 200000, s"$heap bytes of handles for ${40 * 1000000} bytes of text")
      df.unpersist(blocking = true)
    }
  }

  test("batches larger than the pool, filtered on their way in from disk") {
    spark.stop()
    spark = newSession(Map("spark.warmset.memory" -> "16m", "spark.warmset.rowGroup" -> "4m",
      "spark.sql.inMemoryColumnarStorage.batchSize" -> "10000"))
    def many = spark.range(0, 1500000, 1, 2).selectExpr("id", "xxhash64(id) h",
      "concat('s', xxhash64(id + 1)) s")
    val asked = Seq("h % 1000 = 1 and id > 5", "h between 0 and 1000000000000000",
      "s like 's123%'", "id in (5, 700000, 1499999)",
      "h > 0")
    def sums(p: String, df: DataFrame): Row = df.filter(p).selectExpr("count(1)", "bit_xor(h)",
      "max(s)", "sum(id)").head()
    val want = asked.map(p => sums(p, many))
    val df = many.cache()
    df.count()
    for (_ <- 1 to 2) assert(asked.map(p => sums(p, df)) == want)
    df.unpersist(blocking = true)
    spark.stop()
    spark = newSession()
  }
}
