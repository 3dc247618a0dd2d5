package io.warmset.columns;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.math.RoundingMode;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Decimals of more than 18 digits: collected as 16 bytes, written as base plus narrow offsets when every value of the
 * batch has at most 18 digits after all (sums declared wide often do), else as 16 bytes.
 */
final class DecimalEncoder extends ColumnEncoder {
  private static final long COMPACT_LIMIT = 1_000_000_000_000_000_000L;

  private final int precision;
  private final int scale;
  /** Pairs of longs: low word, high word. */
  private final GrowBuffer values = new GrowBuffer();
  private long minLow;
  private long minHigh;
  private long maxLow;
  private long maxHigh;
  private boolean compact = true;
  private int width;
  private long base;

  DecimalEncoder(DataType sql) {
    precision = ((DecimalType) sql).precision();
    scale = ((DecimalType) sql).scale();
  }

  private void put(long high, long low) {
    values.ensure((rows + 1L) * 16, rows * 16L);
    long at = values.address() + rows * 16L;
    Platform.putLong(null, at, low);
    Platform.putLong(null, at + 8, high);
    if (high != low >> 63 || low <= -COMPACT_LIMIT || low >= COMPACT_LIMIT) compact = false;
    if (rows == nulls) {
      minLow = maxLow = low;
      minHigh = maxHigh = high;
    } else if (less(high, low, minHigh, minLow)) {
      minLow = low;
      minHigh = high;
    } else if (less(maxHigh, maxLow, high, low)) {
      maxLow = low;
      maxHigh = high;
    }
    present();
  }

  private static boolean less(long highA, long lowA, long highB, long lowB) {
    return highA != highB ? highA < highB : Long.compareUnsigned(lowA, lowB) < 0;
  }

  private void put(Decimal value) {
    if (value == null) {
      appendNull();
      return;
    }
    BigDecimal exact = value.toJavaBigDecimal();
    if (exact.scale() != scale) exact = exact.setScale(scale, RoundingMode.HALF_UP);
    BigInteger unscaled = exact.unscaledValue();
    if (unscaled.bitLength() > 127) {
      throw new ArithmeticException("decimal " + exact + " does not fit decimal(" + precision + "," + scale + ")");
    }
    put(Int128.high(unscaled), Int128.low(unscaled));
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
    } else {
      put(from.getDecimal(ordinal, precision, scale));
    }
  }

  @Override
  void appendNull() {
    values.ensure((rows + 1L) * 16, rows * 16L);
    Platform.putLong(null, values.address() + rows * 16L, 0);
    Platform.putLong(null, values.address() + rows * 16L + 8, 0);
    absent();
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
      } else {
        put(vector.getDecimal(i, precision, scale));
      }
    }
  }

  @Override
  void finish() {
    if (rows == nulls) {
      width = 0;
      base = 0;
    } else if (compact) {
      width = Layout.widthOf(maxLow - minLow);
      base = width == Long.BYTES ? 0 : minLow;
    } else {
      width = WarmDecimalVector.WIDE;
      base = 0;
    }
  }

  @Override
  void describe(WordSink words) {
    words.add(Layout.header(Layout.DECIMAL, width, 0, 0, nulls));
    words.add(base);
  }

  private long valueBytes() {
    return width == WarmDecimalVector.WIDE ? rows * 16L : Layout.valueBytes(rows, width, Long.BYTES);
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + valueBytes();
  }

  @Override
  long write(long address) {
    long at = writeValidity(address);
    if (width == WarmDecimalVector.WIDE) {
      Platform.copyMemory(null, values.address(), null, at, rows * 16L);
      return at + rows * 16L;
    }
    return Narrowing.write(values.address(), 16, rows, base, width, Long.BYTES, at);
  }

  @Override
  long bufferedBytes() {
    return rows * 16L;
  }

  @Override
  long sparkBytes() {
    return 8L * (rows - nulls) + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    if (rows == nulls) return;
    stats[lower] = toDecimal(minHigh, minLow);
    stats[upper] = toDecimal(maxHigh, maxLow);
  }

  private Decimal toDecimal(long high, long low) {
    return Decimal.apply(new BigDecimal(Int128.toBigInteger(high, low), scale), precision, scale);
  }

  @Override
  void sketch(DistinctSketch into) {
    for (int row = 0; row < rows; row++) {
      long at = values.address() + 16L * row;
      if (isPresent(row)) into.add(Platform.getLong(null, at + 8), Platform.getLong(null, at));
    }
  }

  @Override
  void reset() {
    super.reset();
    values.recycle();
    compact = true;
  }

  @Override
  void close() {
    super.close();
    values.close();
  }
}
