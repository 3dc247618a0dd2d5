package io.warmset.spark

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BasePredicate, BloomFilterMightContain, BoundReference, Expression, Literal, Predicate}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.types.LongType
import org.scalatest.funsuite.AnyFunSuite

/** Keys of one side of a shuffled join in the scans of the other side: the same rows, and filters where they can be. */
class RuntimeFiltersSuite extends AnyFunSuite with WarmsetSession {
  private val Rows = 30000L
  private val Enabled = "spark.warmset.joinFilters.enabled"
  private val Broadcast = "spark.sql.autoBroadcastJoinThreshold"

  override protected def filteredRowsMin: Int = 10000

  override protected def settings: Map[String, String] = Map(
    "spark.sql.shuffle.partitions" -> "2", Broadcast -> "-1", Enabled -> "true", "spark.warmset.statistics.enabled" -> "true")

  /** Facts of two dimensions, and dimensions of one another. */
  private def tables(): Unit = if (!spark.catalog.tableExists("facts") || !spark.catalog.isCached("facts")) Seq(
    "facts" -> spark.range(0, Rows, 1, 2).selectExpr("id", "if(id % 11 = 0, null, id * 7 % 2000) d", "id % 500 e",
      "cast(id * 7 % 2000 as int) i", "date_add(date'2000-01-01', cast(id * 7 % 2000 as int)) day", "id % 97 v"),
    "others" -> spark.range(0, Rows, 1, 2).selectExpr("id * 3 % 6000 d", "id % 2000 o", "id % 89 w"),
    "dims" -> spark.range(0, 2000, 1, 2).selectExpr("id d", "cast(id as int) i", "date_add(date'2000-01-01', cast(id as int)) day",
      "id % 50 g", "concat('n', id % 40) name"),
    "ends" -> spark.range(0, 500, 1, 1).selectExpr("id e", "id % 50 g", "id % 25 h"),
    "groups" -> spark.range(0, 50, 1, 1).selectExpr("id g", "id % 5 part")
  ).foreach { case (name, df) =>
    df.cache().count()
    df.createOrReplaceTempView(name)
  }

  private def count(df: DataFrame)(of: PartialFunction[Expression, Unit]): Int =
    df.asInstanceOf[ClassicDataset[Row]].queryExecution.optimizedPlan.collect { case n => n.expressions.map(_.collect(of).size).sum }.sum

  private def blooms(df: DataFrame): Int = count(df) { case _: BloomFilterMightContain => }

  private def filters(df: DataFrame): Int = blooms(df) + count(df) { case _: InKeySet => }

  private def answer(df: DataFrame): Seq[String] = df.collect().map((r: Row) => r.toString).toSeq.sorted

  /** The answers with filters and without are the same; gives the number of filters. */
  private def compare(query: String, isEmpty: Boolean = false): Int = {
    tables()
    val df = spark.sql(query)
    val got = answer(df)
    withSetting(Enabled, "false") {
      val plain = spark.sql(query)
      assert(filters(plain) == 0)
      assert(got == answer(plain), query)
    }
    assert(got.isEmpty == isEmpty, query)
    filters(df)
  }

  private val Few = "(select * from dims where g = 7)"

  for ((kind, left, right) <- Seq(("join", 1, 1), ("left join", 0, 1), ("right join", 1, 0), ("full join", 0, 0),
      ("left semi join", 1, 1), ("left anti join", 0, 1))) {
    test(s"$kind: where rows without a match make no difference, they are taken out") {
      val columns = if (kind.contains("semi") || kind.contains("anti")) "count(*), sum(a.d)" else "count(*), sum(a.d), sum(b.d), sum(b.v)"
      assert(compare(s"select $columns from $Few a $kind facts b on a.d = b.d") == right)
      val others = if (kind.contains("semi") || kind.contains("anti")) "count(*), sum(a.v)" else "count(*), sum(a.v), sum(b.g)"
      assert(compare(s"select $others from facts a $kind $Few b on a.d = b.d") == left)
    }
  }

