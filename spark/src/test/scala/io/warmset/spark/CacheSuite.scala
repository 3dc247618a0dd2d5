package io.warmset.spark

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.WholeStageCodegenExec
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.functions._
import org.apache.spark.storage.StorageLevel
import org.scalatest.funsuite.AnyFunSuite

/** What users do with a cache, in local mode: right answers, from regions, with nothing left. */
class CacheSuite extends AnyFunSuite with WarmsetSession {
  override protected def settings: Map[String, String] =
    Map("spark.sql.inMemoryColumnarStorage.batchSize" -> "1000")

  private def rows(n: Long, partitions: Int = 4): DataFrame =
    spark.range(0, n, 1, partitions).selectExpr(
      "id", "cast(id % 7 as int) small", "id * 1.5 d", "if(id % 3 = 0, null, concat('s', id)) s",
      "cast(id as decimal(12,2)) dec", "id % 2 = 0 flag", "date_add(date'2020-01-01', cast(id % 500 as int)) day")

  private def answers(df: DataFrame): Seq[Row] = Seq(
    df.agg(sum("id"), sum("small"), sum("d"), count("s"), sum("dec")),
    df.filter("small = 3 and s is not null").agg(min("s"), max("day"), count(lit(1))),
    df.groupBy("small", "flag").agg(sum("d"), max("s")).orderBy("small", "flag"),
    df.orderBy(desc("id")).limit(5)).flatMap(_.collect())

  private def checkCached(df: DataFrame, level: StorageLevel): Unit = {
    val expected = answers(df)
    df.persist(level)
    try {
      df.count()
      assert(answers(df) == expected)
      assert(answers(df) == expected)
    } finally df.unpersist(blocking = true)
  }

  for (aqe <- Seq(true, false)) {
    test(s"a cached DataFrame is read from regions as columns, adaptive execution $aqe") {
      spark.conf.set("spark.sql.adaptive.enabled", aqe)
      try {
        val df = rows(20000)
        val expected = answers(df)
        df.cache().count()
        assert(regions.length == 4)
        val query = df.filter("small = 3").selectExpr("small + 1", "d")
        query.collect()
        assert(readsAsColumns(query), planNodes(query).mkString("\n"))
        assert(answers(df) == expected)
        val code = planNodes(query).collect { case w: WholeStageCodegenExec => w.doCodeGen()._2.body }
        assert(code.exists(_.contains("(io.warmset.columns.WarmIntVector)")),
          "generated code must call concrete vector classes")
        df.unpersist(blocking = true)
      } finally spark.conf.unset("spark.sql.adaptive.enabled")
    }
  }

  test("the row path reads the same") {
    spark.conf.set("spark.sql.inMemoryColumnarStorage.enableVectorizedReader", "false")
    try {
      val df = rows(5000)
      val expected = df.collect().toSeq
      df.cache()
      assert(df.collect().toSeq == expected)
      assert(!readsAsColumns(df.filter("id > 3")))
      df.unpersist(blocking = true)
    } finally spark.conf.unset("spark.sql.inMemoryColumnarStorage.enableVectorizedReader")
  }

  test("without whole-stage code generation") {
    spark.conf.set("spark.sql.codegen.wholeStage", "false")
    try checkCached(rows(5000), StorageLevel.MEMORY_AND_DISK)
    finally spark.conf.unset("spark.sql.codegen.wholeStage")
  }

  private val levels = {
    import StorageLevel._
    Seq("MEMORY_ONLY" -> MEMORY_ONLY, "MEMORY_AND_DISK" -> MEMORY_AND_DISK,
      "MEMORY_ONLY_SER" -> MEMORY_ONLY_SER, "MEMORY_AND_DISK_SER" -> MEMORY_AND_DISK_SER,
      "OFF_HEAP" -> OFF_HEAP, "PySpark's MEMORY_AND_DISK" -> StorageLevel(true, true, false, false, 1),
      "MEMORY_AND_DISK_2" -> MEMORY_AND_DISK_2)
  }
  for ((name, level) <- levels) {
    test(s"$name keeps its data in regions") {
      val df = rows(10000)
      df.persist(level).count()
      assert(regions.length == 4 && segments >= 4)
      assert(df.storageLevel == level, "the user sees the level that was asked for")
      df.unpersist(blocking = true)
      eventually(assert(regions.isEmpty))
      checkCached(rows(8000), level)
    }
  }

  for ((name, level) <- Seq("DISK_ONLY" -> StorageLevel.DISK_ONLY,
      "DISK_ONLY_2" -> StorageLevel.DISK_ONLY_2)) {
    test(s"$name is Spark's disk store, without regions") {
      val df = rows(10000)
      df.persist(level).count()
      assert(regions.isEmpty)
      checkCached(rows(8000), level)
    }
  }

  test("CACHE TABLE, UNCACHE TABLE and REFRESH TABLE from SQL") {
    rows(3000).createOrReplaceTempView("t")
    spark.sql("CACHE TABLE t OPTIONS ('storageLevel' 'MEMORY_AND_DISK_SER')")
    assert(regions.nonEmpty)
    assert(spark.sql("select sum(id) from t").head().getLong(0) == 3000L * 2999 / 2)
    spark.sql("UNCACHE TABLE t")
    eventually(assert(regions.isEmpty))
    spark.sql("CACHE LAZY TABLE t2 AS SELECT id, s FROM t WHERE id < 10")
    assert(spark.table("t2").count() == 10)
    spark.sql("UNCACHE TABLE t2")
    spark.sql("DROP VIEW t")
  }

