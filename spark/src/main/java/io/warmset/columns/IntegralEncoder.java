package io.warmset.columns;

import java.math.RoundingMode;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.ByteType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.types.DecimalType;
import org.apache.spark.sql.types.ShortType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Everything that is a whole number of at most 64 bits: collected as longs with their least and greatest, written
 * as base plus the fewest bytes that hold the range.
 */
final class IntegralEncoder extends ColumnEncoder {
  /** How the values lie in rows and vectors. */
  private enum Source { BYTE, SHORT, INT, LONG, DECIMAL }

  private final Source source;
  private final int kind;
  /** Bytes of the word that values are read with. */
  private final int word;
  private final int precision;
  private final int scale;

  private final GrowBuffer values = new GrowBuffer();
  private long min = Long.MAX_VALUE;
  private long max = Long.MIN_VALUE;
  private int width;
  private long base;

  IntegralEncoder(DataType sql) {
    kind = ColumnTypes.kindOf(sql);
    word = kind == Layout.INT ? Integer.BYTES : Long.BYTES;
    boolean decimal = sql instanceof DecimalType;
    precision = decimal ? ((DecimalType) sql).precision() : 0;
    scale = decimal ? ((DecimalType) sql).scale() : 0;
    source = decimal ? Source.DECIMAL
        : sql instanceof ByteType ? Source.BYTE
        : sql instanceof ShortType ? Source.SHORT
        : kind == Layout.INT ? Source.INT : Source.LONG;
  }

  void put(long value) {
    values.ensure((rows + 1L) * 8, rows * 8L);
    Platform.putLong(null, values.address() + rows * 8L, value);
    if (value < min) min = value;
    if (value > max) max = value;
    present();
  }

