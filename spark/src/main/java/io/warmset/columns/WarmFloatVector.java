package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Floats as they are, bit for bit; one slot when all rows have the same bits. */
public final class WarmFloatVector extends WarmVector {
  private long data = Layout.ZEROES;
  /** 4, or 0 when one slot stands for all rows. */
  private int stride;

  WarmFloatVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    stride = Layout.width(bindHeader(cursor, Layout.FLOAT, rows));
    data = cursor.take(Layout.floatingBytes(rows, stride, Float.BYTES));
  }

  @Override
  public float getFloat(int rowId) {
    return Platform.getFloat(null, data + (long) rowId * stride);
  }

  @Override
  public float[] getFloats(int rowId, int count) {
    float[] values = new float[count];
    if (stride == 0) {
      java.util.Arrays.fill(values, getFloat(0));
    } else {
      Platform.copyMemory(null, data + (long) rowId * Float.BYTES, values, Platform.FLOAT_ARRAY_OFFSET,
          (long) count * Float.BYTES);
    }
    return values;
  }
}
