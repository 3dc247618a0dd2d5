package io.warmset.spark.cachedframes

import org.apache.spark.sql.catalyst.expressions.{Expression, Literal, StartsWith}
import org.apache.spark.sql.catalyst.util.CollationFactory
import org.apache.spark.sql.types._
import org.apache.spark.unsafe.types.UTF8String

/**
 * Which of a batch's lower and upper bounds may be trusted to prune it.
 *
 * Invariant: a type is listed only if the column layer gives, for every batch that holds a value
 * that is not null, bounds in Spark's own ordering of that type: Spark takes a missing bound for
 * "nothing here matches". Counts of nulls and rows are always given, for every type.
 */
private[spark] object BatchStatistics {
  def canPrune(predicate: Expression): Boolean =
    predicate.references.forall(a => bounded(a.dataType)) && !predicate.exists(startsInMidCharacter)

  /** Spark cuts bounds to as many characters as the start has, which says nothing if one is cut. */
  private def startsInMidCharacter(e: Expression): Boolean = e match {
    case StartsWith(_, Literal(start: UTF8String, _)) => !start.isValid
    case _ => false
  }

  private def bounded(dataType: DataType): Boolean = dataType match {
    case BooleanType | ByteType | ShortType | IntegerType | LongType | FloatType | DoubleType |
        DateType | TimestampType | TimestampNTZType | _: DecimalType |
        _: DayTimeIntervalType | _: YearMonthIntervalType => true
    case text: StringType => text.collationId == CollationFactory.UTF8_BINARY_COLLATION_ID
    case _ => false
  }
}
