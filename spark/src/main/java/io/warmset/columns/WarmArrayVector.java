package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;

/** Arrays: a range of the child per row. */
public final class WarmArrayVector extends WarmVector {
  private final ElementRanges ranges = new ElementRanges();
  private final WarmVector child;

  WarmArrayVector(DataType type) {
    super(type);
    child = VectorFactory.createChildren(type)[0];
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    ranges.bind(cursor, bindHeader(cursor, Layout.ARRAY, rows), rows);
    child.bindNode(cursor, ranges.elements());
  }

  @Override
  public ColumnarArray getArray(int rowId) {
    if (isNullAt(rowId)) return null;
    int start = ranges.start(rowId);
    return new ColumnarArray(child, start, ranges.start(rowId + 1) - start);
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    return child;
  }
}
