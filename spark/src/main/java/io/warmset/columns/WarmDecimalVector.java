package io.warmset.columns;

import java.math.BigDecimal;

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
    long address = data + (long) rowId * width;
    if (width != WIDE) return Decimal.createUnsafe(base + (Platform.getLong(null, address) & mask), precision, scale);
    long low = Platform.getLong(null, address);
    long high = Platform.getLong(null, address + Long.BYTES);
    return Decimal.apply(new BigDecimal(Int128.toBigInteger(high, low), scale), precision, scale);
  }
}
