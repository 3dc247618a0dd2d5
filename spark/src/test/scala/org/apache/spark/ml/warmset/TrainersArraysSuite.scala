package org.apache.spark.ml.warmset

import java.lang.management.ManagementFactory
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import com.sun.management.{ThreadMXBean => HotSpotThreads}
import io.warmset.spark.WarmsetSession
import jdk.jfr.Recording
import jdk.jfr.consumer.RecordingFile
import org.apache.spark.ml.clustering.{KMeans => BlockKMeans}
import org.apache.spark.mllib.clustering.KMeans
import org.apache.spark.mllib.linalg.{Vector, Vectors}
import org.apache.spark.mllib.regression.LabeledPoint
import org.apache.spark.mllib.tree.RandomForest
import org.apache.spark.mllib.tree.configuration.{Algo, QuantileStrategy, Strategy}
import org.apache.spark.mllib.tree.impurity.Gini
import org.apache.spark.rdd.RDD
import org.scalatest.funsuite.AnyFunSuite

object TrainersArraysSuite {
  val Rows = 10000
  val Values = 1000

  def values(row: Int): Array[Double] = {
    val random = new java.util.SplittableRandom(row)
    Array.fill(Values)(random.nextGaussian())
  }

  def bits(row: Int): Array[Double] = values(row).map(value => if (value < 0) 0.0 else 1.0)
}

/** Trainers that go over small elements make no arrays anew in each pass: the bytes that further passes allocate. */
class TrainersArraysSuite extends AnyFunSuite with WarmsetSession {
  import TrainersArraysSuite._

  override protected def settings: Map[String, String] = Map("spark.warmset.rdd.enabled" -> "true")

  private val threads = ManagementFactory.getThreadMXBean.asInstanceOf[HotSpotThreads]

  /** Bytes that the threads that live now have allocated so far; tasks' threads outlive their tasks. */
  private def allocated(): Long = threads.getThreadAllocatedBytes(threads.getAllThreadIds).filter(_ > 0).sum

  private def allocatedBy(work: => Unit): Long = {
    val before = allocated()
    work
    allocated() - before
  }

  private def points(partitions: Int): RDD[(Vector, Double)] =
    spark.sparkContext.parallelize(0 until Rows, partitions).map(row => (Vectors.dense(values(row)), 1.0))

  private def centers(points: RDD[(Vector, Double)], passes: Int, persists: Boolean): Seq[Vector] =
    new KMeans().setK(5).setSeed(7).setEpsilon(0).setMaxIterations(passes)
      .setInitializationMode("random").runWithWeight(points, persists, None).clusterCenters.toSeq

  /** Spark itself allocates some 20 MB in each job. */
  private def isLittle(bytes: Long, passes: Int, rows: Int, bytesOfValue: Int): Boolean =
    bytes < passes.toLong * rows * Values * bytesOfValue / 2

  test("k-means") {
    val data = points(2)
    centers(data, 2, persists = true)
    val few = allocatedBy(centers(data, 2, persists = true))
    val many = allocatedBy(centers(data, 12, persists = true))
    assert(isLittle(many - few, 10, Rows, 8), s"$few with 2 passes, $many with 12")
  }

  /** Arrays of doubles that are too large for a thread's buffer, made by the reader of elements meanwhile. */
  private def largeArraysBy(work: => Unit): Int = {
    val recording = new Recording
    val file = Files.createTempFile("allocations", ".jfr")
    try {
      recording.enable("jdk.ObjectAllocationOutsideTLAB").withStackTrace()
      recording.start()
      work
      recording.stop()
      recording.dump(file)
      RecordingFile.readAllEvents(file).asScala.count { event =>
        event.getClass("objectClass").getName == "[D" && event.getStackTrace != null &&
          event.getStackTrace.getFrames.asScala.exists(_.getMethod.getType.getName.startsWith("io.warmset.rdd."))
      }
    } finally {
      recording.close()
      Files.delete(file)
    }
  }

  // MLlib itself allocates more in each pass than there is data.
  test("k-means over blocks of rows") {
    val session = spark
    import session.implicits._
    val data = points(2).map { case (point, _) => Tuple1(point.asML) }.toDF("features")
    val (passes, blocks) = (6, Rows * Values * 8 >> 20)
    val made = largeArraysBy {
      new BlockKMeans().setK(5).setSeed(7).setTol(0).setMaxIter(passes).setInitMode("random").setSolver("block").fit(data)
    }
    // In each partition of each pass an array for the first block, one for those after it, one for the last, smaller one.
    assert(made >= passes && made < passes * blocks / 2, s"$passes passes over $blocks blocks")
  }

  test("k-means finds what it finds without a cache") {
    val data = points(1)
    assert(centers(data, 6, persists = true) == centers(data, 6, persists = false))
  }

  test("a random forest") {
    val rows = 2 * Rows
    val data = spark.sparkContext.parallelize(0 until rows, 2)
      .map(row => LabeledPoint(row % 2.0, Vectors.dense(bits(row))))
    // For categories no splits are looked for, which would allocate far more; without memory each node has a pass.
    def fit(depth: Int): Unit = {
      val strategy = new Strategy(Algo.Classification, Gini, depth, 2, 2, QuantileStrategy.Sort,
        (0 until Values).map(_ -> 2).toMap, maxMemoryInMB = 0)
      RandomForest.trainClassifier(data, strategy, 1, "all", 7)
    }
    fit(1)
    val few = allocatedBy(fit(1))
    val many = allocatedBy(fit(4))
    assert(isLittle(many - few, 14, rows, 4), s"$few with 1 pass, $many with 15")
  }
}
