package io.warmset.columns;

import java.util.Arrays;
import java.util.function.LongUnaryOperator;

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
  void describeValues(long[] words, int at) {
    describePacked(words, at, Integer.BYTES, width, base, data);
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
  public void keepRange(Selection selection, long low, long high) {
    keepPresent(selection);
    int first = (int) Math.max(low, Integer.MIN_VALUE);
    int last = (int) Math.min(high, Integer.MAX_VALUE);
    if (low > Integer.MAX_VALUE || high < Integer.MIN_VALUE || first > last) {
      selection.truncate(0);
      return;
    }
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += Integer.compareUnsigned(getInt(row) - first, last - first) <= 0 ? 1 : 0;
    }
    selection.truncate(kept);
  }

  @Override
  public void keepAnyOf(Selection selection, long[] ascending) {
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += Arrays.binarySearch(ascending, getInt(row)) >= 0 ? 1 : 0;
    }
    selection.truncate(kept);
  }

  @Override
  public void keepAmong(Selection selection, KeySet keys) {
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += keys.mayContain(getInt(row)) ? 1 : 0;
    }
    selection.truncate(kept);
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (width == 0) return;
    long to = allocate.applyAsLong(Gather.bytes(selection.count(), width));
    Gather.ints(data, width, selection, to);
    data = to;
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
