package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Floats or doubles, bit for bit.
 *
 * <p>Bounds: as Spark's, except that a NaN makes the upper bound NaN (Spark SQL orders NaN above all numbers, so a
 * bound below it would prune rows that match), and that infinities count.
 */
final class FloatingEncoder extends ColumnEncoder {
  private final GrowBuffer values = new GrowBuffer();
  /** Whether it is a column of floats. */
  private final boolean single;
  /** Elements of arrays are read in bulk, which plain doubles serve best. */
  private final boolean elements;
  private final int valueBytes;
  private final double largest;
  private final FloatingForm form = new FloatingForm();
  private double min;
  private double max;
  private boolean numbers;
  private boolean nan;
  private long firstBits;
  private boolean allEqual = true;

  FloatingEncoder(boolean single, boolean elements) {
    this.single = single;
    this.elements = elements;
    valueBytes = single ? Float.BYTES : Double.BYTES;
    largest = single ? Float.MAX_VALUE : Double.MAX_VALUE;
    min = largest;
    max = -largest;
  }

  /** Makes room for one more value; returns its address. */
  private long next() {
    long offset = (long) rows * valueBytes;
    values.ensure(offset + valueBytes, offset);
    return values.address() + offset;
  }

  private void put(float value) {
    Platform.putFloat(null, next(), value);
    note(value, Float.floatToRawIntBits(value) & 0xFFFFFFFFL);
  }

  private void put(double value) {
    Platform.putDouble(null, next(), value);
    note(value, Double.doubleToRawLongBits(value));
  }

  private void put(Object object, long offset) {
    if (single) {
      put(Platform.getFloat(object, offset));
    } else {
      put(Platform.getDouble(object, offset));
    }
  }

  private double value(int row) {
    long at = values.address() + (long) row * valueBytes;
    return single ? Platform.getFloat(null, at) : Platform.getDouble(null, at);
  }

  /** The bits of a row of doubles; 0 for a null row. */
  long bits(int row) {
    return Platform.getLong(null, values.address() + 8L * row);
  }

  /** Counts a value that was put at the next address. */
  private void note(double value, long bits) {
    if (rows == nulls) firstBits = bits;
    if (bits != firstBits) allEqual = false;
    if (value != value) {
      nan = true;
    } else {
      if (!numbers || value < min) min = value;
      if (!numbers || value > max) max = value;
      numbers = true;
    }
    present();
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
    } else if (single) {
      put(from.getFloat(ordinal));
    } else {
      put(from.getDouble(ordinal));
    }
  }

  @Override
  void appendNull() {
    long at = next();
    if (single) {
      Platform.putInt(null, at, 0);
    } else {
      Platform.putLong(null, at, 0);
    }
    absent();
  }

  @Override
  void appendStaged(RowStage.Rows staged, int ordinal) {
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
      } else {
        put(null, staged.field(r, ordinal));
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
    values.ensure((rows + (long) count) * valueBytes, (long) rows * valueBytes);
    Object object = unsafe.getBaseObject();
    long from = Elements.first(unsafe, count);
    for (int i = 0; i < count; i++) put(object, from + (long) i * valueBytes);
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
      } else if (single) {
        put(vector.getFloat(i));
      } else {
        put(vector.getDouble(i));
      }
    }
  }

  @Override
  void finish() {
    if (allEqual) {
      form.constant();
    } else if (single || elements) {
      form.plain(valueBytes);
    } else {
      form.plan(this, !nan, min, max);
    }
  }

  @Override
  void describe(WordSink words) {
    form.describe(words, single ? Layout.FLOAT : Layout.DOUBLE, nulls);
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + form.bytes(rows, valueBytes);
  }

  @Override
  long write(long address) {
    return form.write(this, valueBytes, values.address(), rows == nulls ? 0 : firstBits, writeValidity(address));
  }

  @Override
  long bufferedBytes() {
    return (long) rows * valueBytes;
  }

  @Override
  long sparkBytes() {
    return (long) valueBytes * (rows - nulls) + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    double least = nan && !numbers ? Double.NaN : min;
    double most = nan ? Double.NaN : max;
    stats[lower] = single ? (Object) (float) least : (Object) least;
    stats[upper] = single ? (Object) (float) most : (Object) most;
  }

  @Override
  void sketch(DistinctSketch into) {
    for (int row = 0; row < rows; row++) {
      if (isPresent(row)) into.add(value(row));
    }
  }

  @Override
  void reset() {
    super.reset();
    values.recycle();
    min = largest;
    max = -largest;
    numbers = false;
    nan = false;
    allEqual = true;
  }

  @Override
  void close() {
    super.close();
    values.close();
  }
}
