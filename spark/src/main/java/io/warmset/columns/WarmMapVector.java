package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarMap;

/** Maps: a range per row of the child of keys and of the child of values. */
public final class WarmMapVector extends WarmVector {
  private final ElementRanges ranges = new ElementRanges();
  private final WarmVector[] children;

  WarmMapVector(DataType type) {
    super(type);
    children = VectorFactory.createChildren(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    ranges.bind(cursor, bindHeader(cursor, Layout.MAP, rows), rows);
    children[0].bindNode(cursor, ranges.elements());
    children[1].bindNode(cursor, ranges.elements());
  }

  @Override
  public ColumnarMap getMap(int rowId) {
    if (isNullAt(rowId)) return null;
    int start = ranges.start(rowId);
    return new ColumnarMap(children[0], children[1], start, ranges.start(rowId + 1) - start);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return children[ordinal];
  }
}
