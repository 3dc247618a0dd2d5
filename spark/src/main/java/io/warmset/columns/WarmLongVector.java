package io.warmset.columns;

import java.util.function.LongUnaryOperator;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;

/**
 * Longs, timestamps, times, day-time intervals and decimals of up to 18 digits (their unscaled value): a base plus
 * 0 to 8 unsigned bytes per row, read without a branch. The sum wraps, so the full range of long is safe.
 */
public final class WarmLongVector extends WarmVector {
  private long data = Layout.ZEROES;
  private int width;
  private long mask;
  private long base;

  WarmLongVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    long header = bindHeader(cursor, Layout.LONG, rows);
    width = Layout.width(header);
    mask = Layout.mask(width);
    base = cursor.next();
    data = cursor.take(Layout.valueBytes(rows, width, Long.BYTES));
  }

  @Override
  void describeValues(long[] words, int at) {
    describePacked(words, at, Long.BYTES, width, base, data);
  }

  @Override
  public long getLong(int rowId) {
    return PackedLongs.get(data, width, mask, base, rowId);
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    if (isNullAt(rowId)) return null;
    return Decimal.createUnsafe(getLong(rowId), precision, scale);
  }

  @Override
  public void keepRange(Selection selection, long low, long high) {
    keepPresent(selection);
    PackedLongs.keepRange(selection, data, width, mask, base, low, high);
  }

  @Override
  public void keepAnyOf(Selection selection, long[] ascending) {
    keepPresent(selection);
    PackedLongs.keepAnyOf(selection, data, width, mask, base, ascending);
  }

  @Override
  public void keepAmong(Selection selection, KeySet keys) {
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += keys.mayContain(PackedLongs.get(data, width, mask, base, row)) ? 1 : 0;
    }
    selection.truncate(kept);
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (width == 0) return;
    long to = allocate.applyAsLong(Gather.bytes(selection.count(), width));
    Gather.longs(data, width, selection, to);
    data = to;
  }

  @Override
  public long[] getLongs(int rowId, int count) {
    long[] values = new long[count];
    if (width == Long.BYTES && base == 0) {
      Platform.copyMemory(null, data + (long) rowId * Long.BYTES, values, Platform.LONG_ARRAY_OFFSET,
          (long) count * Long.BYTES);
      return values;
    }
    long address = data + (long) rowId * width;
    for (int i = 0; i < count; i++) {
      values[i] = base + (Platform.getLong(null, address) & mask);
      address += width;
    }
    return values;
  }
}
