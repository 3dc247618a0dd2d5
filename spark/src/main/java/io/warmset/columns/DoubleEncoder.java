package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Doubles, bit for bit.
 *
 * <p>Bounds: as Spark's, except that a NaN makes the upper bound NaN (Spark SQL orders NaN above all numbers, so a
 * bound below it would prune rows that match), and that infinities count.
 */
final class DoubleEncoder extends ColumnEncoder {
  private final GrowBuffer values = new GrowBuffer();
  private double min = Double.MAX_VALUE;
  private double max = -Double.MAX_VALUE;
  private boolean numbers;
  private boolean nan;
  private long firstBits;
  private boolean allEqual = true;
  /** Elements of arrays are read in bulk, which plain doubles serve best. */
  private final boolean elements;
  private final DoubleForm form = new DoubleForm();

  DoubleEncoder(boolean elements) {
    this.elements = elements;
  }

  void put(double value) {
    values.ensure((rows + 1L) * 8, rows * 8L);
    Platform.putDouble(null, values.address() + rows * 8L, value);
    note(value);
    present();
  }

  private void note(double value) {
    long bits = Double.doubleToRawLongBits(value);
    if (rows == nulls) firstBits = bits;
    if (bits != firstBits) allEqual = false;
    if (value != value) {
      nan = true;
    } else {
      if (!numbers || value < min) min = value;
      if (!numbers || value > max) max = value;
      numbers = true;
    }
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
    } else {
      put(from.getDouble(ordinal));
    }
  }

  @Override
  void appendNull() {
    values.ensure((rows + 1L) * 8, rows * 8L);
    Platform.putLong(null, values.address() + rows * 8L, 0);
    absent();
  }

  @Override
  void appendStaged(RowStage.Rows staged, int ordinal) {
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
      } else {
        put(Platform.getDouble(null, staged.field(r, ordinal)));
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
    for (int i = 0; i < count; i++) put(Platform.getDouble(object, from + 8L * i));
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
      } else {
        put(vector.getDouble(i));
      }
    }
  }

  /** The bits of a row; 0 for a null row. */
  long bits(int row) {
    return Platform.getLong(null, values.address() + 8L * row);
  }

  @Override
  void finish() {
    if (allEqual) {
      form.constant();
    } else if (elements) {
      form.plain();
    } else {
      form.plan(this, !nan, min, max);
    }
  }

  @Override
  void describe(WordSink words) {
    form.describe(words, nulls);
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + form.bytes(rows);
  }

  @Override
  long write(long address) {
    return form.write(this, values.address(), rows == nulls ? 0 : firstBits, writeValidity(address));
  }

  @Override
  long bufferedBytes() {
    return rows * 8L;
  }

  @Override
  long sparkBytes() {
    return 8L * (rows - nulls) + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    stats[lower] = nan && !numbers ? Double.NaN : min;
    stats[upper] = nan ? Double.NaN : max;
  }

  @Override
  void sketch(DistinctSketch into) {
    for (int row = 0; row < rows; row++) {
      if (isPresent(row)) into.add(Platform.getDouble(null, values.address() + 8L * row));
    }
  }

  @Override
  void reset() {
    super.reset();
    values.recycle();
    min = Double.MAX_VALUE;
    max = -Double.MAX_VALUE;
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
