package io.warmset.spark

import org.apache.spark.sql.catalyst.expressions.{And, Expression}

/** What must all be true for a predicate to be. */
private[spark] object Conjuncts {
  def of(predicate: Expression): Seq[Expression] = predicate match {
    case And(left, right) => of(left) ++ of(right)
    case other => Seq(other)
  }
}
