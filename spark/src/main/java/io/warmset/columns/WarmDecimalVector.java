package io.warmset.columns;

import java.math.BigDecimal;
import java.util.Arrays;
import java.util.function.LongUnaryOperator;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.Platform;

/**
 * Decimals of more than 18 digits by their unscaled value: while every value of the batch has at most 18 digits, a
 * base plus 0 to 8 unsigned bytes as in {@link WarmLongVector}; otherwise 16 bytes of two's complement, low word
 * first.
 */
public final class WarmDecimalVector extends WarmVector {
  static final int WIDE = 16;

  private long data = Layout.ZEROES;
  private int width;
  private long mask;
  private long base;

  WarmDecimalVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    long header = bindHeader(cursor, Layout.DECIMAL, rows);
    width = Layout.width(header);
    mask = Layout.mask(width);
    base = cursor.next();
    data = cursor.take(width == WIDE ? (long) rows * WIDE : Layout.valueBytes(rows, width, Long.BYTES));
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    if (isNullAt(rowId)) return null;
    if (width != WIDE) return Decimal.createUnsafe(narrow(rowId), precision, scale);
    long address = data + (long) rowId * WIDE;
    long low = Platform.getLong(null, address);
    long high = Platform.getLong(null, address + Long.BYTES);
    return Decimal.apply(new BigDecimal(Int128.toBigInteger(high, low), scale), precision, scale);
  }

  @Override
  public void keepRange(Selection selection, long low, long high) {
    if (width == WIDE) return;
    keepPresent(selection);
    if (low > high) {
      selection.truncate(0);
      return;
    }
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += Long.compareUnsigned(narrow(row) - low, high - low) <= 0 ? 1 : 0;
    }
    selection.truncate(kept);
  }

  @Override
  public void keepAnyOf(Selection selection, long[] ascending) {
    if (width == WIDE) return;
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += Arrays.binarySearch(ascending, narrow(row)) >= 0 ? 1 : 0;
    }
    selection.truncate(kept);
  }

  private long narrow(int rowId) {
    return base + (Platform.getLong(null, data + (long) rowId * width) & mask);
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (width == 0) return;
    long to = allocate.applyAsLong(Gather.bytes(selection.count(), width));
    if (width == WIDE) {
      for (int i = 0; i < selection.count(); i++) {
        Platform.copyMemory(null, data + (long) selection.row(i) * WIDE, null, to + (long) i * WIDE, WIDE);
      }
    } else {
      Gather.longs(data, width, selection, to);
    }
    data = to;
  }
}
