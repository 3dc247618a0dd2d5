package io.warmset.rdd;

import org.apache.spark.ml.feature.Instance;
import org.apache.spark.ml.feature.InstanceBlock;
import org.apache.spark.ml.linalg.Matrix;
import org.apache.spark.ml.linalg.Vector;
import org.apache.spark.ml.tree.impl.BaggedPoint;
import org.apache.spark.ml.tree.impl.TreePoint;
import org.apache.spark.mllib.clustering.VectorWithNorm;

/** Objects of classes that MLlib keeps to itself: Java does not see that. */
public final class MlElements {
  private MlElements() {}

  public static Object block(double[] labels, double[] weights, Matrix matrix) {
    return new InstanceBlock(labels, weights, matrix);
  }

  public static Object instance(double label, double weight, Vector features) {
    return new Instance(label, weight, features);
  }

  public static Object treePoint(double label, int[] bins, double weight) {
    return new TreePoint(label, bins, weight);
  }

  public static Object bagged(Object datum, int[] counts, double weight) {
    return new BaggedPoint<>(datum, counts, weight);
  }

  public static Object withNorm(org.apache.spark.mllib.linalg.Vector vector, double norm) {
    return new VectorWithNorm(vector, norm, 1.0);
  }
}
