package io.warmset.spark

import org.apache.spark.sql.catalyst.expressions.{Contains, Like}
import org.apache.spark.sql.execution.FilterExec
import org.scalatest.funsuite.AnyFunSuite

/** LIKE over cached tables: the same rows as over others, with a part of the pattern looked for first. */
class QuickLikeSuite extends AnyFunSuite with WarmsetSession {
  private val Texts = Seq("", "a", "ab", "special requests", "special, very special requests", "requests special", "a%b", "a_b", "x%%y",
    "ABcd", "abcdefg", "\u00fcber alles \u4e2d\u6587 da", "line\nbreak special requests", null)

  private def rows(query: String): Seq[String] = spark.sql(query).collect().map(_.toString).sorted.toSeq

  test("patterns with several parts, single characters and escapes") {
    val session = spark
    import session.implicits._
    val plain = Texts.toDF("s").union(Texts.toDF("s").selectExpr("concat(s, ' ', upper(s))"))
    plain.createOrReplaceTempView("plain")
    val cached = plain.select("*")
    cached.write.mode("overwrite").parquet(directory.getPath + "/texts")
    val files = spark.read.parquet(directory.getPath + "/texts").cache()
    files.createOrReplaceTempView("texts")
    try {
      val patterns = Seq("%special%requests%", "special%requ_sts", "%a_c%", "_", "%", "%_%", "%a\\\\%b%", "a\\\\_b",
        "%alles%\u4e2d%", "__cd%", "%nothing%here%")
      for ((pattern, i) <- patterns.zipWithIndex; not <- Seq("", "not ")) {
        val condition = s"s ${not}like '$pattern'${Seq("", " and s > 'a'", " or s = 'ab'")(i % 3)}"
        assert(rows(s"select s from texts where $condition") == rows(s"select s from plain where $condition"), condition)
      }
      val escaped = "s like '%a!%b%' escape '!' or s like '!_%a%!%' escape '!'"
      assert(rows(s"select s from texts where $escaped") == rows(s"select s from plain where $escaped"))
      val df = spark.sql("select s from texts where s not like '%special%requests%'")
      df.collect()
      val conditions = planNodes(df).collect { case filter: FilterExec => filter.condition }
      assert(conditions.exists(_.exists(_.isInstanceOf[Contains])) && conditions.exists(_.exists(_.isInstanceOf[Like])))
    } finally files.unpersist(blocking = true)
  }

  test("the longest part that every match has") {
    def part(pattern: String) = QuickLike.part(pattern, '\\')
    assert(part("%special%requests%").contains("requests") && part("a_bc").contains("bc") && part("a\\%bc%d").contains("a%bc"))
    assert(part("%_%").isEmpty && part("").isEmpty && part("a\\b").isEmpty && part("ab\\").isEmpty && part("a\uFFFDb%").isEmpty)
  }
}
