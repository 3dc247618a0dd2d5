package io.warmset.columns;

import java.util.function.LongUnaryOperator;

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
  public void keepRange(Selection selection, double low, double high) {
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      float value = getFloat(row);
      rows[kept] = row;
      kept += value < low || value > high ? 0 : 1;
    }
    selection.truncate(kept);
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (stride == 0) return;
    long to = allocate.applyAsLong(Gather.bytes(selection.count(), stride));
    Gather.ints(data, stride, selection, to);
    data = to;
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
