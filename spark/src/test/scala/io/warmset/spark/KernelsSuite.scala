package io.warmset.spark

import io.warmset.spark.kernels.{AggregationMetrics, KernelPlan, PartialAggregation, RowAggregate}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.aggregate.HashAggregateExec
import org.apache.spark.sql.functions.{col, sum}
import org.apache.spark.sql.types._
import org.scalatest.funsuite.AnyFunSuite

/** Aggregates on encoded columns: where they are used, what they answer, and why not. */
class KernelsSuite extends AnyFunSuite with WarmsetSession with KernelAnswers {
  private def facts: DataFrame = spark.range(0, 20000, 1, 2).selectExpr("id",
    "cast(id % 5 as byte) b8", "cast(id % 300 - 150 as short) sm", "if(id % 7 = 0, null, cast(id % 500 as int)) i",
    "xxhash64(id) l", "date_add(date'2020-01-01', cast(id % 900 as int)) day",
    "concat('s', id % 5) s", "if(id % 3 = 0, null, concat('t', id % 4)) t", "uuid() u",
    "cast(id % 6000 as decimal(15,2)) / 7 q", "cast(id % 6000 / 4.0 as decimal(15,2)) price",
    "cast(id % 11 / 100.0 as decimal(15,2)) discount", "cast(id % 9 / 100.0 as decimal(15,2)) tax",
    "cast(id as decimal(30,5)) * 1000000000000000 wide", "cast(id % 40 as double) / 8 d", "id % 2 = 0 flag")

  private def withFacts(body: => Unit): Unit = withCached(facts)(body)

  private def reason(text: String): String = {
    val nodes = planNodes(spark.sql(text))
    assert(!nodes.exists(_.isInstanceOf[WarmsetAggregateExec]), text)
    val df = spark.sql(text)
    df.collect()
    planNodes(df).collectFirst { case c: CachedColumnsExec if c.noKernels.isDefined => c.noKernels.get }.getOrElse("")
  }

  test("the queries of TPC-H that this is for") {
    withFacts {
      val q1 = "select s, t, sum(price), sum(price * (1 - discount)), sum(price * (1 - discount) * (1 + tax)), avg(price), " +
        "avg(discount), count(*) from facts where day <= date'2020-01-01' + interval '800' day group by s, t"
      assert(compare(q1, isNative = true).length == 25)
      val q6 = "select sum(price * discount) from facts where day >= date'2020-02-01' and day < date'2021-02-01' " +
        "and discount between 0.05 and 0.07 and price < 900"
      assert(compare(q6, isNative = true).length == 1)
    }
  }

  test("every function of every type, with and without keys") {
    withFacts {
      for (keys <- Seq("", "b8", "s, t", "sm", "i", "t, day")) {
        val functions = for (c <- Seq("b8", "sm", "i", "l", "id", "price", "wide", "d")) yield {
          val sum = if (c == "l") "count(l)" else s"sum($c)"
          s"$sum, avg($c), min($c), max($c), count($c)"
        }
        compare(s"select ${if (keys.isEmpty) "" else keys + ","} ${functions.mkString(", ")}, count(1) from facts " +
          (if (keys.isEmpty) "" else s"group by $keys"), isNative = true)
      }
      compare("select min(day), max(day), count(s), count(t), count(flag) from facts where t is not null", isNative = true)
    }
  }

  test("the least and the greatest text, and how long texts are") {
    withFacts {
      val lengths = "sum(length(u)), avg(length(t)), max(length(s)), count(t)"
      for (filter <- Seq("true", "b8 <> 3", "id < 0", "t is null", "length(t) = 2 and s in ('s1', 's3', 's4')")) {
        compare(s"select max(u), min(u), max(t), min(t), max(s), min(s), $lengths from facts where $filter", isNative = true)
        // Of no row at all Spark makes no groups, and no node.
        compare(s"select s, $lengths from facts where $filter group by s", isNative = filter != "id < 0")
      }
      compare("select sum(i) from facts where s like 's%1'", isNative = true)
    }
    val texts = "transform(sequence(0, id % 5), i -> array('', 'z', 'ß', '€', '\ud83d\ude00', '\u0000')[cast((id + i) % 6 as int)])"
    withCached(spark.range(0, 3000, 1, 2).selectExpr("id", s"array_join($texts, '') x", "cast(x'C3FFE2' as string) broken")) {
      assert(compare("select max(x), min(x), sum(length(x)), sum(length(broken)), max(broken) from facts", isNative = true).length == 1)
      compare("select id % 7 k, sum(length(x)), max(length(x)) from facts group by id % 7")
    }
  }

