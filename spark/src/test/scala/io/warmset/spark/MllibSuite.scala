package io.warmset.spark

import java.util.concurrent.atomic.AtomicInteger

import scala.util.Random

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.ml.classification.{LinearSVC, LogisticRegression, RandomForestClassifier}
import org.apache.spark.ml.clustering.{GaussianMixture, KMeans}
import org.apache.spark.ml.linalg.{Matrices, Vector, Vectors}
import org.apache.spark.ml.recommendation.ALS
import org.apache.spark.ml.regression.{GBTRegressor, LinearRegression}
import org.apache.spark.ml.stat.distribution.MultivariateGaussian
import org.apache.spark.scheduler.{SparkListener, SparkListenerTaskEnd}
import org.apache.spark.sql.DataFrame
import org.apache.spark.warmset.Listeners
import org.scalatest.funsuite.AnyFunSuite

private object MllibSuite {
  val Rows = 60000
  // So many that what trainers persist is more than the memory: eight bytes of each, of half of them with their places
  // where vectors are sparse, four of each in a forest's points.
  val Features = 40
  val FeaturesSparse = 60
  val FeaturesOfTrees = 80
  // Two: the order in which partial sums arrive changes nothing then.
  val Partitions = 2

  // Made once: trainers ask for the same data again and again. Tasks of a local session find it here.
  private lazy val values: IndexedSeq[(Array[Double], Double)] = (0 until Partitions).flatMap { part =>
    val random = new Random(part)
    (0 until Rows / Partitions).map { _ =>
      val x = Array.fill(FeaturesOfTrees)(random.nextGaussian())
      (x, if (x.take(5).sum + random.nextGaussian() > 0) 1.0 else 0.0)
    }
  }

  /** Labels and vectors of a partition, which are new ones each time. */
  def points(part: Int, features: Int, sparse: Boolean): Iterator[(Double, Vector)] =
    values.slice(part * Rows / Partitions, (part + 1) * Rows / Partitions).iterator.map { case (all, label) =>
      val x = all.take(features)
      (label, if (sparse) Vectors.dense(x.map(v => if (v > 0) v else 0.0)).toSparse else Vectors.dense(x))
    }
}

/**
 * What MLlib's trainers persist inside `fit` lies in regions, more than the memory holds, and what
 * they find is the same to the last bit.
 */
class MllibSuite extends AnyFunSuite with WarmsetSession {
  import MllibSuite.{Features, FeaturesOfTrees, FeaturesSparse, Partitions}

  // Its default outside of tests. What it is in tests Spark finds out for each value that a trainer checks.
  override protected def settings: Map[String, String] = Map("spark.sql.types.framework.enabled" -> "false")

  private def data(features: Int, sparse: Boolean): DataFrame = {
    val session = spark
    import session.implicits._
    spark.sparkContext.parallelize(0 until Partitions, Partitions).flatMap(MllibSuite.points(_, features, sparse))
      .toDF("label", "features")
  }

  /** A trainer's result as bits. */
  private def bits(values: Array[Double]): Seq[Long] =
    values.map(java.lang.Double.doubleToRawLongBits).toSeq

  /** All trees of a model, without the name that every model has for itself. */
  private def splits(description: String): Long =
    description.linesIterator.drop(1).mkString("\n").hashCode.toLong

  /** Thirty ratings of each row of the data. */
  private def ratings(data: DataFrame): DataFrame = {
    val session = spark
    import session.implicits._
    data.select("features").rdd.map(_.getAs[Vector](0)).zipWithIndex().flatMap { case (x, row) =>
      (0 until 30).map(at => (row.toInt, at * 20 + math.abs(x(at).hashCode % 20), x(at + 30).toFloat))
    }.toDF("user", "item", "rating")
  }

  /** What was found for each of them, in their order. */
  private def factors(of: DataFrame): Seq[Long] =
    of.orderBy("id").collect().toSeq.flatMap(row =>
      bits(row.getSeq[Float](1).map(_.toDouble).toArray :+ row.getInt(0).toDouble))

