package io.warmset.bench

import org.apache.spark.SparkContext
import org.apache.spark.rdd.RDD
import org.apache.spark.storage.StorageLevel

/** A small object, as programs keep them in RDDs by the million. */
case class Reading(id: Long, name: String, values: Array[Double])

/** Readings in an RDD that is cached and scanned. The same arguments give the same readings. */
object Objects {
  private val Names = 5000

  /** So many readings, to be kept at the level of `spark.bench.level`; nothing is computed yet. */
  def cached(context: SparkContext, readings: Long, width: Int, partitions: Int): RDD[Reading] =
    context
      .range(0, readings, 1, partitions)
      .map(id => reading(id, width))
      .setName("readings")
      .persist(StorageLevel.fromString(context.getConf.get("spark.bench.level", "MEMORY_AND_DISK")))

  /** Touches all of every reading; the sums are added in the order of the partitions. */
  def scan(readings: RDD[Reading]): Array[Double] = {
    val sums = readings.mapPartitions(each => Iterator.single(sum(each))).collect()
    Array(sums.map(_._1).sum.toDouble, sums.map(_._2).sum.toDouble, sums.map(_._3).sum)
  }

  private def reading(id: Long, width: Int): Reading = {
    val values = new Array[Double](width)
    var column = 0
    while (column < width) {
      values(column) = java.lang.Math.floorMod(id * 31 + column * 17, 1009L) / 7.0
      column += 1
    }
    Reading(id, s"sensor-${id % Names}", values)
  }

  private def sum(readings: Iterator[Reading]): (Long, Long, Double) = {
    var ids, letters = 0L
    var values = 0.0
    readings.foreach { reading =>
      ids += reading.id
      letters += reading.name.length
      var column = 0
      while (column < reading.values.length) {
        values += reading.values(column)
        column += 1
      }
    }
    (ids, letters, values)
  }
}