  test("keys of other types, several keys, and keys that are computed") {
    for (key <- Seq("i", "day")) assert(compare(s"select count(*), sum(v) from facts a join $Few b on a.$key = b.$key") == 1)
    assert(compare(s"select count(*) from facts a join $Few b on a.d = b.d and a.i = b.i") == 2)
    assert(compare(s"select count(*) from facts a join $Few b on a.d + 1 = b.d") == 0)
    assert(compare("select count(*) from facts a join (select * from dims where name = 'n3') b on a.d = b.d") == 1)
  }

  test("an empty side, and a side that has most of the keys") {
    assert(compare("select a.id from facts a join (select * from dims where g = 51) b on a.d = b.d", isEmpty = true) == 1)
    assert(compare("select count(*) from facts a join dims b on a.d = b.d") == 0)
    assert(compare("select count(*) from facts a join (select * from dims where g < 40) b on a.d = b.d") == 0)
    assert(compare("select count(*) from facts a join (select * from dims where name like '%3') b on a.d = b.d") == 1)
    // What Spark guesses is not believed.
    assert(compare("select count(*) from facts a join (select * from dims where name like '%3' or d < i) b on a.d = b.d") == 0)
  }

  test("filters cost less than the rows that they take out, of what other conditions leave") {
    def rare(of: String) = s"select count(*), sum(o.w) from others o join (select * from facts where e = 3) f on o.d = f.d where $of"
    assert(compare(rare("o.w >= 0")) == 1)
    assert(compare(rare("o.o < 100")) == 0, "facts would be read twice for a twentieth of the others")
    assert(compare(s"select count(*) from others o join $Few d on o.d = d.d where o.o < 100") == 1, "few rows are read for few")
  }

  test("a small side hands on more keys than a join behind it lets pass") {
    withSetting(Broadcast, "60k") {
      // Each group several times: such a side is not pushed down.
      val chain = "select count(*), sum(f.v) from facts f join dims d on f.d = d.d join ends g on d.g = g.g where"
      assert(compare(s"$chain g.h = 3") == 1)
      assert(compare(s"$chain g.h < 20") == 0, "its own keys are hardly more")
      assert(compare(s"$chain d.name = 'n3'") == 0, "those are handed on")
      assert(compare("select count(*), sum(f.v) from facts f join dims d on f.d = d.d join groups g on d.g = g.g where g.part = 3") == 0)
    }
  }

  test("keys that lie close are an exact set, others a Bloom filter") {
    tables()
    for ((name, key, byBloom) <- Seq(("close", "id", 0), ("apart", "id * 1000003 - 5", 1), ("negative", "id - 1000", 0))) {
      val dims = spark.range(0, 2000, 1, 2).selectExpr(s"$key k", "id % 50 g").cache()
      val facts = spark.range(0, Rows, 1, 2).selectExpr("id", "id % 2000 id2").selectExpr("id", s"${key.replace("id", "id2")} k").cache()
      assert(dims.count() == 2000 && facts.count() == Rows)
      dims.createOrReplaceTempView(s"d_$name")
      facts.createOrReplaceTempView(s"f_$name")
      val query = s"select count(*), sum(f.id) from f_$name f join (select * from d_$name where g = 7) d on f.k = d.k"
      assert(compare(query) == 1)
      assert(blooms(spark.sql(query)) == byBloom, name)
      assert(compare(query.replace("g = 7", "g = 7 and k is null")) <= 1)
      Seq(dims, facts).foreach(_.unpersist(blocking = true))
    }
  }

