package org.apache.spark.sql.warmset

/**
 * Tests of Spark's own suites that say something about Spark's own serializer rather than about
 * caching, each with the reason. Everything else must pass with the plugin on.
 *
 * Invariant: every name here is the name of a test of that suite; a suite that runs fails on a name
 * that it does not have, so that nothing stays skipped after Spark renamed or removed it.
 */
object SkippedTests {
  private val scanBelowFilter =
    "it wants the cached scan as the filter's direct child; Warmset puts Spark's ColumnarToRow " +
      "in between, to read columns. What it says of pruning is tested in our subclass."

  private val ownInputs =
    "it looks at the plan of its own input (a scan of files, a scan that two subqueries share, an order), where our " +
      "suite has put a cached relation for each."

  private val needsPython =
    "it needs the Python of Spark's own build tree; Python functions over caches are in tests/test_pyspark.py."

  private val bySuite: Map[String, Map[String, String]] = Map(
    "CachedTableSuite" -> Map(
      "SPARK-37369: Avoid redundant ColumnarToRow transition on InMemoryTableScan" ->
        ("it wants no ColumnarToRow above a cached scan, which is Spark's way; Warmset puts one " +
          "there so that generated code reads columns. That a scan by rows has none is tested in " +
          "our subclass.")),
    "InMemoryColumnarQuerySuite" -> Map(
      "SPARK-22348: table cache should do partition batch pruning (whole-stage-codegen on)" ->
        scanBelowFilter,
      "SPARK-22348: table cache should do partition batch pruning (whole-stage-codegen off)" ->
        scanBelowFilter),
    "DataFrameAggregateSuite" -> Map(
      "aggregating with various distinct expressions" ->
        "its answers are right; it then looks for Expand in an optimised plan over its own inputs."),
    "JoinSuite" -> Map(
      "SPARK-34593: Preserve broadcast nested loop join partitioning and ordering" -> ownInputs,
      "SPARK-28323: PythonUDF should be able to use in join condition" -> needsPython,
      "SPARK-28345: PythonUDF predicate should be able to pushdown to join" -> needsPython),
    "SubquerySuite" -> Map(
      "SPARK-26893: Allow pushdown of partition pruning subquery filters to file source" -> ownInputs,
      "SPARK-27279: Reuse Subquery" -> ownInputs,
      "Subquery reuse across the whole plan" -> ownInputs,
      "SPARK-43402: FileSourceScanExec supports push down data filter with scalar subquery" -> ownInputs).++(
      Seq(
        "bug in WHERE clause (Filter)",
        "bug in SELECT clause (Project)",
        "bug in HAVING clause (Filter)",
        "bug in Aggregate",
        "bug negative examples",
        "bug in nested subquery",
        "bug with nasty predicate expr",
        "bug with attribute ref in subquery input and output")
        .map(test => s"SPARK-28441: COUNT $test with PythonUDF" -> needsPython)))

  /** Tests that want Spark's own statistics of a cached relation: which there are, its size, the name of its class. */
  private val ownStatistics = Set(
    "analyzes column statistics in cached query",
    "SPARK-22673: InMemoryRelation should utilize existing stats of the plan to be cached",
    "SPARK-25727 - otherCopyArgs in InMemoryRelation does not include outputOrdering")

  /** Whether the test runs with `spark.warmset.statistics.enabled` off. */
  def wantsOwnStatistics(name: String): Boolean = ownStatistics(name)

  /** Test name to reason, of the suite of Spark that `suite` extends. */
  def of(suite: Class[_]): Map[String, String] = bySuite.getOrElse(suite.getSuperclass.getSimpleName, Map.empty)
}
