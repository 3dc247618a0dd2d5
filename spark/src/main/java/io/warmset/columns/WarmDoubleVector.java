package io.warmset.columns;

import java.util.Arrays;
import java.util.function.LongUnaryOperator;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/**
 * Doubles, every one with the bits it came with: as they are, one for all rows, as codes into up to 256 distinct ones, or
 * as whole numbers over a power of ten. See {@link FloatingForm}.
 */
public final class WarmDoubleVector extends WarmVector {
  private long data = Layout.ZEROES;
  /** Bytes from row to row; 0 when one slot stands for all. */
  private int stride;
  /** Whether the data are the doubles themselves. */
  private boolean plain = true;

  private long mask;
  /** Address of the distinct doubles. */
  private long entries;
  private long entryCount;
  private boolean scaled;
  private long base;
  /** 2^52 less the base: what to take off the double whose low bits are the stored number. */
  private double bias;
  private double divisor = 1.0;

  WarmDoubleVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    long header = bindHeader(cursor, Layout.DOUBLE, rows);
    int flags = Layout.flags(header);
    stride = Layout.width(header);
    plain = flags == 0;
    if (plain) {
      data = cursor.take(Layout.floatingBytes(rows, stride, Double.BYTES));
      return;
    }
    mask = Layout.mask(stride);
    scaled = (flags & Layout.FLAG_SCALED) != 0;
    if (scaled) {
      base = cursor.next();
      bias = 0x1p52 - base;
      divisor = Decimals.DIVISORS[(int) cursor.next()];
      data = cursor.take(Layout.valueBytes(rows, stride, Long.BYTES));
    } else {
      entryCount = cursor.next();
      data = cursor.take(Layout.valueBytes(rows, stride, Long.BYTES));
      entries = cursor.take(8L * entryCount);
    }
  }

  @Override
  void describeValues(long[] words, int at) {
    words[at + NativeAggregate.WIDTH] = stride;
    words[at + NativeAggregate.DATA] = data;
    if (plain) {
      words[at + NativeAggregate.FORM] = stride == 0 ? NativeAggregate.CONSTANT_DOUBLE : NativeAggregate.DOUBLES;
      words[at + NativeAggregate.BASE] = stride == 0 ? Platform.getLong(null, data) : 0;
    } else if (scaled) {
      words[at + NativeAggregate.FORM] = NativeAggregate.SCALED_DOUBLES;
      words[at + NativeAggregate.BASE] = base;
      words[at + NativeAggregate.COUNT] = Double.doubleToRawLongBits(divisor);
    } else {
      words[at + NativeAggregate.FORM] = NativeAggregate.DOUBLE_CODES;
      words[at + NativeAggregate.COUNT] = entryCount;
      words[at + NativeAggregate.ENTRIES] = entries;
    }
  }

  @Override
  public double getDouble(int rowId) {
    long address = data + (long) rowId * stride;
    return plain ? Platform.getDouble(null, address) : decode(Platform.getLong(null, address) & mask);
  }

  private double decode(long stored) {
    if (!scaled) return Platform.getDouble(null, entries + (stored << 3));
    return (Double.longBitsToDouble(Decimals.WHOLE_BITS | stored) - bias) / divisor;
  }

  @Override
  public void keepRange(Selection selection, double low, double high) {
    keepPresent(selection);
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      double value = getDouble(row);
      rows[kept] = row;
      kept += value < low || value > high ? 0 : 1;
    }
    selection.truncate(kept);
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (stride == 0) return;
    long to = allocate.applyAsLong(Gather.bytes(selection.count(), stride));
    Gather.longs(data, stride, selection, to);
    data = to;
  }

  @Override
  public double[] getDoubles(int rowId, int count) {
    double[] values = new double[count];
    if (plain && stride != 0) {
      Platform.copyMemory(null, data + (long) rowId * Double.BYTES, values, Platform.DOUBLE_ARRAY_OFFSET,
          (long) count * Double.BYTES);
    } else if (plain) {
      Arrays.fill(values, getDouble(0));
    } else {
      for (int i = 0; i < count; i++) values[i] = getDouble(rowId + i);
    }
    return values;
  }
}
