package org.apache.spark.sql.execution.columnar.warmset

import org.apache.spark.sql.catalyst.expressions.{BoundReference, Expression}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.joins.{HashedRelation, HashJoin}
import org.apache.spark.sql.types.LongType

/** The keys of a broadcast hash table. Here because the table is Spark's own. */
object BroadcastKeys {
  /**
   * Those of the whole-numbered key `index` of `buildKeys` that are not null, some perhaps more than
   * once; none where there are more than `most`.
   *
   * @param build gives the table, and has made it
   */
  def collect(build: SparkPlan, buildKeys: Seq[Expression], index: Int, most: Long): Option[Array[Long]] = {
    val rewritten = HashJoin.rewriteKeyExpr(buildKeys)
    val asLong = rewritten.length == 1 && rewritten.head.dataType == LongType
    val of: Expression =
      if (asLong && buildKeys.length > 1) HashJoin.extractKeyExprAt(buildKeys, index)
      else if (asLong) BoundReference(0, LongType, nullable = false)
      else BoundReference(index, buildKeys(index).dataType, nullable = true)
    val found = Array.newBuilder[Long]
    var count = 0L
    val rows = build.executeBroadcast[HashedRelation]().value.keys()
    while (rows.hasNext && count <= most) {
      val key = of.eval(rows.next())
      if (key != null) {
        found += key.asInstanceOf[Number].longValue
        count += 1
      }
    }
    if (count > most) None else Some(found.result())
  }
}
