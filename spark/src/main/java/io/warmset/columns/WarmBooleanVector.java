package io.warmset.columns;

import java.util.Arrays;
import java.util.function.LongUnaryOperator;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/** Booleans: one bit per row, least significant first, or none when all are equal. */
public final class WarmBooleanVector extends WarmVector {
  private long data = Layout.ZEROES;
  /** -1, or 0 when one byte stands for all rows. */
  private int rowMask;

  WarmBooleanVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    long header = bindHeader(cursor, Layout.BOOLEAN, rows);
    boolean bits = Layout.width(header) != 0;
    rowMask = bits ? -1 : 0;
    long address = cursor.take(bits ? Layout.align((rows + 7L) >>> 3) : 0);
    data = bits ? address : (Layout.flags(header) & Layout.FLAG_TRUE) != 0 ? Layout.ONES : Layout.ZEROES;
  }

  @Override
  public void keepRange(Selection selection, long low, long high) {
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      int value = getBoolean(row) ? 1 : 0;
      rows[kept] = row;
      kept += value < low || value > high ? 0 : 1;
    }
    selection.truncate(kept);
  }

  @Override
  public void keepAnyOf(Selection selection, long[] ascending) {
    boolean zero = Arrays.binarySearch(ascending, 0) >= 0;
    boolean one = Arrays.binarySearch(ascending, 1) >= 0;
    if (zero && one) {
      keepPresent(selection);
    } else if (zero || one) {
      keepRange(selection, one ? 1 : 0, one ? 1 : 0);
    } else {
      selection.truncate(0);
    }
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (rowMask == 0) return;
    long to = allocate.applyAsLong(Layout.align((selection.count() + 7L) >>> 3));
    Gather.bits(data, selection, to);
    data = to;
  }

  @Override
  public boolean getBoolean(int rowId) {
    int row = rowId & rowMask;
    return (Platform.getByte(null, data + (row >> 3)) >> (row & 7) & 1) != 0;
  }
}
