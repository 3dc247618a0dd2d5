package io.warmset.columns;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.CalendarIntervalType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StructType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.types.CalendarInterval;
import org.apache.spark.unsafe.types.VariantVal;

/** Structs, calendar intervals and variants: a node of validity and one child per part; null parents give null children. */
final class StructEncoder extends ColumnEncoder {
  private enum Source { STRUCT, INTERVAL, VARIANT }

  private final Source source;
  private final ColumnEncoder[] children;

  StructEncoder(DataType sql, boolean elements) {
    source = sql instanceof StructType ? Source.STRUCT : sql instanceof CalendarIntervalType ? Source.INTERVAL : Source.VARIANT;
    DataType[] types = ColumnTypes.childTypes(sql);
    children = new ColumnEncoder[types.length];
    for (int i = 0; i < types.length; i++) children[i] = create(types[i], elements);
  }

  @Override
  void appendNull() {
    for (ColumnEncoder child : children) child.appendNull();
    absent();
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
      return;
    }
    switch (source) {
      case STRUCT:
        put(from.getStruct(ordinal, children.length));
        break;
      case INTERVAL:
        put(from.getInterval(ordinal));
        break;
      case VARIANT:
        put(from.getVariant(ordinal));
        break;
    }
  }

  private void put(InternalRow value) {
    for (int i = 0; i < children.length; i++) children[i].append(value, i);
    present();
  }

  private void put(CalendarInterval value) {
    ((IntegralEncoder) children[0]).put(value.months);
    ((IntegralEncoder) children[1]).put(value.days);
    ((IntegralEncoder) children[2]).put(value.microseconds);
    present();
  }

  private void put(VariantVal value) {
    ((BytesEncoder) children[0]).put(value.getValue());
    ((BytesEncoder) children[1]).put(value.getMetadata());
    present();
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    int end = from + count;
    int row = from;
    while (row < end) {
      if (mayBeNull && vector.isNullAt(row)) {
        appendNull();
        row++;
      } else {
        int run = row + 1;
        while (run < end && !(mayBeNull && vector.isNullAt(run))) run++;
        appendRun(vector, row, run - row);
        row = run;
      }
    }
  }

  /** Appends rows none of which is null. */
  private void appendRun(ColumnVector vector, int from, int count) {
    switch (source) {
      case STRUCT:
        for (int i = 0; i < children.length; i++) children[i].appendColumn(vector.getChild(i), from, count);
        present(count);
        break;
      case INTERVAL:
        for (int i = from; i < from + count; i++) put(vector.getInterval(i));
        break;
      case VARIANT:
        for (int i = from; i < from + count; i++) put(vector.getVariant(i));
        break;
    }
  }

  @Override
  void finish() {
    for (ColumnEncoder child : children) child.finish();
  }

  @Override
  void describe(WordSink words) {
    words.add(Layout.header(Layout.STRUCT, 0, 0, 0, nulls));
    for (ColumnEncoder child : children) child.describe(words);
  }

  @Override
  long bytes() {
    long sum = Layout.validityBytes(rows, nulls);
    for (ColumnEncoder child : children) sum += child.bytes();
    return sum;
  }

  @Override
  long write(long address) {
    long at = writeValidity(address);
    for (ColumnEncoder child : children) at = child.write(at);
    return at;
  }

  @Override
  long bufferedBytes() {
    long sum = rows;
    for (ColumnEncoder child : children) sum += child.bufferedBytes();
    return sum;
  }

  @Override
  long sparkBytes() {
    switch (source) {
      case INTERVAL:
        return 16L * (rows - nulls) + sparkNullBytes();
      case VARIANT:
        // Spark counts 4 bytes for each of the two lengths; so do the children, which also count their nulls.
        return children[0].sparkBytes() + children[1].sparkBytes() - sparkNullBytes();
      default:
        long sum = 4L * (rows - nulls) + sparkNullBytes();
        for (ColumnEncoder child : children) sum += child.sparkBytes();
        return sum;
    }
  }

  @Override
  void reset() {
    super.reset();
    for (ColumnEncoder child : children) child.reset();
  }

  @Override
  void close() {
    super.close();
    for (ColumnEncoder child : children) child.close();
  }
}
