package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.vectorized.ColumnVector;

/** Columns of Spark's null type: only counted. */
final class NullEncoder extends ColumnEncoder {
  @Override
  void append(SpecializedGetters from, int ordinal) {
    appendNull();
  }

  @Override
  void appendNull() {
    nulls++;
    rows++;
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    nulls += count;
    rows += count;
  }

  @Override
  void finish() {}

  @Override
  void describe(WordSink words) {
    words.add(Layout.header(Layout.NULL, 0, 0, 0, nulls));
  }

  @Override
  long bytes() {
    return 0;
  }

  @Override
  long write(long address) {
    return address;
  }

  @Override
  long bufferedBytes() {
    // Counted as a byte per row, so that endless rows of nulls still fill a batch.
    return rows;
  }

  @Override
  long sparkBytes() {
    return sparkNullBytes();
  }
}
