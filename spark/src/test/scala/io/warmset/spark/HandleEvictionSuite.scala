package io.warmset.spark

import org.apache.spark.SparkEnv
import org.apache.spark.storage.{RDDBlockId, StorageLevel}
import org.scalatest.funsuite.AnyFunSuite

object HandleEviction {
  val MiB: Long = 1L << 20

  /** A MiB of `i`. */
  def array(i: Int): Array[Byte] = Array.fill(MiB.toInt)(i.toByte)
}

/** Blocks of objects that Spark's memory has no room for leave cached tables alone: those lie outside of it. */
class HandleEvictionSuite extends AnyFunSuite with WarmsetSession {
  import HandleEviction._
  private val Memory = 64 * MiB

  override protected def settings: Map[String, String] = Map(
    "spark.task.maxFailures" -> "1", "spark.testing.reservedMemory" -> "0",
    "spark.testing.memory" -> (Memory * 10 / 6).toString, "spark.buffer.pageSize" -> "64k")

  private def blocks(rdd: Int): Int = BlockAccess.rddBlocks(SparkEnv.get).count {
    case RDDBlockId(`rdd`, _) => true
    case _ => false
  }

  for (level <- Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_AND_DISK)) {
    test(s"${level.description}: handles stay while objects on the heap find no room") {
      val table = spark.range(0, 200000, 1, 8).selectExpr("id", "concat('s', id) s").cache()
      assert(table.count() == 200000)
      val Seq(cached) = BlockAccess.rddBlocks(SparkEnv.get).collect { case RDDBlockId(rdd, _) => rdd }.distinct.toSeq
      assert(blocks(cached) == 8 && inRegions(cached) == 8)
      val objects = spark.sparkContext.parallelize(0 until 160, 16).map(HandleEviction.array).persist(level)
      val expected = (0 until 160).map(_.toByte.toLong).sum * MiB
      for (_ <- 1 to 2) assert(objects.map(_.map(_.toLong).sum).sum() == expected)
      assert(blocks(objects.id) > 0, "some found room")
      assert(blocks(cached) == 8, "no block of the table went")
      val before = blocks(objects.id)
      // What the heap blocks cannot give alone.
      assert(BlockAccess.free(BlockAccess.storageMemory - 1)._2 == 0)
      assert(blocks(cached) == 8 && blocks(objects.id) == before, "nothing went for nothing")
      val (used, freed) = BlockAccess.free(8 * MiB)
      assert(freed >= 8 * MiB && BlockAccess.storageMemory <= used - freed)
      assert(blocks(cached) == 8 && table.count() == 200000)
      objects.unpersist(blocking = true)
      table.unpersist(blocking = true)
    }
  }

  test("handles that fill more than half of the memory go as other blocks do") {
    val batchRows = "spark.sql.inMemoryColumnarStorage.batchSize"
    spark.conf.set(batchRows, "10")
    try {
      val columns = (0 until 10).map(c => s"id * 1000003 % ${1000 + c} c$c")
      val table = spark.range(0, 160000, 1, 8).selectExpr(columns: _*).cache()
      val expected = table.selectExpr("sum(c0 + c9)").head()
      val Seq(cached) = BlockAccess.rddBlocks(SparkEnv.get).collect { case RDDBlockId(rdd, _) => rdd }.distinct.toSeq
      assert(blocks(cached) == 8 && inRegions(cached) == 8)
      val (used, freed) = BlockAccess.free(BlockAccess.storageMemory / 2)
      assert(used > Memory / 2, "handles fill less than this test is about")
      assert(freed >= used / 2 && inRegions(cached) < 8)
      assert(table.selectExpr("sum(c0 + c9)").head() == expected)
      table.unpersist(blocking = true)
    } finally spark.conf.unset(batchRows)
  }
}