  test("a set of keys: of several tasks, without any, and with numbers that no bit is for") {
    def collected(of: String*) = {
      val all = CollectKeys(BoundReference(0, LongType, nullable = true), -3, 2)
      def buffer(values: Seq[Any]) = values.foldLeft(all.createAggregationBuffer())((b, v) => all.update(b, InternalRow(v)))
      val parts = of.map(part => buffer(part.split(' ').filter(_.nonEmpty).map { case "null" => null; case n => n.toLong }.toSeq))
      val merged = parts.reduce((a, b) => all.merge(a, all.deserialize(all.serialize(b))))
      CollectKeys.keySet(all.eval(merged).asInstanceOf[Array[Byte]], all.least)
    }
    val keys = collected("-3 0 null 60", "61 124").get
    assert((-10L to 140L).filter(keys.mayContain) == Seq(-3, 0, 60, 61, 124) && !keys.mayContain(Long.MinValue) && keys.isExact)
    assert(!(-10L to 140L).exists(collected("", "null").get.mayContain))
    for (outside <- Seq("-4", "125", Long.MaxValue.toString, Long.MinValue.toString)) assert(collected("5", s"7 $outside").isEmpty)
    val in = InKeySet(Literal(CollectKeys(Literal(5L), 0, 1).serialize(Array(32L, 0L))), BoundReference(0, LongType, nullable = true), 0)
    val everything = in.copy(collected = Literal(CollectKeys(Literal(5L), 0, 1).serialize(Array(32L, 1L))))
    for (predicate <- Seq[Expression => BasePredicate](Predicate.createInterpreted(_), Predicate.create(_))) {
      assert(Seq(5L, 4L, null).map(v => predicate(in).eval(InternalRow(v))) == Seq(true, false, false))
      assert(Seq(5L, 4L, null).map(v => predicate(everything).eval(InternalRow(v))) == Seq(true, true, false))
    }
  }

  test("conditions that Spark makes no estimate of are guessed, and subqueries that say the same each time are taken along") {
    val start = "select count(*), sum(a.d) from (select * from dims where substr(name, 1, 2) in ('n1', 'n5', 'n6', 'n7', 'n8') and g >"
    def query(threshold: String) = s"$start $threshold) a left anti join facts b on a.d = b.d and b.v > 40"
    // A sixth of the keys; without the comparison half of them.
    assert(compare(query("(select avg(g) from dims)")) == 1)
    assert(compare(query("(select avg(cast(g as double)) from dims)")) == 0, "sums of doubles depend on the order of rows")
    assert(compare(query("(select first(g) from dims where g = 24)")) == 0)
    // Rows of a left side come out without a match: it is shuffled however small it is.
    withSetting(Broadcast, "60k")(assert(compare(query("(select avg(g) from dims)")) == 1))
  }

  test("exists and not exists, of the same table") {
    val both = s"""select count(*), sum(f.v) from facts f join $Few d on f.d = d.d
      where exists (select * from others o where o.d = f.d and o.w <> f.v)
        and not exists (select * from others x where x.d = f.d and x.w > f.v + 80)"""
    // Of a side that is not small, nothing is joined to what the keys are taken from.
    assert(compare(both) == 1)
    assert(withSetting(Broadcast, "100k")(compare(both)) == 3)
    assert(compare(s"select count(*) from $Few a where d not in (select if(w = 100, null, o) from others)") == 0)
    assert(compare(s"select count(*) from $Few a where exists (select 1 from others o where o.o = a.d) or name < 'n2'") == 0)
  }

  test("below aggregates by the key, and not below what depends on other rows") {
    val rare = "(select * from dims where g = 7 and name = 'n7')"
    val sums = "(select d, sum(v) s from facts group by d having sum(v) > 3)"
    assert(compare(s"select count(*), sum(s) from $sums a join $rare b on a.d = b.d") == 1)
    // The other way round, HAVING says which groups there are.
    val many = "(select d, count(*) n from others group by d having count(*) > 5)"
    assert(compare(s"select count(*), sum(v), sum(n) from facts a join $many b on a.d = b.d", isEmpty = false) == 1)
    assert(compare("select count(*), sum(v) from facts a join (select d from others group by d having d > 5) b on a.d = b.d") == 0)
    assert(compare(s"select count(*) from (select d + 1 d, count(*) n from facts group by d + 1) a join $rare b on a.d = b.d") == 0)
    val numbers = "(select d, row_number() over (partition by e order by id) r from facts)"
    assert(compare(s"select sum(r) from $numbers a join $rare b on a.d = b.d") == 0)
    assert(compare(s"select count(*) from (select * from facts order by id limit 29000) a join $rare b on a.d = b.d") == 0)
    assert(compare(s"select count(*) from (select d from facts union all select o from others) a join $rare b on a.d = b.d") == 0)
    assert(compare(s"select count(*), sum(p) from (select d x, rand(3) p from facts) a join $rare b on a.x = b.d") == 0)
    assert(compare(s"select count(*), sum(x) from (select d x, v from facts where v > 3 order by v) a join $rare b on a.x = b.d") == 1)
  }

