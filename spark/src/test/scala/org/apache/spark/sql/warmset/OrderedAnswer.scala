package org.apache.spark.sql.warmset

import org.apache.spark.sql.{classic, Row}
import org.apache.spark.sql.catalyst.expressions.{Alias, IntegerLiteral, NamedExpression}
import org.apache.spark.sql.catalyst.plans.logical.{GlobalLimit, LocalLimit, LogicalPlan, Project, Sort, WithCTE}

/**
 * What a query may answer: all its rows without the outermost LIMIT, in blocks that its outermost ORDER BY holds to be equal.
 *
 * Rows of a block may come in any order, and of the block in which the LIMIT falls any of them: that is all the freedom that a
 * query leaves. Without ORDER BY there is one block.
 */
final class OrderedAnswer private (blocks: Seq[Seq[Row]], limit: Int) {
  private val total = blocks.map(_.size).sum

  def rows: Seq[Row] = blocks.flatten.take(limit)

  /** What is wrong with these rows as the query's answer, if something is. */
  def fault(got: Seq[Row]): Option[String] = {
    val wanted = math.min(total, limit)
    if (got.size != wanted) Some(s"${got.size} rows for $wanted")
    else {
      val starts = blocks.scanLeft(0)(_ + _.size)
      blocks.zip(starts).takeWhile(_._2 < wanted).flatMap { case (block, start) =>
        OrderedAnswer.unmatched(block, got.slice(start, start + block.size)).map { row =>
          s"the row $row is none of ${block.size} rows from number $start on: ${block.take(3).mkString(", ")}, ..."
        }
      }.headOption
    }
  }
}

object OrderedAnswer {
  /** Runs a query as it stands, but for its outermost LIMIT, and with the keys of its ORDER BY. */
  def of(spark: classic.SparkSession, text: String): OrderedAnswer = {
    val whole = unlimited(spark.sql(text).queryExecution.analyzed)
    val rows = classic.Dataset.ofRows(spark, whole.plan).collect().toSeq
    val values = rows.map(row => Row.fromSeq(row.toSeq.dropRight(whole.keys)) -> row.toSeq.takeRight(whole.keys))
    val blocks = values.foldLeft(List.empty[(Seq[Any], List[Row])]) {
      case ((key, block) :: before, (row, same)) if same == key => (key, row :: block) :: before
      case (before, (row, key)) => (key, List(row)) :: before
    }
    new OrderedAnswer(blocks.map(_._2.reverse).reverse, whole.limit)
  }

  /** @param keys how many of the last columns are keys of the order */
  private final case class Unlimited(plan: LogicalPlan, keys: Int, limit: Int = Int.MaxValue)

  private def unlimited(plan: LogicalPlan): Unlimited = plan match {
    case WithCTE(inner, definitions) =>
      val whole = unlimited(inner)
      whole.copy(plan = WithCTE(whole.plan, definitions))
    case GlobalLimit(IntegerLiteral(n), LocalLimit(_, child)) => unlimited(child).copy(limit = n)
    case Project(columns, sort: Sort) => withKeys(columns, sort)
    case sort: Sort => withKeys(sort.output, sort)
    case other => Unlimited(other, 0)
  }

  private def withKeys(columns: Seq[NamedExpression], sort: Sort): Unlimited = {
    val keys = sort.order.zipWithIndex.map { case (order, i) => Alias(order.child, s"key $i")() }
    Unlimited(Project(columns ++ keys, sort), keys.size)
  }

  /** A row of `got` that is none of `of`, each of which is used once. */
  private def unmatched(of: Seq[Row], got: Seq[Row]): Option[Row] = {
    def floating(row: Row) = row.toSeq.collect { case d: Double => d }
    val unused = scala.collection.mutable.Map.empty[Seq[Any], Seq[Seq[Double]]]
    of.groupBy(exact).foreach { case (key, rows) => unused(key) = rows.map(floating) }
    got.find { row =>
      val left = unused.getOrElse(exact(row), Nil)
      val i = left.indexWhere(_.zip(floating(row)).forall { case (a, b) => close(a, b) })
      if (i >= 0) unused(exact(row)) = left.patch(i, Nil, 1)
      i < 0
    }
  }

  private def exact(row: Row): Seq[Any] = row.toSeq.map {
    case _: Double => "double"
    case other => other
  }

  /** Doubles are added in the order in which rows and partitions come: of some thousand each may be off by half a unit. */
  private def close(a: Double, b: Double): Boolean =
    a == b || a.isNaN && b.isNaN || math.abs(a - b) <= 1e-11 * math.max(math.abs(a), math.abs(b))
}
