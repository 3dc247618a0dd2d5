package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/** Booleans: collected as bytes, written as bits, or as nothing when all are equal. */
final class BooleanEncoder extends ColumnEncoder {
  private final GrowBuffer values = new GrowBuffer();
  private int trues;

  private void put(boolean value) {
    values.ensure(rows + 1L, rows);
    Platform.putByte(null, values.address() + rows, (byte) (value ? 1 : 0));
    if (value) trues++;
    present();
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
    } else {
      put(from.getBoolean(ordinal));
    }
  }

  @Override
  void appendNull() {
    values.ensure(rows + 1L, rows);
    Platform.putByte(null, values.address() + rows, (byte) 0);
    absent();
  }

  @Override
  void appendStaged(RowStage.Rows staged, int ordinal) {
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
      } else {
        put(Platform.getByte(null, staged.field(r, ordinal)) != 0);
      }
    }
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
      } else {
        put(vector.getBoolean(i));
      }
    }
  }

  @Override
  void finish() {}

  private boolean constant() {
    return trues == 0 || trues == rows - nulls;
  }

  @Override
  void describe(WordSink words) {
    int flags = constant() && trues != 0 ? Layout.FLAG_TRUE : 0;
    words.add(Layout.header(Layout.BOOLEAN, constant() ? 0 : 1, 0, flags, nulls));
  }

  private long valueBytes() {
    return constant() ? 0 : Layout.align((rows + 7L) >>> 3);
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + valueBytes();
  }

  @Override
  long write(long address) {
    long at = writeValidity(address);
    long behind = at + valueBytes();
    if (constant()) return behind;
    long from = values.address();
    Platform.putLong(null, behind - 8, 0);
    for (int row = 0; row < rows; row += 8) {
      int bits = 0;
      int end = Math.min(8, rows - row);
      for (int b = 0; b < end; b++) bits |= Platform.getByte(null, from + row + b) << b;
      Platform.putByte(null, at + (row >>> 3), (byte) bits);
    }
    return behind;
  }

  @Override
  long bufferedBytes() {
    return rows;
  }

  @Override
  long sparkBytes() {
    return rows - nulls + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    stats[lower] = trues == rows - nulls;
    stats[upper] = trues != 0;
  }

  @Override
  void reset() {
    super.reset();
    values.recycle();
    trues = 0;
  }

  @Override
  void close() {
    super.close();
    values.close();
  }
}