  test("filters of all kinds") {
    withFacts {
      for (filter <- Seq("i between 100 and 200", "i > 100 and i * 2 <= 100", "i in (3, 4, 1000, null)", "s = 's3'", "t in ('t1', 'zz')",
          "price < 100", "price = 2.25", "d >= 2.5", "d < double('nan')",
          "2 <= b8", "b8 < sm", "wide > 5000000000000000000", "i + b8 > 300",
          "day > date'2021-01-01' and i is not null and t is not null", "price * discount < 12.5", "d = -0.0")) {
        // Adaptive execution needs no aggregate where it sees that there are no rows.
        val isEmpty = filter == "i > 100 and i * 2 <= 100"
        val answer = compare(s"select s, count(*), sum(i), min(d) from facts where $filter group by s", isNative = !isEmpty)
        assert(answer.isEmpty == isEmpty, filter)
      }
    }
  }

  test("conditions in filters, in choices, and of aggregates") {
    withFacts {
      for (filter <- Seq("i = 3 or s = 's1'", "not (i > 100 and t = 't1') or u like '%ab%'",
          "t is null and substring(u, 1, 2) in ('a0', 'b1', 'c')", "case when i > 10 then b8 else sm end > 2 and coalesce(i, b8) < 300")) {
        assert(compare(s"select s, count(*), sum(i), min(d) from facts where $filter group by s", isNative = true).nonEmpty)
      }
      val conditions = Seq("i = 3 or s = 's1'", "not (i > 100 and t = 't1')", "i is null or i < 20", "t is null", "t like 't1%'",
        "t like '%1' or u like '%ab%'", "substring(u, 1, 2) in ('a0', 'b1', 'c')", "substring(s, 1, 5) = 's3'", "not (t in ('t1', 't2'))",
        "i not in (3, 5)", "i between 30 and 60 or i between 100 and 102", "price > 100 or discount = 0.05", "d > 2.5 and not d > 3",
        "case when i > 10 then b8 else sm end > 2", "coalesce(i, b8) < 3", "t <> 't1'")
      for (some <- conditions.grouped(6); by <- Seq("", " group by b8")) {
        val functions = some.map(c => s"count(case when $c then 1 end), sum(case when $c then price else 0 end), sum(if($c, d, -d)), " +
          s"avg(i) filter (where $c), count(*) filter (where $c), count(t) filter (where $c), max(wide) filter (where $c), " +
          s"sum(case when $c then 1 when b8 > 2 then i end)")
        compare(s"select ${functions.mkString(", ")}, min(coalesce(i, -sm)) from facts$by", isNative = true)
      }
      compare("select sum(i), count(*) from facts where not (i in (3, null) or s = 's1')")
      compare("select sum(i), count(*) from facts where s <> 's1' or null = i")
    }
  }

  test("keys that are expressions") {
    withFacts {
      for (key <- Seq("year(day)", "quarter(day), s", "month(day), year(day)", "day(day)", "i > 100", "t, b8 * 2", "price + 1",
          "case when i < 9 then 'a' end", "case when i > 100 then 1 when t = 't1' then 2 end", "coalesce(sm, 5), t like 't1%'",
          "cast(i + 1 as bigint), b8", "year(date_add(day, i))", "l % 10")) {
        val isNative = !Seq("'a'", "date_add", "% 10").exists(key.contains)
        assert(compare(s"select $key, count(*), sum(price), min(d) from facts where b8 <> 3 group by $key", isNative).nonEmpty)
      }
      // Sums of two bigints need not fit: such batches go row by row.
      compare("select id + l, count(*) from facts where id < 100 group by id + l")
    }
  }

  test("no rows, no batches, one row") {
    for (rows <- Seq("id < 0", "id = 77")) {
      withCached(facts.where(rows)) {
        // Adaptive execution needs no aggregate where it sees that there are no rows.
        compare("select s, sum(price), avg(d) from facts group by s", isNative = rows != "id < 0")
        compare("select sum(price), avg(d), min(i), count(*), sum(d), sum(id) from facts", isNative = true)
      }
    }
    withFacts {
      compare("select sum(price), avg(d), min(i), count(*), sum(d), sum(id) from facts where id < -5", isNative = true)
    }
  }

