package org.apache.spark.ml.warmset

import java.nio.file.Files

import scala.jdk.CollectionConverters._

import io.warmset.spark.WarmsetSession
import jdk.jfr.Recording
import jdk.jfr.consumer.{RecordedEvent, RecordingFile}
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

/** Trainers that go over small elements make no arrays again in each pass, as JFR sees it. */
class TrainersArraysSuite extends AnyFunSuite with WarmsetSession {
  import TrainersArraysSuite._

  override protected def settings: Map[String, String] = Map("spark.warmset.rdd.enabled" -> "true")

  /** The allocations of `array`s that JFR's `event` tells of and that the reader of elements made for `work`. */
  private def allocations(event: String, array: String)(work: => Unit): Seq[RecordedEvent] = {
    val recording = new Recording
    val file = Files.createTempFile("allocations", ".jfr")
    try {
      recording.enable(event).withStackTrace().`with`("throttle", "off")
      recording.start()
      work
      recording.stop()
      recording.dump(file)
      RecordingFile.readAllEvents(file).asScala.toSeq.filter { made =>
        made.getClass("objectClass").getName == array && made.getStackTrace != null &&
          made.getStackTrace.getFrames.asScala.exists(_.getMethod.getType.getName.startsWith("io.warmset.rdd."))
      }
    } finally {
      recording.close()
      Files.delete(file)
    }
  }

  /** Samples: each is worth what its thread allocated since its last one, all of it in the arrays if these are most. */
  private def sampledBytes(array: String)(work: => Unit): Long =
    allocations("jdk.ObjectAllocationSample", array)(work).map(_.getLong("weight")).sum

  private def points(partitions: Int): RDD[(Vector, Double)] =
    spark.sparkContext.parallelize(0 until Rows, partitions).map(row => (Vectors.dense(values(row)), 1.0))

  private def centers(points: RDD[(Vector, Double)], passes: Int, persists: Boolean): Seq[Vector] =
    new KMeans().setK(5).setSeed(7).setEpsilon(0).setMaxIterations(passes)
      .setInitializationMode("random").runWithWeight(points, persists, None).clusterCenters.toSeq

  private def isLittle(bytes: Long, passes: Int, rows: Int, bytesOfValue: Int): Boolean =
    bytes < passes.toLong * rows * Values * bytesOfValue / 10

  test("k-means") {
    val data = points(2)
    centers(data, 2, persists = true)
    // Each starts with two passes of Spark's own over elements that it may keep.
    val few = sampledBytes("[D")(centers(data, 2, persists = true))
    val many = sampledBytes("[D")(centers(data, 12, persists = true))
    assert(few > 0 && isLittle(many - few, 10, Rows, 8), s"$few in 2 passes, $many in 12")
  }

  // MLlib itself allocates more in each pass than there is data.
  test("k-means over blocks of rows") {
    val session = spark
    import session.implicits._
    val data = points(2).map { case (point, _) => Tuple1(point.asML) }.toDF("features")
    val (passes, blocks) = (6, Rows * Values * 8 >> 20)
    // They are too large for a thread's buffer.
    val made = allocations("jdk.ObjectAllocationOutsideTLAB", "[D") {
      new BlockKMeans().setK(5).setSeed(7).setTol(0).setMaxIter(passes).setInitMode("random").setSolver("block").fit(data)
    }.length
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
    val bytes = sampledBytes("[I")(fit(4))
    assert(bytes > 0 && isLittle(bytes, 15, rows, 4), s"$bytes in 15 passes")
  }
}