  private val trainers: Seq[(String, DataFrame => Seq[Long])] = Seq(
    "logistic regression" -> { d =>
      val model = new LogisticRegression().setMaxIter(5).setTol(0).fit(d)
      bits(model.coefficients.toArray :+ model.intercept)
    },
    "linear SVM" -> { d =>
      val model = new LinearSVC().setMaxIter(5).setTol(0).fit(d)
      bits(model.coefficients.toArray :+ model.intercept)
    },
    "linear regression" -> { d =>
      val model = new LinearRegression().setSolver("l-bfgs").setMaxIter(5).setTol(0).fit(d)
      bits(model.coefficients.toArray :+ model.intercept)
    },
    "k-means" -> { d =>
      bits(new KMeans().setK(4).setSeed(7).setMaxIter(4).fit(d).clusterCenters.flatMap(_.toArray))
    },
    "k-means over blocks" -> { d =>
      bits(new KMeans().setK(4).setSeed(7).setMaxIter(4).setSolver("block").fit(d).clusterCenters.flatMap(_.toArray))
    },
    "Gaussian mixture" -> { d =>
      // LAPACK in Java finds the machine's constants at its first call. Two first calls at once may leave zeros, with which
      // no call ever ends.
      new MultivariateGaussian(Vectors.zeros(2), Matrices.eye(2)).logpdf(Vectors.zeros(2))
      val model = new GaussianMixture().setK(2).setSeed(7).setMaxIter(2).fit(d)
      bits(model.weights ++ model.gaussians.flatMap(g => g.mean.toArray ++ g.cov.toArray))
    },
    // Its blocks are specialised classes of Scala.
    "alternating least squares" -> { d =>
      val model = new ALS().setRank(4).setMaxIter(2).setSeed(7).setNumBlocks(4).fit(ratings(d))
      val found = factors(model.userFactors) ++ factors(model.itemFactors)
      // The model keeps its factors cached.
      spark.sparkContext.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
      found
    },
    "random forest" -> { d =>
      val model = new RandomForestClassifier().setNumTrees(4).setMaxDepth(4).setSeed(7).fit(d)
      bits(model.featureImportances.toArray) :+ splits(model.toDebugString)
    },
    "boosted trees" -> { d =>
      val model = new GBTRegressor().setMaxIter(3).setMaxDepth(3).setSeed(7).fit(d)
      bits(model.featureImportances.toArray) :+ splits(model.toDebugString)
    })

  /** What these persist is the same for dense and sparse vectors: bins of features, ratings. */
  private val blindToSparse = Set("alternating least squares", "random forest", "boosted trees")

  /** A trainer's result, the most regions during it, and the segments that lost their memory. */
  private case class Fit(bits: Seq[Long], regionsMost: Int, demotions: Long)

  private def demotions: Long =
    new ObjectMapper().readTree(StoreHolder.current.get.store.stats()).path("demotions_total").asLong(-1)

  /** Runs all trainers, or the one of this name, in a session of their own. */
  private def fitAll(
      enabled: Boolean,
      sparse: Boolean,
      more: Map[String, String] = Map.empty,
      only: Option[String] = None): Map[String, Fit] = {
    spark.stop()
    spark = newSession(Map("spark.warmset.rdd.enabled" -> enabled.toString,
      "spark.warmset.memory" -> "16m") ++ more)
    val most = new AtomicInteger
    spark.sparkContext.addSparkListener(new SparkListener {
      override def onTaskEnd(end: SparkListenerTaskEnd): Unit =
        if (StoreHolder.current.isDefined) most.accumulateAndGet(regions.length, math.max(_, _))
    })
    val some = if (sparse) trainers.filterNot { case (name, _) => blindToSparse(name) } else trainers
    some.filter { case (name, _) => only.forall(_ == name) }.map { case (name, fit) =>
      most.set(0)
      val before = demotions
      val features = if (blindToSparse(name)) FeaturesOfTrees else if (sparse) FeaturesSparse else Features
      val found = fit(data(features, sparse))
      Listeners.drain(spark.sparkContext)
      assertNothingLeft()
      name -> Fit(found, most.get, demotions - before)
    }.toMap
  }

  private lazy val stockDense = fitAll(enabled = false, sparse = false)

  test("what begins on the heap and leaves it gives every trainer the same") {
    val stock = stockDense
    def heapFirst(memory: Long, only: Option[String] = None) =
      fitAll(enabled = true, sparse = false, Map("spark.warmset.rdd.heapFirst" -> "true",
        "spark.testing.reservedMemory" -> "0", "spark.testing.memory" -> memory.toString,
        "spark.buffer.pageSize" -> "64k"), only)
    // Room for a part of what they persist; which part stays depends on how two tasks share it.
    val part = heapFirst(40L << 20)
    trainers.map(_._1).foreach(name => assert(part(name).bits == stock(name).bits, name))
    assert(part.values.exists(_.regionsMost > 0), "nothing left the heap")
    val (name, whole) = heapFirst(400L << 20, Some("linear regression")).head
    assert(whole.bits == stock(name).bits)
    assert(whole.regionsMost == 0, "what has room stays on the heap")
  }

  for ((kind, sparse) <- Seq("dense" -> false, "sparse" -> true)) {
    test(s"$kind vectors: every trainer finds what it finds without Warmset") {
      val stock = if (sparse) fitAll(enabled = false, sparse) else stockDense
      val warm = fitAll(enabled = true, sparse)
      assert(stock.keySet == warm.keySet && stock.nonEmpty)
      stock.keys.foreach { name =>
        assert(stock(name).regionsMost == 0, s"$name: RDDs are not ours unless asked for")
        assert(warm(name).regionsMost > 0, s"$name: what the trainer persists must be in regions")
        assert(warm(name).demotions > 0, s"$name: it must be more than the memory holds")
        assert(warm(name).bits == stock(name).bits, name)
      }
    }
  }
}
