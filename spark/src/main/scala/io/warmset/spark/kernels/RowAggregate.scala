package io.warmset.spark.kernels

import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions._
import org.apache.spark.sql.catalyst.expressions.aggregate.{AggregateExpression, DeclarativeAggregate}
import org.apache.spark.sql.vectorized.ColumnarBatch

/**
 * A partial aggregate by Spark's own expressions, row by row, from the groups that native code had on.
 *
 * Invariant: values, nulls and errors are those of Spark's partial aggregate over the same rows. With keys its buffers
 * are rows in Spark's format, where a decimal that leaves its type is null at once; without, they are variables of
 * generated code, where it is null in the end if it is still outside.
 */
private[spark] final class RowAggregate(
    keys: Seq[Expression],
    aggregates: Seq[AggregateExpression],
    conditions: Seq[Expression],
    input: Seq[Attribute]) {
  private val functions = aggregates.map(_.aggregateFunction.asInstanceOf[DeclarativeAggregate])
  private val attributes = functions.flatMap(_.aggBufferAttributes)
  private val types = attributes.map(_.dataType)
  private val initial = UnsafeProjection.create(functions.flatMap(_.initialValues))(InternalRow.empty)
  private val update = MutableProjection.create(aggregates.zip(functions).flatMap((updates _).tupled), attributes ++ input)
  private val key = UnsafeProjection.create(keys, input)
  private val passes = Predicate.create(conditions.reduceOption(And).getOrElse(Literal.TrueLiteral), input)
  private val groups = new java.util.LinkedHashMap[UnsafeRow, InternalRow]
  private val joined = new JoinedRow

  def count: Int = groups.size

  /** Rows that the aggregate's own filter takes out change nothing. */
  private def updates(aggregate: AggregateExpression, function: DeclarativeAggregate): Seq[Expression] =
    function.updateExpressions.zip(function.aggBufferAttributes).map { case (update, before) =>
      aggregate.filter.fold(update)(If(_, update, before))
    }

  /** Adds the rows of a batch from the given one on. */
  def add(batch: ColumnarBatch, from: Int): Unit = {
    var i = from
    while (i < batch.numRows) {
      val row = batch.getRow(i)
      if (passes.eval(row)) {
        val of = buffer(key(row))
        update.target(of)(joined(of, row))
      }
      i += 1
    }
  }

  /** Goes on from groups of keys and buffers. */
  def begin(from: Iterator[InternalRow]): Unit = {
    val keyOf = UnsafeProjection.create(keys.zipWithIndex.map { case (k, i) => BoundReference(i, k.dataType, nullable = true) })
    val bufferOf = UnsafeProjection.create(
      types.zipWithIndex.map { case (of, i) => BoundReference(keys.length + i, of, nullable = true) })
    from.foreach(row => groups.put(keyOf(row).copy(), writable(bufferOf(row))))
  }

  private def buffer(of: UnsafeRow): InternalRow = {
    val known = groups.get(of)
    if (known != null) {
      known
    } else {
      val fresh = writable(initial)
      groups.put(of.copy(), fresh)
      fresh
    }
  }

  private def writable(row: UnsafeRow): InternalRow =
    if (keys.nonEmpty) row.copy() else new GenericInternalRow(row.copy().toSeq(types).toArray[Any])

  /** Gives out all groups, and forgets them; without keys one even of no row. */
  def take(): Seq[InternalRow] = {
    if (keys.isEmpty) buffer(key(InternalRow.empty))
    val rows = Seq.newBuilder[InternalRow]
    groups.forEach((of, buffer) => rows += new JoinedRow(of, buffer))
    groups.clear()
    rows.result()
  }
}
