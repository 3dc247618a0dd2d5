package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/**
 * Bytes, shorts, ints, dates and year-month intervals: a base plus 0 to 4 unsigned bytes per row. Every width is
 * read by the same four instructions without a branch, so a scan does not care how a batch was narrowed.
 */
public final class WarmIntVector extends WarmVector {
  private long data = Layout.ZEROES;
  private int width;
  private int mask;
  private int base;

  WarmIntVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    long header = bindHeader(cursor, Layout.INT, rows);
    width = Layout.width(header);
    mask = (int) Layout.mask(width);
    base = (int) cursor.next();
    data = cursor.take(Layout.valueBytes(rows, width, Integer.BYTES));
  }

  @Override
  public int getInt(int rowId) {
    return base + (Platform.getInt(null, data + (long) rowId * width) & mask);
  }

  @Override
  public short getShort(int rowId) {
    return (short) getInt(rowId);
  }

  @Override
  public byte getByte(int rowId) {
    return (byte) getInt(rowId);
  }

  @Override
  public int[] getInts(int rowId, int count) {
    int[] values = new int[count];
    if (width == Integer.BYTES && base == 0) {
      Platform.copyMemory(null, data + (long) rowId * Integer.BYTES, values, Platform.INT_ARRAY_OFFSET,
          (long) count * Integer.BYTES);
      return values;
    }
    long address = data + (long) rowId * width;
    for (int i = 0; i < count; i++) {
      values[i] = base + (Platform.getInt(null, address) & mask);
      address += width;
    }
    return values;
  }
}
