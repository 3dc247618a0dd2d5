package io.warmset.spark

import scala.util.{Failure, Success, Try}

import org.apache.spark.SparkThrowable
import org.apache.spark.sql.{DataFrame, Row}
import org.scalatest.Suite

/** Answers with aggregates in native code, and without. */
trait KernelAnswers extends WarmsetSession { this: Suite =>
  protected val Kernels = "spark.warmset.kernels.enabled"

  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "500", "spark.warmset.rowGroup" -> "1m",
    "spark.warmset.statistics.enabled" -> "true", Kernels -> "true")

  /** Runs `body` while the view `facts` is cached. */
  protected def withCached(df: DataFrame)(body: => Unit): Unit = {
    df.cache()
    df.count()
    df.createOrReplaceTempView("facts")
    try body
    finally df.unpersist(blocking = true)
  }

  /** Sorted rows, doubles by their bits (NaN is NaN); or which error it is. */
  protected def answer(df: DataFrame): Seq[String] = {
    def shown(value: Any): String = value match {
      case d: Double if !d.isNaN => s"${java.lang.Double.doubleToRawLongBits(d)}:$d"
      case other => String.valueOf(other)
    }
    Try(df.collect()) match {
      case Success(rows) => rows.map((row: Row) => row.toSeq.map(shown).mkString(" ")).toSeq.sorted
      case Failure(cause) => Seq("error " + condition(cause))
    }
  }

  /** A decimal sum that leaves its type is one error in a final aggregate behind a shuffle, another in one that is not. */
  private def condition(cause: Throwable): String = {
    val conditions = Iterator.iterate(cause)(_.getCause).takeWhile(_ != null)
      .collect { case s: SparkThrowable if s.getCondition != null => s.getCondition }
    conditions.toSeq.lastOption.getOrElse(cause.toString)
      .replace("NUMERIC_VALUE_OUT_OF_RANGE.WITH_SUGGESTION", "ARITHMETIC_OVERFLOW")
  }

  protected def uses(query: String): Boolean = {
    val df = spark.sql(query)
    Try(df.collect())
    planNodes(df).exists(_.isInstanceOf[WarmsetAggregateExec])
  }

  /** The answer, which is the same without native code. */
  protected def compare(query: String, isNative: Boolean = false): Seq[String] = {
    val df = spark.sql(query)
    val got = answer(df)
    if (isNative) assert(planNodes(df).exists(_.isInstanceOf[WarmsetAggregateExec]), s"$query\n${planNodes(df).head}")
    var plain = Seq.empty[String]
    withSetting(Kernels, "false") { plain = answer(spark.sql(query)) }
    assert(got == plain, query)
    got
  }

  /** The batches that native code took and those it refused; the answer is the same without it. */
  protected def compareCounted(query: String): (Long, Long) = {
    val df = spark.sql(query)
    val got = answer(df)
    withSetting(Kernels, "false") { assert(got == answer(spark.sql(query)), query) }
    planNodes(df).collectFirst { case n: WarmsetAggregateExec => (n.metrics("numBatches").value, n.metrics("numBatchesByRows").value) }.get
  }
}