  test("a cache over a cache takes columns in") {
    val first = rows(6000).cache()
    first.count()
    val second = first.select("id", "s", "dec").cache()
    val expected = rows(6000).select("id", "s", "dec").orderBy("id").collect().toSeq
    assert(second.orderBy("id").collect().toSeq == expected)
    assert(regions.length == 8)
    first.unpersist(blocking = true)
    assert(second.orderBy("id").collect().toSeq == expected)
    second.unpersist(blocking = true)
  }

  test("count(*) pins nothing and counts right") {
    val df = rows(5000).cache()
    assert(df.count() == 5000)
    assert(df.count() == 5000)
    assert(df.filter("s is null").count() == 1667)
    df.unpersist(blocking = true)
  }

  test("no rows, no columns, empty partitions") {
    val none = spark.range(0).cache()
    assert(none.count() == 0 && none.collect().isEmpty)
    val sparse = spark.range(0, 3, 1, 3).filter("id = 1").cache()
    assert(sparse.collect().map(_.longValue).toSeq == Seq(1L))
    val noColumns = spark.range(10).select().cache()
    assert(noColumns.count() == 10)
    Seq(none.toDF(), sparse.toDF(), noColumns).foreach(_.unpersist(blocking = true))
  }

  test("limit reads the first rows and leaves nothing pinned") {
    val df = rows(100000, 2).cache()
    df.count()
    assert(df.limit(3).collect().length == 3)
    assert(df.head(2).length == 2)
    assert(df.filter("small = 5").limit(1).collect().length == 1)
    eventually(assert(pins == 0))
    df.unpersist(blocking = true)
  }

  test("statistics prune batches") {
    val df = spark.range(0, 10000, 1, 1).selectExpr("id", "cast(id as double) d", "cast(id as string) s",
      "cast(id as decimal(20,3)) big").cache()
    df.count()
    for ((predicate, expected) <- Seq("id = 4321" -> 1L, "d >= 9990" -> 10L, "s = '77'" -> 1L,
        "big < 5" -> 5L, "id > 20000" -> 0L, "s > 'a'" -> 0L, "id in (1, 9999)" -> 2L)) {
      assert(df.filter(predicate).count() == expected, predicate)
    }
    def rowsShown(predicate: String): Long = {
      val scan = df.filter(predicate)
      scan.collect()
      planNodes(scan).collect { case s: InMemoryTableScanExec => s.metrics("numOutputRows").value }.sum
    }
    // Not evaluated on encoded columns, so that only whole batches are left out.
    assert(rowsShown("id = 4321 or id = 4330") == 1000, "one batch of ten is read")
    assert(rowsShown("id = 4321") == 1, "and only the row that passes is shown")
    df.unpersist(blocking = true)
  }

  test("nested, wide and rare types come back") {
    val df = spark.range(0, 300, 1, 2).selectExpr("id", "array(id, null, id + 1) a",
      "map(concat('k', id), id) m", "named_struct('x', id, 'y', array(named_struct('z', 's'))) st",
      "cast(id as decimal(38,10)) wide", "make_interval(1, 2, 0, 3, 4, 5, 6.5) iv",
      "make_dt_interval(cast(id as int)) dt", "make_ym_interval(cast(id as int)) ym",
      "cast(concat('b', id) as binary) bin", "timestamp_millis(id) ts", "null nothing",
      "cast(timestamp_millis(id) as timestamp_ntz) ntz", "parse_json(concat('{\"a\":', id, '}')) v",
      "cast(id % 100 as byte) b", "cast(id as short) sh", "cast(id as float) f")
    def shown: Seq[String] =
      df.withColumn("bin", hex(col("bin"))).orderBy("id").collect().map(_.toString).toSeq
    val expected = shown
    df.cache()
    assert(shown == expected)
    assert(df.selectExpr("sum(a[0])", "max(m['k7'])", "sum(st.x)", "max(wide)", "max(to_json(v))").collect().toSeq ==
      spark.createDataFrame(df.rdd, df.schema).selectExpr("sum(a[0])", "max(m['k7'])", "sum(st.x)",
        "max(wide)", "max(to_json(v))").collect().toSeq)
    df.unpersist(blocking = true)
  }

  test("values larger than a segment") {
    val df = spark.range(0, 6, 1, 2).selectExpr("id", "repeat(cast(id as string), 3000000) s").cache()
    assert(df.selectExpr("sum(length(s))", "min(substr(s, 2999999, 1))").head().toSeq == Seq(18000000L, "0"))
    df.unpersist(blocking = true)
  }

  test("more than a hundred columns, by the row path") {
    val df = spark.range(0, 2000, 1, 2).select((0 until 130).map(i => (col("id") + i).as(s"c$i")): _*)
    val expected = df.agg(sum("c0"), sum("c129")).collect().toSeq
    df.cache()
    assert(df.agg(sum("c0"), sum("c129")).collect().toSeq == expected)
    df.unpersist(blocking = true)
  }

  test("a small partition stays on the heap") {
    val s = newSession(Map("spark.warmset.smallPartition" -> "1m"))
    spark = s
    try {
      val df = rows(1000).cache()
      assert(df.count() == 1000 && regions.isEmpty)
      assert(df.agg(sum("id")).head().getLong(0) == 499500)
      df.unpersist(blocking = true)
    } finally spark = newSession()
  }
}
