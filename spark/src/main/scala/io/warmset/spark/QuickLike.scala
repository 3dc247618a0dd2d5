package io.warmset.spark

import io.warmset.spark.kernels.KernelCompiler
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ColumnarToRowExec, FilterExec, SparkPlan}
import org.apache.spark.sql.types.StringType
import org.apache.spark.unsafe.types.UTF8String

/**
 * Has LIKE in filters of cached scans look for the longest part of its pattern first: Spark makes a string of every text and
 * matches it with a regular expression.
 *
 * Invariant: LIKE stays and decides. A text without the part cannot match; null stays null. A filter that was treated once
 * is not changed again.
 */
object QuickLike extends Rule[SparkPlan] {
  override def apply(plan: SparkPlan): SparkPlan = plan.transformUp {
    case filter @ FilterExec(condition, rows: ColumnarToRowExec) if condition.exists(_.isInstanceOf[Like]) &&
        ReadCacheAsColumns.scan(rows.child).isDefined =>
      filter.copy(condition = condition.transformUp {
        case like @ Like(text, Literal(pattern: UTF8String, _), escape) if KernelCompiler.isText(text.dataType) =>
          part(pattern.toString, escape).map(part => Contains(text, Literal(UTF8String.fromString(part), StringType)))
            .filterNot(quick => condition.exists(_.semanticEquals(quick))).fold[Expression](like)(And(_, like))
      })
  }

  /** The longest text that every match has. None where there is none, where the pattern is wrong, or not valid Unicode. */
  private[spark] def part(pattern: String, escape: Char): Option[String] = {
    val parts = Seq.newBuilder[String]
    val run = new StringBuilder
    def end(): Unit = {
      parts += run.result()
      run.clear()
    }
    var at = 0
    while (at < pattern.length) {
      pattern(at) match {
        case c if c == escape =>
          at += 1
          if (at == pattern.length || !(Seq('%', '_', escape).contains(pattern(at)))) return None
          run += pattern(at)
        case '%' | '_' => end()
        case c => run += c
      }
      at += 1
    }
    end()
    Some(parts.result().maxBy(_.length)).filter(found => found.nonEmpty && !found.contains('\uFFFD') && !found.exists(_.isSurrogate))
  }
}
