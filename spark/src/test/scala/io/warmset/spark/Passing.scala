package io.warmset.spark

import java.util.concurrent.{Callable, ExecutionException, Executors}

import scala.jdk.CollectionConverters._

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

  /** Does it with each of them, two at a time: most of a small query is spent in planning it, by one thread. */
  protected def inPairs[T](each: Seq[T])(body: T => Unit): Unit = {
    val threads = Executors.newFixedThreadPool(2)
    try threads.invokeAll(each.map(one => (() => body(one)): Callable[Unit]).asJava).asScala.foreach(_.get())
    catch { case failed: ExecutionException => throw failed.getCause }
    finally threads.shutdownNow()
  }
}
