package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.BinaryView;

/**
 * Geometries and geographies as rows and vectors hand them out.
 *
 * <p>Invariant: this class and {@link WarmSpatialVector} alone name BinaryView, which Spark 4.1 lacks: Spark's compiler
 * looks into the vector classes that it generates code for, and fails on a method that names a missing class.
 */
final class SpatialValues {
  private SpatialValues() {}

  static final boolean SUPPORTED = isSupported();

  private static boolean isSupported() {
    try {
      Class.forName("org.apache.spark.unsafe.types.BinaryView", false, ColumnVector.class.getClassLoader());
      return true;
    } catch (ClassNotFoundException missing) {
      return false;
    }
  }

  static void put(SpecializedGetters from, int ordinal, BytesEncoder to) {
    put(from.getBinaryView(ordinal), to);
  }

  static void put(ColumnVector from, int row, BytesEncoder to) {
    put(from.getBinaryView(row), to);
  }

  private static void put(BinaryView value, BytesEncoder to) {
    to.put(value.getBaseObject(), value.getBaseOffset(), value.numBytes());
  }
}