  test("what a small side drops is known behind it, over several joins") {
    withSetting(Broadcast, "4k") {
      val chain = """select count(*), sum(f.v), sum(o.w) from facts f join others o on f.d = o.d
        join dims on dims.d = o.d join groups on dims.g = groups.g where groups.part = 3 and f.id % 3 = 0"""
      assert(compare(chain) >= 1)
      assert(compare(chain.replace("groups.part = 3", "groups.part >= 0")) == 0)
    }
  }

  test("without adaptive execution, and in a view that is cached itself") {
    withSetting("spark.sql.adaptive.enabled", "false") {
      assert(compare(s"select count(*), sum(v) from facts a join $Few b on a.d = b.d") == 1)
    }
    val joined = spark.sql(s"select a.d, v from facts a join $Few b on a.d = b.d").cache()
    assert(joined.count() == spark.sql(s"select count(*) from facts where d is not null and d % 50 = 7").head().getLong(0))
    joined.unpersist(blocking = true)
  }

  test("a plan that has its filters is left alone") {
    tables()
    val plan = spark.sql(s"select count(*) from facts a join $Few b on a.d = b.d").asInstanceOf[ClassicDataset[Row]]
      .queryExecution.optimizedPlan
    assert(RuntimeFilters(plan) eq plan)
  }

  test("random joins of five tables") {
    val random = new Random(7)
    def one[T](of: Seq[T]): T = of(random.nextInt(of.length))
    val wheres = Seq("f.v < 5", "dims.g = 3", "dims.g in (1, 2)", "groups.part = 2", "ends.h = 4", "ends.g is not null",
      "f.day < date'2000-03-01'", "o.w = 7", "dims.name = 'n9'", "f.d is not null", "1 = 1")
    val kinds = Seq("join", "join", "join", "left join", "right join", "left semi join", "left anti join", "full join")
    var found = 0
    for (_ <- 1 to 20) withSetting(Broadcast, one(Seq("-1", "4k", "60k"))) {
      val (kind, other) = (one(kinds), one(kinds))
      val hidden = Seq(kind, other).exists(k => k.contains("semi") || k.contains("anti"))
      val right = if (hidden) "" else ", sum(o.w), sum(dims.g)"
      val extra = random.nextInt(3) match {
        case 0 => ""
        case 1 => " join ends on f.e = ends.e join groups on ends.g = groups.g"
        case _ => " join groups on dims.g = groups.g"
      }
      val more = if (hidden && extra.contains("dims.g")) "" else extra
      val conditions = Seq.fill(2)(one(wheres)).filter { w =>
        val table = w.takeWhile(_ != '.')
        table match {
          case "dims" | "o" => !hidden
          case "groups" | "ends" => more.contains(table)
          case _ => true
        }
      }
      val inner = if (random.nextBoolean()) one(Seq("g = 5", "g < 4", "d < 300", "name = 'n1'")) else "true"
      found += compare(s"""select count(*), sum(f.v)$right from facts f $kind others o on f.d = o.d
        $other (select * from dims where $inner) dims on f.d = dims.d $more where ${(conditions :+ "true").mkString(" and ")}""")
    }
    assert(found > 5, "hardly any query had a filter")
  }
}
