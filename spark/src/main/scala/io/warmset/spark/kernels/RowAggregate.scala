package io.warmset.spark.kernels

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.DeclarativeAggregate
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * A partial aggregate by Spark's own expressions, row by row, for batches that native code does not take.
 *
 * Invariant: values, nulls and errors are those of Spark's partial aggregate over the same rows.
 */
private[spark] final class RowAggregate(
    keys: Seq[Expression],
    functions: Seq[DeclarativeAggregate],
    conditions: Seq[Expression],
    input: Seq[Attribute]) {
  private val attributes = functions.flatMap(_.aggBufferAttributes)
  private val initial = UnsafeProjection.create(functions.flatMap(_.initialValues))(InternalRow.empty)
  private val update = MutableProjection.create(functions.flatMap(_.updateExpressions), attributes ++ input)
  private val key = UnsafeProjection.create(keys, input)
  private val passes = Predicate.create(conditions.reduceOption(And).getOrElse(Literal.TrueLiteral), input)
  private val groups = new java.util.LinkedHashMap[UnsafeRow, UnsafeRow]
  private val joined = new JoinedRow

  def count: Int = groups.size

  def add(batch: ColumnarBatch): Unit = {
    val rows = batch.rowIterator()
    while (rows.hasNext) {
      val row = rows.next()
      if (passes.eval(row)) {
        val of = buffer(key(row))
        update.target(of)(joined(of, row))
      }
    }
  }

  private def buffer(of: UnsafeRow): UnsafeRow = {
    val known = groups.get(of)
    if (known != null) {
      known
    } else {
      val fresh = initial.copy()
      groups.put(of.copy(), fresh)
      fresh
    }
  }

  /** Gives out all groups, and forgets them; without keys one, if `always`, even of no row. */
  def take(always: Boolean): Seq[InternalRow] = {
    if (always && keys.isEmpty) buffer(key(InternalRow.empty))
    val rows = Seq.newBuilder[InternalRow]
    groups.forEach((of, buffer) => rows += new JoinedRow(of, buffer))
    groups.clear()
    rows.result()
  }
}