  test("sums that leave their type: null, an error, or wrapped, as Spark has it") {
    for (ansi <- Seq("true", "false")) {
      withSetting("spark.sql.ansi.enabled", ansi) {
        withCached(spark.range(0, 100, 1, 1).selectExpr("id", "9223372036854775807 - id as l", "cast(repeat('9', 38) as decimal(38,0)) w",
            "cast(id as int) * 20000000 i", "cast(99999999999999.9 as decimal(15,1)) p")) {
          for (sum <- Seq("sum(l)", "sum(w)", "avg(w)", "sum(w - w)", "sum(l + id)", "sum(i * 2)", "sum(w * 10)", "sum(p * p * p)",
              "sum(-l)", "max(w)", "sum(w) + sum(l)")) {
            compare(s"select $sum, count(*) from facts")
            compare(s"select cast(id % 3 as byte) k, $sum from facts group by k")
          }
        }
      }
    }
  }

  /** Batches in native code and by rows. */
  private def batches(query: String): (Long, Long) = compareCounted(query)

  test("sums close to the bounds of their type, and products of which only the factors' bounds are too large") {
    for (ansi <- Seq("true", "false")) {
      withSetting("spark.sql.ansi.enabled", ansi) {
        withCached(spark.range(0, 20000, 1, 2).selectExpr("cast(id % 5 as byte) k", "1700000000000000 + id * 1000003 us",
            "cast(if(id % 2 = 0, 2000000000, 3) as int) a", "cast(if(id % 2 = 0, 1, 70000) as int) b",
            "if(id % 2 = 0, 1, -1) * (9223372036854775807 - id div 2) l",
            "if(id % 2 = 0, 1, -1) * (cast(repeat('9', 38) as decimal(38,0)) - id) w")) {
          val sums = "sum(a * b), sum(l), sum(w), avg(w), sum(a * b - 5)"
          for (of <- Seq(s"k, sum(us), sum(us - 5), $sums from facts where a > 0 group by k", s"$sums from facts")) {
            val (native, byRows) = batches(s"select count(*), $of")
            assert(native == 40 && byRows == 0, s"$ansi, $of: $native, $byRows")
          }
          // These leave their type: an error, of whose task nothing is counted, or a sum that wraps.
          val (native, _) = batches("select sum(us), count(*) from facts")
          assert(ansi == "true" || native == 40, native)
        }
      }
    }
  }

  test("rows before a sum leaves its type are added in native code, those after it by rows") {
    withSetting("spark.sql.ansi.enabled", "false") {
      withCached(spark.range(0, 40000, 1, 1).selectExpr("id % 30000 many", "cast(id % 3 as byte) few",
          "cast(if(id % 5000 > 4990, repeat('9', 38), id) as decimal(38,0)) w", "sqrt(id) d", "concat('t', xxhash64(id)) t")) {
        for (key <- Seq("few", "many"); functions <- Seq("sum(w)", "sum(d), sum(w), count(d), max(w)", "avg(w), min(d)")) {
          val (native, byRows) = batches(s"select $key, $functions from facts group by $key")
          assert(native > 0 && byRows > 0, s"$key, $functions")
        }
        compare("select sum(w), sum(d), count(*) from facts where many > 20000", isNative = true)
        val (native, byRows) = batches("select max(t), min(t), sum(length(t)), sum(w), count(*) from facts")
        assert(native > 0 && byRows > 0)
      }
    }
  }

  test("many groups") {
    withCached(spark.range(0, 100000, 1, 2).selectExpr("id div 2 n", "uuid() u", "cast(id % 9 as decimal(12,2)) p")) {
      assert(compare("select n, sum(p), min(p), count(*) from facts group by n", isNative = true).length == 50000)
      assert(compare("select u, sum(p) from facts group by u", isNative = true).length == 100000)
      assert(compare("select n % 1000 m, sum(p), count(*) from facts group by n % 1000").length == 1000)
    }
  }

  test("without the native library the same groups, row by row") {
    withFacts {
      for (query <- Seq("select s, i, sum(price), avg(d), count(t) from facts where b8 < 4 group by s, i",
          "select max(l), count(*) from facts", "select max(u), min(t), sum(length(s)), count(*) from facts")) {
        val df = spark.sql(query)
        df.collect()
        val node = planNodes(df).collectFirst { case n: WarmsetAggregateExec => n }.get
        val types = node.output.map(_.dataType)
        val metrics = AggregationMetrics(node.longMetric("numOutputRows"), node.longMetric("numDroppedRows"), node.longMetric("numBatches"),
          node.longMetric("numBatchesByRows"), node.longMetric("nativeTime"))
        val (plan, keys, conditions, input) = (node.plan, node.keys, node.conditions, node.child.output)
        val aggregates = node.aggregates
        val byRows = node.child.executeColumnar().mapPartitions { batches =>
          new PartialAggregation(batches, plan, types, isNative = false,
            () => new RowAggregate(keys, aggregates, conditions, input), None, metrics).map(_.copy())
        }
        def shown(rows: RDD[InternalRow]) = rows.map(_.copy().toSeq(types).mkString(" ")).collect().sorted.toSeq
        assert(shown(byRows) == shown(node.execute()), query)
      }
    }
  }

