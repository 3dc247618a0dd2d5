package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Floats, bit for bit.
 *
 * <p>Bounds: as Spark's, except that a NaN makes the upper bound NaN (Spark SQL orders NaN above all numbers, so a
 * bound below it would prune rows that match), and that infinities count.
 */
final class FloatEncoder extends ColumnEncoder {
  private final GrowBuffer values = new GrowBuffer();
  private float min = Float.MAX_VALUE;
  private float max = -Float.MAX_VALUE;
  private boolean numbers;
  private boolean nan;
  private int firstBits;
  private boolean allEqual = true;

  void put(float value) {
    values.ensure((rows + 1L) * 4, rows * 4L);
    Platform.putFloat(null, values.address() + rows * 4L, value);
    note(value);
    present();
  }

  private void note(float value) {
    int bits = Float.floatToRawIntBits(value);
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
      put(from.getFloat(ordinal));
    }
  }

  @Override
  void appendNull() {
    values.ensure((rows + 1L) * 4, rows * 4L);
    Platform.putInt(null, values.address() + rows * 4L, 0);
    absent();
  }

  @Override
  void appendStaged(RowStage.Rows staged, int ordinal) {
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
      } else {
        put(Platform.getFloat(null, staged.field(r, ordinal)));
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
    values.ensure((rows + (long) count) * 4, rows * 4L);
    Object object = unsafe.getBaseObject();
    long from = Elements.first(unsafe, count);
    for (int i = 0; i < count; i++) put(Platform.getFloat(object, from + 4L * i));
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
      } else {
        put(vector.getFloat(i));
      }
    }
  }

  @Override
  void finish() {}

  private int width() {
    return allEqual ? 0 : Float.BYTES;
  }

  @Override
  void describe(WordSink words) {
    words.add(Layout.header(Layout.FLOAT, width(), 0, 0, nulls));
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + Layout.floatingBytes(rows, width(), Float.BYTES);
  }

  @Override
  long write(long address) {
    long at = writeValidity(address);
    long bytes = Layout.floatingBytes(rows, width(), Float.BYTES);
    if (allEqual && rows != 0) {
      Platform.putLong(null, at, rows == nulls ? 0 : firstBits & 0xFFFFFFFFL);
    } else if (rows != 0) {
      // An odd number of floats leaves half a word of padding.
      Platform.putLong(null, at + bytes - 8, 0);
      Platform.copyMemory(null, values.address(), null, at, rows * 4L);
    }
    return at + bytes;
  }

  @Override
  long bufferedBytes() {
    return rows * 4L;
  }

  @Override
  long sparkBytes() {
    return 4L * (rows - nulls) + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    stats[lower] = nan && !numbers ? Float.NaN : min;
    stats[upper] = nan ? Float.NaN : max;
  }

  @Override
  void sketch(DistinctSketch into) {
    for (int row = 0; row < rows; row++) {
      if (isPresent(row)) into.add((double) Platform.getFloat(null, values.address() + 4L * row));
    }
  }

  @Override
  void reset() {
    super.reset();
    values.recycle();
    min = Float.MAX_VALUE;
    max = -Float.MAX_VALUE;
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
