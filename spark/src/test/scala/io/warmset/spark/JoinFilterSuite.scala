package io.warmset.spark

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.execution.columnar.InMemoryTableScanExec
import org.apache.spark.sql.execution.exchange.{ReusedExchangeExec, ShuffleExchangeLike}
import org.scalatest.funsuite.AnyFunSuite

/** Keys of a join's small side in the scan of the large side: the same rows, of fewer that are scanned. */
class JoinFilterSuite extends AnyFunSuite with WarmsetSession {
  private val Rows = 20000L
  private val Off = "spark.warmset.joinFilters.enabled"

  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "500", "spark.warmset.rowGroup" -> "1m",
    "spark.warmset.statistics.enabled" -> "true", Off -> "true")

  private def facts: DataFrame = spark.range(0, Rows, 1, 2).selectExpr("id",
    "cast(id % 100 as byte) b8", "cast(id % 3000 - 1500 as short) sm", "if(id % 7 = 0, null, cast(id % 5000 as int)) i",
    "xxhash64(id % 4000) l", "date_add(date'2020-01-01', cast(id % 900 as int)) day",
    "timestamp'2020-01-01 00:00:00' + make_dt_interval(cast(id % 700 as int)) ts",
    "timestamp_ntz'2020-01-01 00:00:00' + make_dt_interval(cast(id % 700 as int)) ntz",
    "concat('s', id % 50) s", "cast(id % 60 as decimal(9,2)) dec", "cast(id % 40 as double) d")

  /** Rows that are not computed from what is cached. */
  private def apart(df: DataFrame): DataFrame = spark.createDataFrame(df.collectAsList(), df.schema)

  private def few(columns: String*): DataFrame = apart(
    facts.where("id % 1000 = 3").selectExpr(columns.zipWithIndex.map { case (c, n) => s"$c as k$n" }: _*).distinct())

  private def on(large: DataFrame, small: DataFrame, columns: String*): DataFrame =
    large.join(small.hint("broadcast"), columns.zipWithIndex.map { case (c, n) => large(c) === small(s"k$n") }.reduce(_ && _))

  private def scanned(df: DataFrame): Long =
    planNodes(df).collect { case s: InMemoryTableScanExec => s.metrics("numOutputRows").value }.maxOption.getOrElse(0L)

  private def answer(df: DataFrame): Seq[String] = df.collect().map((r: Row) => r.toString).toSeq.sorted

  private def without[T](body: => T): T = {
    spark.conf.set(Off, "false")
    try body
    finally spark.conf.set(Off, "true")
  }

  private def withFacts(body: DataFrame => Unit): Unit = {
    val df = facts.cache()
    df.count()
    try body(df)
    finally df.unpersist(blocking = true)
  }

  /** Answers with and without are the same, and not empty unless said; gives the rows scanned with and without. */
  private def compare(query: => DataFrame, empty: Boolean = false): (Long, Long) = {
    val filtered = query
    val got = answer(filtered)
    val plain = without {
      val df = query
      assert(got == answer(df))
      df
    }
    assert(got.isEmpty == empty)
    (scanned(filtered), scanned(plain))
  }

  test("keys of every whole type, alone and together") {
    withFacts { large =>
      for (keys <- Seq("b8", "sm", "i", "l", "day", "ts", "ntz").map(Seq(_)) ++
          Seq(Seq("i", "sm"), Seq("b8", "sm", "i"), Seq("l", "i"), Seq("day", "l"), Seq("s", "i"), Seq("dec", "sm"))) {
        val small = few(keys: _*)
        val (with_, without_) = compare(on(large, small, keys: _*).select("id", "d"))
        assert(without_ == Rows)
        assert(with_ < Rows / 2, s"$keys: $with_ of $without_ rows")
      }
    }
  }

  test("keys of other types change nothing") {
    withFacts { large =>
      for (key <- Seq("s", "dec", "d")) {
        val (with_, without_) = compare(on(large, few(key), key).select("id", "i"))
        assert(with_ == without_)
      }
    }
  }

  test("batches are skipped by the keys' bounds") {
    withFacts { large =>
      val small = spark.range(4000, 4020).selectExpr("id k0")
      val query = on(large, small, "id").select("d", "s")
      assert(query.collect().length == 20 && scanned(query) <= 20)
      val ends = spark.range(0, Rows, Rows - 1).selectExpr("id k0")
      val both = on(large, ends, "id").select("d", "s")
      assert(both.collect().length == 2 && scanned(both) <= 2)
    }
  }

  test("an empty side, keys that are null, and keys that are not there") {
    withFacts { large =>
      assert(compare(on(large, few("i").where("k0 < 0"), "i").select("id"), empty = true)._1 <= Rows)
      val nulls = spark.sql("select cast(null as int) k0 union all select 13 union all select -5")
      val (with_, _) = compare(on(large, nulls, "i").select("id"))
      assert(with_ < 10)
      compare(on(large, spark.sql("select cast(null as int) k0"), "i").select("id"), empty = true)
    }
  }

  test("of joins that keep rows without a match no row is taken out") {
    withFacts { large =>
      val small = few("i")
      val key = large("i") === small("k0")
      for (kind <- Seq("left", "left_anti")) {
        val (with_, without_) = compare(large.join(small.hint("broadcast"), key, kind).select("id", "i"))
        assert(with_ == without_, kind)
      }
      val (with_, _) = compare(large.join(small.hint("broadcast"), key, "left_semi").select("id", "i"))
      assert(with_ < Rows / 2)
      val (built, whole) = compare(small.hint("broadcast").join(large, key, "right").select("id", "k0"))
      assert(built == whole)
    }
  }

  test("through projections, filters and other joins, and not past what counts rows") {
    withFacts { large =>
      val small = few("i")
      val renamed = large.selectExpr("id n", "i + 1 more", "i as j", "l").where("more > 5")
      val (projected, _) = compare(renamed.join(small.hint("broadcast"), renamed("j") === small("k0")).select("n", "more"))
      assert(projected < Rows / 2)
      val two = few("l").withColumnRenamed("k0", "k1")
      val outer = spark.range(50).selectExpr("cast(id as byte) b", "id v").hint("broadcast")
      val (chained, _) = compare(on(large, small, "i").join(two.hint("broadcast"), large("l") === two("k1"))
        .join(outer, large("b8") === outer("b"), "left").select("id", "v"))
      assert(chained < Rows / 2)
      val numbered = large.selectExpr("i", "id", "monotonically_increasing_id() place")
      val (counted, all) = compare(numbered.join(small.hint("broadcast"), numbered("i") === small("k0")).select("id", "place"))
      assert(counted == all)
      val limited = large.orderBy("id").limit(3000)
      compare(limited.join(small.hint("broadcast"), limited("i") === small("k0")).select("id"))
      // A side that is looked up in itself, twice.
      val again = on(large, small, "i").select("id", "i")
      compare(again.union(again).groupBy("i").count())
    }
  }

  test("a side with most of the keys takes nothing out, and costs nothing") {
    withFacts { large =>
      val most = apart(facts.where("id % 10 < 8").selectExpr("i as k0").distinct())
      val (with_, without_) = compare(on(large, most, "i").select("id"))
      assert(with_ == without_)
    }
  }

  test("without adaptive execution, and where scans give rows, answers are the same") {
    withFacts { large =>
      for ((key, value) <- Seq("spark.sql.adaptive.enabled" -> "false", "spark.sql.codegen.wholeStage" -> "false",
          "spark.sql.inMemoryColumnarStorage.enableVectorizedReader" -> "false",
          "spark.sql.inMemoryColumnarStorage.partitionPruning" -> "false")) {
        spark.conf.set(key, value)
        try compare(on(large, few("i"), "i").select("id", "s"))
        finally spark.conf.unset(key)
      }
    }
  }

  /** Shuffles whose rows were those of another one. */
  private def reused(df: DataFrame): Int =
    planNodes(df).count { case r: ReusedExchangeExec => r.child.isInstanceOf[ShuffleExchangeLike]; case _ => false }

  test("what is shuffled from a cached scan is shuffled once for all that need the same") {
    withFacts { large =>
      large.createOrReplaceTempView("facts")
      few("i", "sm").createOrReplaceTempView("small")
      few("i", "sm").where("k0 > 2000").createOrReplaceTempView("fewer")
      def sums(of: String) = s"select l, sum(id) s from $of group by l"
      for (kernels <- Seq("true", "false"); of <- Seq("facts", "facts join small on i = k0")) {
        withSettings(Map("spark.warmset.kernels.enabled" -> kernels)) {
          def query = spark.sql(s"${sums(of)} having sum(id) >= (select max(s) from (${sums(of)}))")
          val once = query
          val got = answer(once)
          assert(reused(once) > 0, planNodes(once).head)
          withSettings(Map("spark.sql.exchange.reuse" -> "false")) {
            val twice = query
            assert(answer(twice) == got && got.nonEmpty && reused(twice) == 0)
          }
        }
      }
      // Other rows, keys or filters are no reason to.
      val joined = "facts join small on i = k0"
      for (other <- Seq("facts join fewer on i = k0", "facts join small on sm = k1", s"$joined where d > 5", "facts")) {
        val df = spark.sql(s"select s, count(*) from (${sums(joined)} union all ${sums(other)}) group by s")
        val got = answer(df)
        assert(reused(df) == 0, planNodes(df).head)
        withSettings(Map("spark.sql.exchange.reuse" -> "false"))(assert(answer(spark.sql(
          s"select s, count(*) from (${sums(joined)} union all ${sums(other)}) group by s")) == got))
      }
    }
  }
}
