package io.warmset.spark

import scala.util.Random

import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.plans.logical.{BROADCAST, Join, LogicalPlan, Project}
import org.apache.spark.sql.classic.{Dataset => ClassicDataset}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.scalatest.funsuite.AnyFunSuite

/** Which joins are pushed down to the table that their key comes from, and that answers are the same. */
class PushDownJoinsSuite extends AnyFunSuite with WarmsetSession {
  private val Enabled = "spark.warmset.statistics.enabled"
  private val Broadcast = "spark.sql.autoBroadcastJoinThreshold"

  override protected def settings: Map[String, String] =
    Map("spark.sql.shuffle.partitions" -> "2", Broadcast -> "60k", Enabled -> "true", "spark.warmset.joinFilters.enabled" -> "true")

  /** Facts of suppliers, these of nations, these of regions, and customers of nations. */
  private def tables(): Unit = if (!spark.catalog.tableExists("facts") || !spark.catalog.isCached("facts")) Seq(
    "facts" -> spark.range(0, 20000, 1, 2).selectExpr("id f", "if(id % 13 = 0, null, id * 7 % 1000) s", "id * 11 % 3000 c", "id % 97 v"),
    "suppliers" -> spark.range(0, 1000, 1, 1).selectExpr("id s", "id % 25 n", "concat('supplier ', id) name"),
    "customers" -> spark.range(0, 3000, 1, 2).selectExpr("id c", "id * 3 % 25 n", "repeat(cast(id as string), 20) address"),
    "nations" -> spark.range(0, 25, 1, 1).selectExpr("id n", "id % 5 r", "concat('nation ', id) name"),
    "regions" -> spark.range(0, 5, 1, 1).selectExpr("id r", "concat('region ', id) name"),
    "twice" -> spark.range(0, 50, 1, 1).selectExpr("id % 25 n", "concat('nation ', id % 25) name")
  ).foreach { case (name, df) =>
    df.cache().count()
    df.createOrReplaceTempView(name)
  }

  private def optimized(df: DataFrame): LogicalPlan = df.asInstanceOf[ClassicDataset[Row]].queryExecution.optimizedPlan

  /** The joins, as a term of the tables' first letters: what is broadcast by a hint of ours is in square brackets. */
  private def shape(plan: LogicalPlan): String = plan match {
    case Join(left, right, _, _, hint) =>
      def side(of: LogicalPlan, isBroadcast: Boolean) = if (isBroadcast) s"[${shape(of)}]" else shape(of)
      val (l, r) = (hint.leftHint.exists(_.strategy.contains(BROADCAST)), hint.rightHint.exists(_.strategy.contains(BROADCAST)))
      s"(${side(left, l)} ${side(right, r)})"
    case relation: InMemoryRelation => relation.output.head.name
    case other => other.children.map(shape).mkString
  }

  /** The shape of the plan, of which the answers are the same without the rule. */
  private def compare(query: String): String = {
    tables()
    val df = spark.sql(query)
    def answer(of: DataFrame) = of.collect().map((r: Row) => r.toString).toSeq.sorted
    val got = answer(df)
    withSetting(Enabled, "false")(assert(got == answer(spark.sql(query)), query))
    shape(optimized(df))
  }

  private val Chain =
    "select count(*), sum(v), max(suppliers.name) from facts join suppliers using (s) join nations on suppliers.n = nations.n"

  test("a nation is joined with the suppliers, and a region with the nations, before the facts") {
    assert(compare(s"$Chain where nations.name = 'nation 7'") == "(f [(s n)])")
    assert(compare(s"$Chain join regions using (r) where regions.name = 'region 3'") == "(f [(s [(n r)])])")
    assert(compare(s"$Chain join regions using (r) where nations.name < 'nation 2' and regions.name = 'region 3'") == "(f [(s [(n r)])])")
    assert(compare(s"$Chain join customers using (c) where nations.name = 'nation 7'") == "((f [(s n)]) c)")
    // The other way round in the text.
    assert(compare("""select count(*), sum(v) from nations join suppliers on nations.n = suppliers.n join facts using (s)
      where nations.name = 'nation 7'""").count(_ == '(') == 2)
  }

