package org.apache.spark.sql.warmset

import org.apache.spark.SparkConf
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.catalyst.plans.logical.{LocalRelation, LogicalPlan, SerializeFromObject}
import org.apache.spark.sql.catalyst.rules.Rule
import org.apache.spark.sql.execution.{ExternalRDD, LogicalRDD}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.sql.execution.datasources.LogicalRelation
import org.apache.spark.sql.internal.StaticSQLConf
import org.apache.spark.storage.StorageLevel

/** A suite of Spark's whose queries read every input from a cache, with all that Warmset does for whole queries. */
trait InputsCached extends PluginOn {
  override def sparkConf: SparkConf =
    super.sparkConf.set(StaticSQLConf.SPARK_SESSION_EXTENSIONS.key, classOf[CachedInputs].getName)

  test("warmset: inputs are cached") {
    val plan = spark.sql("select a, sum(b) from testData2 group by a").queryExecution.optimizedPlan
    assert(plan.collectLeaves().forall(_.isInstanceOf[InMemoryRelation]), plan)
  }
}

/** Puts a cached relation in the place of each input of an optimised plan. */
class CachedInputs extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = extensions.injectPreCBORule(new CacheInputs(_))
}

private object CacheInputs {
  // The plan of an input is optimised, too, by a rule that is made anew.
  private val making = new ThreadLocal[Boolean]
}

private class CacheInputs(session: SparkSession) extends Rule[LogicalPlan] {
  import CacheInputs.making

  override def apply(plan: LogicalPlan): LogicalPlan = if (making.get) plan else plan.transformDown {
    case input @ (_: LocalRelation | _: LogicalRDD | _: LogicalRelation | SerializeFromObject(_, _: ExternalRDD[_]))
        if !input.isStreaming =>
      making.set(true)
      try {
        val made = InMemoryRelation(StorageLevel.MEMORY_AND_DISK, session.sessionState.executePlan(input), None)
        made.withOutput(input.output)
      } finally making.set(false)
  }
}
