package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;

/**
 * Collects the values of one column of one batch, chooses the encoding when told that the batch is complete, and
 * writes it out. Counts rows and nulls and keeps the validity bits; subclasses keep the values.
 *
 * <p>Order of calls: any number of appends, {@link #finish}, then {@link #bytes}, {@link #describe} and {@link
 * #write} as often as wanted, {@link #reset} for the next batch, {@link #close} at the end. Working memory is
 * reused between batches.
 */
abstract class ColumnEncoder {
  int rows;
  int nulls;
  private final GrowBuffer bits = new GrowBuffer();

  static ColumnEncoder create(DataType type) {
    return create(type, false);
  }

  /** `elements` tells that the values are elements of arrays, or lie in structs that are. */
  static ColumnEncoder create(DataType type, boolean elements) {
    DataType sql = ColumnTypes.sqlType(type);
    switch (ColumnTypes.kindOf(sql)) {
      case Layout.NULL:
        return new NullEncoder();
      case Layout.BOOLEAN:
        return new BooleanEncoder();
      case Layout.INT:
      case Layout.LONG:
        return new IntegralEncoder(sql);
      case Layout.FLOAT:
        return new FloatingEncoder(true, elements);
      case Layout.DOUBLE:
        return new FloatingEncoder(false, elements);
      case Layout.DECIMAL:
        return new DecimalEncoder(sql);
      case Layout.BYTES:
        return new BytesEncoder(sql);
      case Layout.STRUCT:
        return new StructEncoder(sql, elements);
      case Layout.ARRAY:
      case Layout.MAP:
        return new RangeEncoder(sql);
      default:
        throw ColumnTypes.unsupported(type);
    }
  }

  /** Appends `from[ordinal]`, which may be null. */
  abstract void append(SpecializedGetters from, int ordinal);

  abstract void appendNull();

  /** Appends field `ordinal` of staged rows. */
  void appendStaged(RowStage.Rows staged, int ordinal) {
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
      } else {
        append(staged.row(r), ordinal);
      }
    }
  }

  /** Appends the first `count` elements of an array. */
  void appendElements(ArrayData array, int count) {
    for (int i = 0; i < count; i++) append(array, i);
  }

  /** Appends `count` rows of a vector, starting with row `from`. */
  abstract void appendColumn(ColumnVector vector, int from, int count);

  /** Chooses the encoding. No append may follow until {@link #reset}. */
  abstract void finish();

  /** Adds this node's words, and those of its children. */
  abstract void describe(WordSink words);

  /** Bytes that {@link #write} writes, children included. */
  abstract long bytes();

  /** Writes the node and its children at `address`, a multiple of 8. Returns the address behind. */
  abstract long write(long address);

  /** Bytes collected so far, roughly what an unencoded batch would take. */
  abstract long bufferedBytes();

  /** What Spark's own cache would report as the size of the values collected, nulls included. */
  abstract long sparkBytes();

  /** Puts the bounds that Spark's statistics have for this type; they stay null for types without. */
  void bounds(Object[] stats, int lower, int upper) {}

  /** Adds the values of the finished batch that are not null; nothing for nested types. */
  void sketch(DistinctSketch into) {}

  /** See {@link BatchEncoder#halves}. */
  long[] halves() {
    return null;
  }

  void reset() {
    rows = 0;
    nulls = 0;
    bits.recycle();
  }

  void close() {
    bits.close();
  }

  /** Counts a row that has a value. */
  final void present() {
    if (nulls != 0) putBit(1);
    rows++;
  }

  /** Counts `count` rows that have values. */
  final void present(int count) {
    if (nulls == 0) {
      rows += count;
    } else {
      for (int i = 0; i < count; i++) present();
    }
  }

  /** Counts a null row. */
  final void absent() {
    if (nulls == 0) startBits();
    putBit(0);
    nulls++;
    rows++;
  }

  private void startBits() {
    long bytes = (rows + 7L) >>> 3;
    bits.ensure(bytes, 0);
    if (bytes != 0) Platform.setMemory(bits.address(), (byte) -1, bytes);
  }

  private void putBit(int bit) {
    long at = rows >>> 3;
    int shift = rows & 7;
    bits.ensure(at + 1, at);
    int before = shift == 0 ? 0 : Platform.getByte(null, bits.address() + at) & ((1 << shift) - 1);
    Platform.putByte(null, bits.address() + at, (byte) (before | bit << shift));
  }

  final boolean isPresent(int row) {
    return nulls == 0 || (Platform.getByte(null, bits.address() + (row >>> 3)) >> (row & 7) & 1) != 0;
  }

  /** Writes the validity bits if there are any to write. Returns the address behind. */
  final long writeValidity(long address) {
    long bytes = Layout.validityBytes(rows, nulls);
    if (bytes == 0) return address;
    long used = (rows + 7L) >>> 3;
    Platform.putLong(null, address + bytes - 8, 0);
    Platform.copyMemory(null, bits.address(), null, address, used);
    if ((rows & 7) != 0) {
      long last = address + used - 1;
      Platform.putByte(null, last, (byte) (Platform.getByte(null, last) & ((1 << (rows & 7)) - 1)));
    }
    return address + bytes;
  }

  /** Bytes of null rows in Spark's count. */
  final long sparkNullBytes() {
    return 4L * nulls;
  }
}
