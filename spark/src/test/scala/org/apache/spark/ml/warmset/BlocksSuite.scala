package org.apache.spark.ml.warmset

import io.warmset.spark.WarmsetSession
import org.apache.spark.ml.feature.InstanceBlock
import org.apache.spark.ml.linalg.DenseMatrix
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel
import org.scalatest.funsuite.AnyFunSuite

object Blocks {
  def values(block: InstanceBlock): Array[Double] = block.matrix.asInstanceOf[DenseMatrix].values

  def sum(block: InstanceBlock): Double = values(block).sum + block.labels.sum

  def arrays(blocks: Seq[InstanceBlock]): Int = {
    val seen = java.util.Collections.newSetFromMap(new java.util.IdentityHashMap[AnyRef, java.lang.Boolean])
    blocks.foreach(block => seen.add(values(block)))
    seen.size
  }
}

/** MLlib's blocks of rows: their arrays are used again where a tree aggregation folds them, and for nobody else here. */
class BlocksSuite extends AnyFunSuite with WarmsetSession {
  import Blocks._

  private val Each = 12

  override protected def settings: Map[String, String] = Map("spark.warmset.rdd.enabled" -> "true")

  override def afterEach(): Unit = {
    spark.sparkContext.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
    super.afterEach()
  }

  /** Two partitions, the last block of which is smaller. */
  private def blocks(level: StorageLevel): RDD[InstanceBlock] = {
    val each = Each
    val made = spark.sparkContext.parallelize(0 until 2 * each, 2).map { i =>
      val rows = if (i % each == each - 1) 100 else 2500
      val random = new java.util.SplittableRandom(i)
      val values = Array.fill(rows * 50)(random.nextGaussian())
      new InstanceBlock(Array.fill(rows)(i % 2.0), Array.empty, new DenseMatrix(50, rows, values).transpose)
    }.persist(level)
    assert(made.count() == 2 * each && regions.nonEmpty)
    made
  }

  for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
    test(s"${level.description}: a tree aggregation has each block as it is, in few arrays") {
      val rdd = blocks(level)
      val expected = rdd.map(sum).collect().toSeq
      val (sums, kept) = rdd.treeAggregate((Seq.empty[Double], Seq.empty[InstanceBlock]))(
        { case ((sums, kept), block) => (sums :+ sum(block), kept :+ block) },
        { case (left, right) => (left._1 ++ right._1, left._2 ++ right._2) })
      assert(sums.sorted == expected.sorted)
      // In each partition the first one, the ones after it, and the last; what is sent keeps that.
      assert(arrays(kept) <= 6, "they were not used again")
    }

    test(s"${level.description}: whoever else reads has arrays of its own") {
      val rdd = blocks(level)
      val expected = rdd.map(sum).collect().toSeq
      val kept = Seq[RDD[InstanceBlock] => Seq[InstanceBlock]](
        _.collect().toSeq,
        _.mapPartitions(each => Iterator(each.toSeq)).collect().toSeq.flatten,
        _.coalesce(1).glom().collect().toSeq.flatten,
        _.filter(_ => true).treeAggregate(Seq.empty[InstanceBlock])(_ :+ _, _ ++ _),
        _.map(identity).treeAggregate(Seq.empty[InstanceBlock])(_ :+ _, _ ++ _),
        _.mapPartitions(_.buffered).treeAggregate(Seq.empty[InstanceBlock])(_ :+ _, _ ++ _),
        all => all.zip(all.map(_ => 0)).treeAggregate(Seq.empty[InstanceBlock])(_ :+ _._1, _ ++ _),
        _.aggregate(Seq.empty[InstanceBlock])(_ :+ _, _ ++ _),
        _.repartition(3).collect().toSeq)
      kept.zipWithIndex.foreach { case (how, at) =>
        val found = how(rdd)
        assert(found.map(sum).sorted == expected.sorted, at)
        assert(arrays(found) == 2 * Each, at)
      }
    }
  }

  test("what is no block of MLlib's has arrays of its own in a tree aggregation too") {
    val rdd = spark.sparkContext.parallelize(0 until 20, 2).map(i => Array.fill(100000)(i / 8.0))
      .persist(StorageLevel.MEMORY_ONLY)
    rdd.count()
    val kept = rdd.treeAggregate(Seq.empty[Array[Double]])(_ :+ _, _ ++ _)
    assert(kept.map(_.head).sorted == (0 until 20).map(_ / 8.0))
  }
}
