package io.warmset.spark

import org.apache.spark.sql.DataFrame

/** What predicates say of rows that nothing has cached. */
trait Passing {
  // One query for so many: as many queries as predicates take minutes to compile.
  private val AtOnce = 50

  /** The ids of the rows for which each predicate is true; for predicates of one row alone. */
  protected def passing(df: DataFrame, predicates: Seq[String]): Map[String, Set[Long]] =
    predicates.distinct.grouped(AtOnce).flatMap { some =>
      val rows = df.selectExpr("id" +: some.map(p => s"coalesce($p, false)"): _*).collect()
      some.zipWithIndex.map { case (p, i) =>
        p -> rows.filter(_.getBoolean(i + 1)).map(_.getLong(0)).toSet
      }
    }.toMap
}