  test("doubles are added in the order of rows") {
    withCached(spark.range(0, 20000, 1, 1).selectExpr("cast(id % 3 as byte) k", "sqrt(id) * pow(-3, id % 40) d", "id / 7 e")) {
      compare("select sum(d), avg(e), sum(d * e - 3), avg(d) from facts", isNative = true)
      compare("select k, sum(d), avg(e), sum(d * e - 3), avg(d) from facts where e > 5 group by k", isNative = true)
    }
  }

  test("what is not computed here says why") {
    withFacts {
      for ((query, why) <- Seq(
          "select sum(i) filter (where flag) from facts" -> "filter flag",
          "select stddev(d) from facts" -> "function stddev",
          "select sum(price) from facts where s like 'a_b'" -> "LIKE a_b",
          "select max(upper(s)) from facts" -> "which is no column",
          "select max(s) filter (where b8 = 1) from facts" -> "which is text",
          "select flag, count(*) from facts group by flag" -> "key flag of type BOOLEAN",
          "select upper(s), count(*) from facts group by upper(s)" -> "is no column",
          "select weekday(day), count(*) from facts group by weekday(day)" -> "expression weekday",
          "select sum(q * q) from facts" -> "rounded",
          "select sum(-cast(q as decimal(38, 9))) from facts" -> "rounds to 34 digits",
          "select sum(price) from facts where rand(3) < 0.5" -> "")) {
        assert(reason(query).contains(why), s"$query: ${reason(query)}")
        if (!query.contains("rand")) compare(query)
      }
    }
  }

  test("keys of which there may be many need statistics") {
    withCached(spark.range(0, 200000, 1, 2).selectExpr("id", "id div 4 few")) {
      compare("select count(*), max(n) from (select id, count(*) n from facts group by id)", isNative = true)
      compare("select count(*), max(n) from (select few, count(*) n from facts group by few)", isNative = true)
    }
    withSetting("spark.warmset.statistics.enabled", "false") {
      withFacts {
        assert(reason("select i, count(*) from facts group by i").contains("spark.warmset.statistics.enabled"))
        compare("select u, count(*) from facts group by u", isNative = true)
        compare("select s, sm, count(*), sum(d) from facts group by s, sm", isNative = true)
      }
    }
  }

  test("more groups than there is room for") {
    val (rows, groups) = (600000, 150001)
    val sums = "k, sum(price), avg(price), sum(i), avg(i), min(d), max(price), count(*), count(i), sum(d)"
    def table(key: String, partitions: Int) = spark.range(0, rows, 1, partitions).selectExpr(s"$key k", "cast(id % 3 as byte) b8",
      "cast(id % 6000 / 4.0 as decimal(15,2)) price", "if(id % 5 = 0, null, cast(id % 400 as int)) i", "cast(id % 40 as double) / 8 d")
    def given(query: String): (Long, String) = {
      val df = spark.sql(query)
      df.collect()
      planNodes(df).collectFirst { case n: WarmsetAggregateExec => (n.metrics("numOutputRows").value, n.plan.json) }.get
    }
    val inParts = s""""group_bytes":${KernelPlan.Clustered.bytesMax},"""
    // Groups of four rows, in the middle of which batches end.
    withCached(table("(id + 3) div 4", 1)) {
      assert(compare(s"select $sums from facts group by k", isNative = true).length == groups)
      val (out, plan) = given(s"select $sums from facts group by k")
      assert(plan.contains(inParts) && out < groups * 1.05, out)
      compare(s"select b8, $sums from facts where i < 350 or i is null group by b8, k having count(*) > 1")
      // They take less memory with one sum.
      assert(!given("select k, sum(d) from facts group by k")._2.contains(inParts))
    }
    // As many groups as rows.
    withCached(table("concat('k', id)", 2)) {
      assert(compare(s"select $sums from facts group by k", isNative = true).length == rows)
      assert(given(s"select $sums from facts group by k")._2.contains(inParts))
    }
    // Spark's hash table gives out fewer.
    for (key <- Seq(s"id * 7919 % $groups", s"if(id = 5, 1000000000000, id * 7919 % $groups)")) {
      withCached(table(key, 2))(assert(reason(s"select $sums from facts group by k").contains("groups"), key))
    }
  }

