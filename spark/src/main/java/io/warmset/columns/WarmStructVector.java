package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * Structs, and what Spark reads like structs: calendar intervals (months, days, microseconds) and variants (value,
 * metadata). A null struct has null children.
 */
public final class WarmStructVector extends WarmVector {
  private final WarmVector[] children;

  WarmStructVector(DataType type) {
    super(type);
    children = VectorFactory.createChildren(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    bindHeader(cursor, Layout.STRUCT, rows);
    for (WarmVector child : children) child.bindNode(cursor, rows);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }
}
