package io.warmset.columns;

import java.math.BigDecimal;
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
  void describeValues(long[] words, int at) {
    if (width != WIDE) {
      describePacked(words, at, Long.BYTES, width, base, data);
    } else {
      words[at + NativeAggregate.FORM] = NativeAggregate.WIDE;
      words[at + NativeAggregate.DATA] = data;
    }
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    if (isNullAt(rowId)) return null;
    if (width != WIDE) {
      return Decimal.createUnsafe(PackedLongs.get(data, width, mask, base, rowId), precision, scale);
    }
    long address = data + (long) rowId * WIDE;
    long low = Platform.getLong(null, address);
    long high = Platform.getLong(null, address + Long.BYTES);
    return Decimal.apply(new BigDecimal(Int128.toBigInteger(high, low), scale), precision, scale);
  }

  @Override
  public void keepRange(Selection selection, long low, long high) {
    if (width == WIDE) return;
    keepPresent(selection);
    PackedLongs.keepRange(selection, data, width, mask, base, low, high);
  }

  @Override
  public void keepAnyOf(Selection selection, long[] ascending) {
    if (width == WIDE) return;
    keepPresent(selection);
    PackedLongs.keepAnyOf(selection, data, width, mask, base, ascending);
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
