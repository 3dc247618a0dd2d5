package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.catalyst.util.MapData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/** Arrays (one child) and maps (two): elements of all rows go to the children, the node keeps where each row ends. */
final class RangeEncoder extends ColumnEncoder {
  private final int kind;
  private final ColumnEncoder[] children;
  private final GrowBuffer ends = new GrowBuffer();
  private final OffsetLine offsets = new OffsetLine();
  private long elements;

  RangeEncoder(DataType sql) {
    kind = ColumnTypes.kindOf(sql);
    DataType[] types = ColumnTypes.childTypes(sql);
    children = new ColumnEncoder[types.length];
    for (int i = 0; i < types.length; i++) children[i] = create(types[i], true);
  }

  private void putEnd(int count) {
    elements += count;
    if (elements >= Integer.MAX_VALUE) {
      throw new IllegalStateException("a batch holds more than 2^31 elements of arrays or maps in one column; "
          + "lower spark.sql.inMemoryColumnarStorage.batchSize");
    }
    ends.ensure((rows + 1L) * 8, rows * 8L);
    Platform.putLong(null, ends.address() + rows * 8L, elements);
  }

  @Override
  void appendNull() {
    putEnd(0);
    absent();
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
    } else if (kind == Layout.ARRAY) {
      put(from.getArray(ordinal));
    } else {
      put(from.getMap(ordinal));
    }
  }

  private void put(ArrayData array) {
    int count = array.numElements();
    putEnd(count);
    children[0].appendElements(array, count);
    present();
  }

  private void put(MapData map) {
    int count = map.numElements();
    putEnd(count);
    children[0].appendElements(map.keyArray(), count);
    children[1].appendElements(map.valueArray(), count);
    present();
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
      } else if (kind == Layout.ARRAY) {
        put(vector.getArray(i));
      } else {
        put(vector.getMap(i));
      }
    }
  }

  @Override
  void finish() {
    offsets.plan(ends.address(), rows);
    for (ColumnEncoder child : children) child.finish();
  }

  @Override
  void describe(WordSink words) {
    words.add(Layout.header(kind, offsets.width, 0, 0, nulls));
    words.add(offsets.base);
    words.add(offsets.slope);
    words.add(elements);
    for (ColumnEncoder child : children) child.describe(words);
  }

  @Override
  long bytes() {
    long sum = Layout.validityBytes(rows, nulls) + offsets.bytes();
    for (ColumnEncoder child : children) sum += child.bytes();
    return sum;
  }

  @Override
  long write(long address) {
    long at = offsets.write(writeValidity(address));
    for (ColumnEncoder child : children) at = child.write(at);
    return at;
  }

  @Override
  long bufferedBytes() {
    long sum = 4L * rows;
    for (ColumnEncoder child : children) sum += child.bufferedBytes();
    return sum;
  }

  @Override
  long sparkBytes() {
    // Spark counts the bytes of its own row format; the elements and their count are nearly that.
    long sum = 12L * (rows - nulls) + sparkNullBytes();
    for (ColumnEncoder child : children) sum += child.sparkBytes();
    return sum;
  }

  @Override
  void reset() {
    super.reset();
    ends.recycle();
    elements = 0;
    for (ColumnEncoder child : children) child.reset();
  }

  @Override
  void close() {
    super.close();
    ends.close();
    for (ColumnEncoder child : children) child.close();
  }
}