  test("hints go with their side, and keep what they are of in place") {
    def hinted(of: String) = s"${Chain.replaceFirst("select", s"select /*+ broadcast($of) */")} where nations.name = 'nation 7'"
    assert(compare(hinted("nations")) == "(f [(s [n])])")
    assert(compare(hinted("suppliers")) == "(f [(s n)])")
  }

  test("columns and conditions are all there") {
    val query = """select facts.*, suppliers.name, nations.*, nations.r + v, regions.name from facts join suppliers using (s)
      join nations on suppliers.n = nations.n and nations.n + facts.v > 30
      join regions on regions.r = nations.r and length(suppliers.name) > 10
      where regions.name = 'region 3'"""
    assert(compare(query) == "(f [(s [(n r)])])")
    val plan = optimized(spark.sql(query))
    assert(plan.output.map(_.name) == Seq("s", "f", "c", "v", "name", "n", "r", "name", "(r + v)", "name"))
    assert(!plan.exists { case Project(list, child: InMemoryRelation) => list.length == child.output.length; case _ => false })
  }

  test("what would not be right, or not of use, is left where it is") {
    val unchanged = "((f s) n)"
    assert(compare(Chain) == unchanged, "all nations")
    assert(compare(s"$Chain where nations.n < 20") == unchanged, "most nations")
    for (kind <- Seq("left join", "full join")) assert(compare(
      s"select count(*), sum(v) from facts $kind suppliers using (s) $kind (select * from nations where n = 7) x on suppliers.n = x.n"
    ) == unchanged, kind)
    assert(compare(s"${Chain.replace("nations", "twice")} where twice.name = 'nation 7'") == unchanged, "each key twice")
    assert(compare("select count(*) from facts join suppliers using (s) join nations on suppliers.n + 1 = nations.n where nations.n < 7")
      == unchanged)
    withSetting(Broadcast, "-1")(assert(compare(s"$Chain where nations.name = 'nation 7'") == unchanged))
    // What restricts the same table stays in the order of the text.
    assert(compare("""select count(*), sum(v) from facts join suppliers using (s) join customers using (c)
      where suppliers.s < 100 and customers.c < 100""") == "((f s) c)")
    // A limit of the rows that the join would drop.
    assert(compare("""select count(*) from (select s, suppliers.n from facts join suppliers using (s) order by f limit 100) x
      join nations on x.n = nations.n where nations.name = 'nation 7'""") == unchanged)
  }

  test("a plan that was treated once is not changed again") {
    tables()
    val plan = optimized(spark.sql(s"$Chain join regions using (r) where regions.name = 'region 3'"))
    assert(PushDownJoins(plan) eq plan)
  }

  test("random joins of six tables") {
    val random = new Random(11)
    def one[T](of: Seq[T]): T = of(random.nextInt(of.length))
    val wheres = Seq("nations.name = 'nation 3'", "regions.name = 'region 1'", "suppliers.name < 'supplier 3'", "facts.v < 9",
      "c.n = nations.n", "nations.r in (1, 3)", "length(c.address) > 40", "m.name in ('nation 1', 'nation 5')", "1 = 1")
    var moved = 0
    for (_ <- 1 to 25) withSetting(Broadcast, one(Seq("4k", "60k", "10m"))) {
      val kinds = Seq.fill(4)(one(Seq("join", "join", "join", "join", "left join")))
      val query = s"""select count(*), sum(v), sum(regions.r), max(m.name) from facts ${kinds.head} suppliers on facts.s = suppliers.s
        ${kinds(1)} customers c on facts.c = c.c ${kinds(2)} nations on suppliers.n = nations.n
        ${kinds(3)} ${one(Seq("nations", "twice"))} m on c.n = m.n join regions on nations.r = regions.r
        where ${Seq.fill(3)(one(wheres)).mkString(" and ")}"""
      if (compare(query) != withSetting(Enabled, "false")(shape(optimized(spark.sql(query))))) moved += 1
    }
    assert(moved > 5, "hardly any join was pushed down")
  }
}
