package io.warmset.spark

import scala.util.{Random, Try}

import io.warmset.columns.Encodings
import org.apache.spark.sql.DataFrame
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.scalatest.funsuite.AnyFunSuite

/**
 * Random aggregates over random cached tables give Spark's own answers over the same rows, which are not cached.
 *
 * A table is cached several times, in batches of other sizes, so that one answer of Spark's serves several of ours. Three tables of
 * four are without adaptive execution, where the plan is known before it runs: of queries that have no native code only
 * some run. They are without generated code, too, which takes longer to compile than these queries take.
 * `WARMSET_KERNELS_SECONDS=600` runs it for so long, from a seed of its own each time; `WARMSET_SEED` says which.
 */
class RandomAggregatesSuite extends AnyFunSuite with WarmsetSession with KernelAnswers {
  private val seconds = sys.env.get("WARMSET_KERNELS_SECONDS").map(_.toLong)
  private val QueriesPerTable = if (seconds.isDefined) 16 else 8
  private val Tables = 8
  /** Of the eight tables from here on, some have batches of one row, and some leave native code row by row. */
  private val FirstSeed = 11L

  private var tables, queries, replaced, native, byRows = 0L
  private val batches = Array.fill(4)(0L)
  private var encodings = Map.empty[String, Long].withDefaultValue(0L)

  override def beforeAll(): Unit = {
    super.beforeAll()
    // Many of the queries overflow, which is an error.
    spark.sparkContext.setLogLevel("OFF")
  }

  override def afterAll(): Unit = {
    spark.sparkContext.setLogLevel("INFO")
    super.afterAll()
  }

  test("random aggregates over random tables give Spark's answers") {
    val first = sys.env.get("WARMSET_SEED").map(_.toLong).getOrElse(if (seconds.isDefined) Random.nextLong() else FirstSeed)
    val end = seconds.map(_ * 1000 + System.currentTimeMillis())
    var seed = first
    while (end.fold(seed - first < Tables)(System.currentTimeMillis() < _)) {
      withClue(s"WARMSET_SEED=$seed") { checkTable(new RandomAggregates(seed), seed) }
      seed += 1
    }
    val counted = s"seeds $first to ${seed - 1}: $tables tables of ${encodings.size} kinds of columns, $queries queries, " +
      s"$replaced with WarmsetAggregate; $native batches in native code (${batches(0)} of one row, ${batches(1)} of up to 9, " +
      s"${batches(2)} of up to 99, ${batches(3)} of more), $byRows row by row"
    info(counted)
    // Of few queries any share may be native; of many it is a third.
    assert(queries < Tables * QueriesPerTable || replaced * 4 > queries && native > byRows && byRows > 0, counted)
    val missing = Wanted.filterNot(encodings.contains)
    assert(tables < 100 || missing.isEmpty, s"$counted; no columns of ${missing.mkString("; ")}")
  }

  private def checkTable(table: RandomAggregates, seed: Long): Unit = {
    val isAdaptive = seed % 4 == 0
    val settings = Map("spark.sql.adaptive.enabled" -> isAdaptive.toString, "spark.sql.codegen.wholeStage" -> isAdaptive.toString,
      "spark.sql.codegen.factoryMode" -> (if (isAdaptive) "FALLBACK" else "NO_CODEGEN"))
    withSettings(settings) {
      table.table(spark).createOrReplaceTempView("plain")
      val caches = table.batchSizes.map(rows => s"facts$rows" -> cached(table, rows))
      tables += 1
      try (1 to QueriesPerTable).foreach { n =>
        withSetting("spark.sql.ansi.enabled", (n % 2 == 0).toString) {
          checkQuery(table.query(), table, caches.map(_._1), runs = isAdaptive || n <= QueriesPerTable / 4)
        }
      } finally caches.foreach(_._2.unpersist(blocking = true))
    }
  }

  private def cached(table: RandomAggregates, rowsPerBatch: Int): DataFrame = {
    val df = table.table(spark)
    withSetting("spark.sql.inMemoryColumnarStorage.batchSize", rowsPerBatch.toString) { df.cache().count() }
    df.createOrReplaceTempView(s"facts$rowsPerBatch")
    relation(df).foreach(_.cacheBuilder.cachedColumnBuffers.mapPartitions(_.flatMap {
      case batch: WarmBatch => Encodings.of(batch.meta)
      case other => Seq(other.getClass.getName)
    }.toSeq.distinct.iterator).collect().foreach(kind => encodings = encodings.updated(kind, encodings(kind) + 1)))
    df
  }

  private def relation(df: DataFrame): Option[InMemoryRelation] =
    df.asInstanceOf[org.apache.spark.sql.classic.Dataset[_]].queryExecution.withCachedData.collectFirst { case r: InMemoryRelation => r }

  /** @param runs whether it runs even if its plan has no native code */
  private def checkQuery(query: RandomQuery, table: RandomAggregates, views: Seq[String], runs: Boolean): Unit = {
    // Of several partitions any may be the first to fail.
    def shown(answer: Seq[String]) = if (table.partitions == 1 || !answer.exists(_.startsWith("error"))) answer else Seq("error")
    val first = spark.sql(query(views.head))
    queries += 1
    if (runs || Try(nodes(first)).toOption.exists(_.nonEmpty)) {
      val expected = shown(answer(spark.sql(query("plain"))))
      val ours = first +: views.tail.map(view => spark.sql(query(view)))
      ours.zip(table.batchSizes).foreach { case (df, rows) =>
        val found = shown(answer(df))
        // A condition that fails in a row is not asked where another one leaves the row out: which comes first is not given, and caches
        // (Spark's own, too) leave out whole batches by their bounds.
        def inAnotherOrder = expected.exists(_.startsWith("error")) &&
          query.orders("plain").exists(other => shown(answer(spark.sql(other))) == found)
        assert(found == expected || inAnotherOrder, s"in batches of $rows rows: ${query("facts")}")
        nodes(df).foreach { node =>
          val taken = node.metrics("numBatches").value
          native += taken
          byRows += node.metrics("numBatchesByRows").value
          batches(if (rows == 1) 0 else if (rows < 10) 1 else if (rows < 100) 2 else 3) += taken
        }
      }
      if (nodes(first).nonEmpty) replaced += 1
    }
  }

  private def nodes(df: DataFrame): Seq[WarmsetAggregateExec] = planNodes(df).collect { case node: WarmsetAggregateExec => node }

  private lazy val Wanted: Seq[String] = for {
    values <- (0 to 4).map(w => s"int of $w") ++ (0 to 8).map(w => s"long of $w") ++
      Seq("double of 0", "double of 8", "double in a dictionary", "double scaled, of 2", "decimal of 0", "decimal of 8", "decimal of 16",
        "bytes", "bytes in a dictionary, codes of 0", "bytes in a dictionary, codes of 1", "bytes in a dictionary, codes of 2")
    nulls <- Seq("no", "some")
  } yield s"$values, $nulls nulls"
}
