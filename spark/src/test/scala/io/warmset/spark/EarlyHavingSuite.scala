package io.warmset.spark

import scala.util.Random

import io.warmset.spark.kernels.{WantedGroups, WholeGroups}
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{BoundReference, GreaterThan, Literal, Predicate}
import org.apache.spark.sql.types.LongType
import org.scalatest.funsuite.AnyFunSuite

/** Groups that HAVING drops stay out of the shuffle where they are whole: the same answers, and fewer rows. */
class EarlyHavingSuite extends AnyFunSuite with WarmsetSession with KernelAnswers {
  override protected def settings: Map[String, String] =
    super.settings + ("spark.sql.inMemoryColumnarStorage.batchSize" -> "1000")

  private val Rows = 24000
  private val Values = Seq("cast(id % 7 as decimal(12,2)) p", "cast(id % 11 as int) i", "id % 4 o",
    "cast(if(id % 500 > 496, repeat('9', 38), cast(id as string)) as decimal(38,0)) w")

  /** Of three rows a key; groups are cut by partitions and batches. */
  private def inOrder(key: String): DataFrame = spark.range(0, Rows, 1, 3).selectExpr(s"$key k" +: Values: _*)

  private val Queries = for {
    (functions, having) <- Seq("sum(p)" -> "sum(p) > 12", "sum(p), count(*)" -> "count(*) = 3", "count(*)" -> "count(*) < 3",
      "avg(p), max(i)" -> "avg(p) * 2 > 7 and max(i) < 9", "min(i)" -> "min(i) is null or min(i) = 8",
      "sum(i)" -> "k % 2 = 0 or sum(i) > 20", "sum(i)" -> "k > 20 and sum(i) > 20")
    where <- Seq("", "where k > 100 and o < 3")
  } yield s"select k, $functions from facts $where group by k having $having"

  /** Groups that stayed out of the shuffle. */
  private def dropped(query: String): Long = {
    val df = spark.sql(query)
    df.collect()
    planNodes(df).collect { case node: WarmsetAggregateExec => node.longMetric("numDroppedRows").value }.sum
  }

  for ((key, queries) <- Seq("id div 3" -> Queries, "cast(id div 3 as int)" -> Queries.take(2),
      "date_add(date'2000-01-01', cast(id div 3 as int))" -> Queries.take(1), s"(id + 5000) % $Rows div 3" -> Queries.takeRight(3),
      s"(id + 5500) % $Rows div 3" -> Queries.takeRight(2),
      // In a batch one part ends and another begins, and what is between lies in the next partition.
      "case when id between 4300 and 7999 then id + 3700 when id between 8000 and 11699 then id - 3700 else id end div 3" ->
        Queries.takeRight(4))) {
    test(s"a table in the order of its key: $key") {
      withCached(inOrder(key)) {
        for (query <- queries) {
          compare(query, isNative = true)
          assert(query.contains("count(*) =") || dropped(query) > 0, query)
        }
      }
    }
  }

  test("keys that are null, several keys, and a key that has rows of a group far apart") {
    for ((key, isDropping) <- Seq("if(id % 40 = 0, null, id div 3)" -> true, "(id * 7919) % 13000" -> false, "id div 3 % 4000" -> false,
        "if(id > 23990, 5, id div 3)" -> false)) {
      withCached(inOrder(key)) {
        for (query <- Queries.take(if (isDropping) 7 else 2)) {
          compare(query)
          if (!isDropping) assert(dropped(query) == 0, query)
        }
        val two = "select o, k, sum(p) from facts group by o, k having sum(p) > 5"
        compare(two)
        assert((dropped(two) > 0) == isDropping)
      }
    }
  }

  test("where values leave their type") {
    withCached(inOrder("id div 3")) {
      for (having <- Seq("sum(w) > 100000", "sum(w) is null", "count(*) = 3 and sum(w) < 50000")) {
        val query = s"select k, sum(w), count(*) from facts group by k having $having"
        withSettings(Map("spark.sql.ansi.enabled" -> "false"))(compare(query))
      }
    }
  }

  test("a shuffle that another aggregate takes whole") {
    withCached(inOrder("id div 3")) {
      val query = "select count(*), sum(a.s), sum(b.s) from (select k, sum(p) s from facts group by k having sum(p) > 12) a " +
        "right join (select k, sum(p) s from facts group by k) b on a.k = b.k"
      compare(query)
      assert(dropped(query) > 0)
      withSettings(Map("spark.sql.adaptive.enabled" -> "false")) {
        compare(query)
        assert(dropped(query) == 0)
      }
    }
  }

  test("random conditions") {
    val random = new Random(11)
    def one[T](of: Seq[T]): T = of(random.nextInt(of.length))
    withCached(inOrder("if(id % 900 = 7, null, id div 5)")) {
      for (_ <- 1 to 12) {
        val function = one(Seq("sum(p)", "count(*)", "max(i)", "sum(i)", "avg(p)", "count(case when i > 4 then 1 end)"))
        val having = Seq.fill(1 + random.nextInt(2))(s"$function ${one(Seq("<", ">", "=", "<>", ">="))} ${random.nextInt(18)}")
        val keys = one(Seq("k", "k", "o, k", "k, i"))
        compare(s"select $keys, $function from facts where ${one(Seq("1 = 1", "i < 8", "o = 2", "k % 3 = 0"))} group by $keys " +
          s"having ${having.mkString(one(Seq(" and ", " or ")))}")
      }
    }
  }

  test("rows in another order than was counted are an error, not another answer") {
    val of = WholeGroups(0, 0, LongType, IndexedSeq(Seq((30L, 40L), (0L, 9L)), Seq((9L, 20L))))
    def wanted = new WantedGroups(of, 0, Predicate.create(GreaterThan(BoundReference(0, LongType, nullable = true), Literal(4L)), Nil))
    val groups = wanted
    groups.next()
    val nothing = Array(Long.MaxValue, Long.MinValue)
    groups.begin(Array(1L, 6L, 31L, 31L))
    assert(Seq(0L, 1L, 3L, 5L, 6L, 30L, 31L).map(k => groups(InternalRow(k))) == Seq(true, true, false, true, true, true, true))
    assert(groups(InternalRow(null)))
    groups.next()
    groups.begin(nothing ++ nothing)
    groups.pass(Seq(InternalRow(7L), InternalRow(6L), InternalRow(null), InternalRow(30L), InternalRow(0L)))
    groups.next()
    groups.begin(Array(7L, 9L) ++ nothing)
    for (range <- Seq(Array(8L, 9L), Array(9L, 10L))) intercept[IllegalStateException] { groups.next(); groups.begin(range ++ nothing) }
    groups.begin(nothing ++ Array(31L, 40L))
    intercept[IllegalStateException](wanted.begin(Array(-1L, 3L) ++ nothing))
    intercept[IllegalStateException](wanted.pass(Seq(InternalRow(10L))))
  }
}