  test("off, and counted") {
    withFacts {
      val query = "select s, sum(price) from facts group by s"
      spark.conf.set(Kernels, "false")
      assert(!uses(query))
      spark.conf.set(Kernels, "true")
      val df = spark.sql(query)
      df.collect()
      val node = planNodes(df).collectFirst { case n: WarmsetAggregateExec => n }.get
      assert(node.metrics("numOutputRows").value == 10)
      assert(node.metrics("numBatches").value == 40 && node.metrics("numBatchesByRows").value == 0)
      assert(node.simpleString(100).contains("functions=[partial_sum(price"), node.simpleString(100))
      assert(!planNodes(df).exists(partial))
    }
  }

  private def partial(node: SparkPlan): Boolean = node match {
    case a: HashAggregateExec => a.aggregateExpressions.exists(_.mode.toString == "Partial")
    case _ => false
  }

  test("a thing that is cached from an aggregate, a union, and a subquery") {
    withFacts {
      compare("select s, sum(price) from facts group by s union all select s, count(*) from facts group by s", isNative = true)
      compare("select count(*) from facts where price > (select avg(price) from facts)")
      compare("select k, max(n) from (select s k, count(*) n, b8 from facts group by s, b8) group by k", isNative = true)
      val df = spark.sql("select s, sum(price) p, cast(sum(d) as double) d from facts group by s").cache()
      try assert(df.collect().length == 5)
      finally df.unpersist(blocking = true)
    }
  }

  test("a union of caches that are partitioned alike needs no exchange, also with aggregates in native code") {
    val by = spark.range(1000).selectExpr("cast(id % 10 as short) k", "id").repartition(4, col("k"))
    for (adaptive <- Seq("false", "true"); enabled <- Seq("false", "true")) {
      withSetting("spark.sql.adaptive.enabled", adaptive) {
        withSetting(Kernels, enabled) {
          withCached(by) {
            val renamed = spark.table("facts").select(col("k").as("j")).groupBy("j").count()
            val both = renamed.union(renamed).groupBy("j").sum("count")
            assert(both.collect().map(_.getLong(1)).toSeq == Seq.fill(10)(200L))
          }
          val joined = by.as("a").join(by.as("b").select(col("k").as("k2"), col("id").as("id2")).hint("merge"), col("id") === col("id2"))
            .repartition(4, col("k")).select("k", "k2")
          withCached(joined) {
            val counts = spark.table("facts").groupBy("k").count()
            val both = counts.union(counts).groupBy("k").sum("count")
            assert(both.collect().map(_.getLong(1)).toSeq == Seq.fill(10)(200L))
          }
        }
      }
    }
  }

  test("keys of a hundred kilobytes are given out in pieces") {
    withCached(spark.range(0, 600, 1, 1).selectExpr("concat(repeat('x', 100000), id % 300) body")) {
      val counts = spark.sql("select body, count(*) n from facts group by body")
      assert(counts.collect().map(_.getLong(1)).toSeq == Seq.fill(300)(2L))
      assert(uses("select body, count(*) n from facts group by body"))
    }
  }

  test("a decimal of more than 34 digits is negated as Spark does it, which rounds") {
    withCached(spark.range(0, 100, 1, 1).selectExpr("id", "cast(repeat('1', 38) as decimal(38,0)) + id w",
        "cast(repeat('9', 38) as decimal(38,0)) - id most", "cast(repeat('9', 33) as decimal(33,0)) - id exact")) {
      assert(compare("select min(-w), max(-w), sum(id) from facts where -w < 5") == Seq(s"-${"1" * 34}0000 -${"1" * 34}0000 4950"))
      assert(compare("select count(*) from facts where -most < 5").head.startsWith("error"))
      compare("select sum(-exact), count(*) from facts where -exact < 5", isNative = true)
    }
  }

  test("a scale below zero is left to Spark") {
    withSetting("spark.sql.legacy.allowNegativeScaleOfDecimal", "true") {
      withFacts {
        def total = spark.table("facts").agg(sum(col("b8").cast(DecimalType(5, -2)))).collect().toSeq
        val ours = total
        withSetting(Kernels, "false")(assert(ours == total))
      }
    }
  }
}