  @Override
  void appendNull() {
    values.ensure((rows + 1L) * 8, rows * 8L);
    Platform.putLong(null, values.address() + rows * 8L, 0);
    absent();
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
      return;
    }
    switch (source) {
      case BYTE:
        put(from.getByte(ordinal));
        break;
      case SHORT:
        put(from.getShort(ordinal));
        break;
      case INT:
        put(from.getInt(ordinal));
        break;
      case LONG:
        put(from.getLong(ordinal));
        break;
      case DECIMAL:
        putDecimal(from.getDecimal(ordinal, precision, scale));
        break;
    }
  }

  private void putDecimal(Decimal value) {
    // Rows made by hand may hold null behind a cleared null bit, or another scale than the type says.
    if (value == null) {
      appendNull();
    } else if (value.scale() == scale) {
      put(value.toUnscaledLong());
    } else {
      put(value.toJavaBigDecimal().setScale(scale, RoundingMode.HALF_UP).unscaledValue().longValueExact());
    }
  }

  @Override
  void appendStaged(RowStage.Rows staged, int ordinal) {
    values.ensure((rows + (long) staged.count) * 8, rows * 8L);
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
        continue;
      }
      long field = staged.field(r, ordinal);
      switch (source) {
        case BYTE:
          put(Platform.getByte(null, field));
          break;
        case SHORT:
          put(Platform.getShort(null, field));
          break;
        case INT:
          put(Platform.getInt(null, field));
          break;
        default:
          put(Platform.getLong(null, field));
          break;
      }
    }
  }

  @Override
  void appendElements(ArrayData array, int count) {
    UnsafeArrayData unsafe = Elements.withoutNulls(array, count);
    if (unsafe == null) {
      super.appendElements(array, count);
      return;
    }
    values.ensure((rows + (long) count) * 8, rows * 8L);
    Object object = unsafe.getBaseObject();
    long from = Elements.first(unsafe, count);
    switch (source) {
      case BYTE:
        for (int i = 0; i < count; i++) put(Platform.getByte(object, from + i));
        break;
      case SHORT:
        for (int i = 0; i < count; i++) put(Platform.getShort(object, from + 2L * i));
        break;
      case INT:
        for (int i = 0; i < count; i++) put(Platform.getInt(object, from + 4L * i));
        break;
      default:
        for (int i = 0; i < count; i++) put(Platform.getLong(object, from + 8L * i));
        break;
    }
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    values.ensure((rows + (long) count) * 8, rows * 8L);
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
        continue;
      }
      switch (source) {
        case BYTE:
          put(vector.getByte(i));
          break;
        case SHORT:
          put(vector.getShort(i));
          break;
        case INT:
          put(vector.getInt(i));
          break;
        case LONG:
          put(vector.getLong(i));
          break;
        case DECIMAL:
          putDecimal(vector.getDecimal(i, precision, scale));
          break;
      }
    }
  }

  @Override
  void finish() {
    if (rows == nulls) {
      width = 0;
      base = 0;
      return;
    }
    // As an unsigned number the difference is right even when it does not fit a signed long.
    width = Layout.widthOf(max - min);
    // Values that need the whole word are kept as they are, so that they can be copied out in bulk.
    base = width == word ? 0 : min;
  }

  @Override
  void describe(WordSink words) {
    words.add(Layout.header(kind, width, 0, 0, nulls));
    words.add(base);
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + Layout.valueBytes(rows, width, word);
  }

  @Override
  long write(long address) {
    long at = writeValidity(address);
    return Narrowing.write(values.address(), Long.BYTES, rows, base, width, word, at);
  }

  @Override
  long bufferedBytes() {
    return (long) rows * word;
  }

  @Override
  long sparkBytes() {
    int bytes = source == Source.BYTE ? 1 : source == Source.SHORT ? 2 : word;
    return (long) bytes * (rows - nulls) + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    boolean empty = rows == nulls;
    switch (source) {
      case BYTE:
        stats[lower] = empty ? Byte.MAX_VALUE : (byte) min;
        stats[upper] = empty ? Byte.MIN_VALUE : (byte) max;
        break;
      case SHORT:
        stats[lower] = empty ? Short.MAX_VALUE : (short) min;
        stats[upper] = empty ? Short.MIN_VALUE : (short) max;
        break;
      case INT:
        stats[lower] = empty ? Integer.MAX_VALUE : (int) min;
        stats[upper] = empty ? Integer.MIN_VALUE : (int) max;
        break;
      case LONG:
        stats[lower] = min;
        stats[upper] = max;
        break;
      case DECIMAL:
        stats[lower] = empty ? null : Decimal.createUnsafe(min, precision, scale);
        stats[upper] = empty ? null : Decimal.createUnsafe(max, precision, scale);
        break;
    }
  }

  @Override
  long[] halves() {
    if (width == 0) return null;
    int cut = cut();
    long[] found = {Long.MAX_VALUE, Long.MIN_VALUE, Long.MAX_VALUE, Long.MIN_VALUE};
    for (int row = 0; row < rows; row++) {
      if (!isPresent(row)) continue;
      long value = Platform.getLong(null, values.address() + 8L * row);
      int at = row < cut ? 0 : 2;
      found[at] = Math.min(found[at], value);
      found[at + 1] = Math.max(found[at + 1], value);
    }
    return found;
  }

  /** The row that is furthest from the one before. */
  private int cut() {
    int cut = 0;
    double most = -1;
    long before = 0;
    boolean isFirst = true;
    for (int row = 0; row < rows; row++) {
      if (!isPresent(row)) continue;
      long value = Platform.getLong(null, values.address() + 8L * row);
      double step = Math.abs((double) value - before);
      if (!isFirst && step > most) {
        most = step;
        cut = row;
      }
      before = value;
      isFirst = false;
    }
    return cut;
  }

  @Override
  void sketch(DistinctSketch into) {
    if (width == 0) {
      if (rows != nulls) into.add(min);
      return;
    }
    for (int row = 0; row < rows; row++) {
      if (isPresent(row)) into.add(Platform.getLong(null, values.address() + 8L * row));
    }
  }

  @Override
  void reset() {
    super.reset();
    values.recycle();
    min = Long.MAX_VALUE;
    max = Long.MIN_VALUE;
  }

  @Override
  void close() {
    super.close();
    values.close();
  }
}
