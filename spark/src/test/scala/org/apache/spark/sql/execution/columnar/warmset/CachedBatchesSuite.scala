package org.apache.spark.sql.execution.columnar.warmset

import java.nio.file.Files

import org.apache.spark.{HashPartitioner, SparkConf, SparkContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.columnar.CachedBatch
import org.apache.spark.sql.execution.columnar.DefaultCachedBatch
import org.apache.spark.storage.StorageLevel
import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

private object CachedBatchesSuite {
  def batch(n: Int): CachedBatch = DefaultCachedBatch(n, Array.empty, InternalRow.empty)
}

/** The RDDs that a cache is built from are to the scheduler what Spark's own would be. */
class CachedBatchesSuite extends AnyFunSuite with BeforeAndAfterAll {
  import CachedBatchesSuite._

  private lazy val sc = new SparkContext(new SparkConf().setMaster("local[2]")
    .setAppName("cached-batches").set("spark.ui.enabled", "false"))

  override def afterAll(): Unit = try sc.stop() finally super.afterAll()

  private def batches(input: RDD[Int]): RDD[CachedBatch] =
    CachedBatches.rdd[Int](input, (_, values) => values.map(batch), statistics = None)

  private def plain: RDD[Int] = sc.parallelize(0 until 10, 3)

  test("each partition is its parent's, through both functions, the second with its index") {
    val rows = batches(plain)
      .mapPartitionsWithIndexInternal((index, values) => values.map(b => index -> b.numRows))
    assert(rows.collect().toSeq ==
      plain.mapPartitionsWithIndex((index, values) => values.map(index -> _)).collect().toSeq)
    assert(batches(plain).mapPartitionsInternal(_.map(_.numRows)).collect().toSeq == (0 until 10))
  }

  test("what is persisted keeps objects, also at levels of bytes") {
    val persisted = batches(plain).mapPartitionsInternal(identity)
      .persist(StorageLevel.MEMORY_AND_DISK_SER)
    assert(persisted.getStorageLevel == StorageLevel.MEMORY_AND_DISK)
  }

  test("partitioner, determinism and barriers are those of Spark's own RDD") {
    val keyed = plain.map(i => (i, i)).partitionBy(new HashPartitioner(2))
    val barrier = plain.barrier().mapPartitions(identity)
    for (input <- Seq[RDD[Int]](plain, keyed.map(_._1), barrier); ordered <- Seq(false, true)) {
      val first = batches(input)
      val stock = input.mapPartitions(_.map(batch))
      assert(first.partitioner == stock.partitioner)
      assert(first.outputDeterministicLevel == stock.outputDeterministicLevel)
      assert(first.isBarrier() == input.isBarrier())
      val ours = first.mapPartitionsWithIndexInternal((_, b) => b, isOrderSensitive = ordered)
      val theirs = stock.mapPartitionsWithIndexInternal((_, b) => b, isOrderSensitive = ordered)
      assert(ours.outputDeterministicLevel == theirs.outputDeterministicLevel)
      assert(ours.isBarrier() == theirs.isBarrier())
    }
    assert(batches(keyed.map(_._1)).mapPartitionsWithIndexInternal((_, b) => b,
      isOrderSensitive = true).outputDeterministicLevel == DeterministicLevel.INDETERMINATE)
    val partitioned = new PersistedBatchRDD[CachedBatch](
      keyed.mapPartitions(_.map(pair => batch(pair._1)), preservesPartitioning = true), (_, b) => b,
      preservesPartitioning = true, isOrderSensitive = false, statistics = None)
    assert(partitioned.partitioner == keyed.partitioner)
  }

  test("a checkpoint lets go of the parent") {
    sc.setCheckpointDir(Files.createTempDirectory("warmset-checkpoint").toString)
    val rows = batches(plain).mapPartitionsInternal(_.map(_.numRows))
    rows.checkpoint()
    rows.count()
    assert(!rows.toDebugString.contains(classOf[CachedBatchRDD[_]].getSimpleName))
    assert(rows.collect().toSeq == (0 until 10))
  }
}
