package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.unsafe.Platform;

/**
 * Holds a few hundred UnsafeRows as they come, so that they can be taken apart column by column in tight loops
 * instead of value by value through virtual calls.
 */
final class RowStage {
  private static final int ROWS_MAX = 256;
  private static final long BYTES_MAX = 256 << 10;

  private final GrowBuffer buffer = new GrowBuffer();
  private final long[] offsets = new long[ROWS_MAX];
  private final Rows rows;
  private long used;

  RowStage(int numFields) {
    rows = new Rows(numFields, ROWS_MAX);
  }

  /** Copies a row in. Returns true when the stage is full and must be drained before the next row. */
  boolean add(UnsafeRow row) {
    int size = row.getSizeInBytes();
    buffer.ensure(used + size, used);
    Platform.copyMemory(row.getBaseObject(), row.getBaseOffset(), null, buffer.address() + used, size);
    offsets[rows.count] = used;
    rows.sizes[rows.count] = size;
    rows.count++;
    used += Layout.align(size);
    return rows.count == ROWS_MAX || used >= BYTES_MAX;
  }

  int count() {
    return rows.count;
  }

  long bytes() {
    return used;
  }

  /** The rows staged, addressed; valid until the next add. */
  Rows rows() {
    for (int r = 0; r < rows.count; r++) rows.addresses[r] = buffer.address() + offsets[r];
    return rows;
  }

  void clear() {
    rows.count = 0;
    used = 0;
    buffer.recycle();
  }

  void close() {
    buffer.close();
  }

  /** Rows in UnsafeRow format at addresses. */
  static final class Rows {
    final long[] addresses;
    final int[] sizes;
    int count;
    private final long fieldsFrom;
    private final UnsafeRow row;

    Rows(int numFields, int capacity) {
      addresses = new long[capacity];
      sizes = new int[capacity];
      fieldsFrom = UnsafeRow.calculateBitSetWidthInBytes(numFields);
      row = new UnsafeRow(numFields);
    }

    boolean isNull(int r, int ordinal) {
      long word = Platform.getLong(null, addresses[r] + ((ordinal >> 6) << 3));
      return (word >> (ordinal & 63) & 1) != 0;
    }

    /** Address of the 8 bytes of a field. */
    long field(int r, int ordinal) {
      return addresses[r] + fieldsFrom + 8L * ordinal;
    }

    /** The same object for every row. */
    UnsafeRow row(int r) {
      row.pointTo(null, addresses[r], sizes[r]);
      return row;
    }
  }
}
