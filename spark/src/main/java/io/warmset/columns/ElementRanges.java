package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/** Where each row's elements lie in the child of an array or a map: offsets on a line, see {@link Layout}. */
final class ElementRanges {
  private long offsets = Layout.ZEROES;
  private int width;
  private long mask;
  private long base;
  private long slope;
  private int elements;

  void bind(WarmVector.Cursor cursor, long header, int rows) {
    width = Layout.width(header);
    mask = Layout.mask(width);
    base = cursor.next();
    slope = cursor.next();
    elements = (int) cursor.next();
    offsets = cursor.take(Layout.valueBytes(rows + 1L, width, Long.BYTES));
  }

  /** Elements of all rows. */
  int elements() {
    return elements;
  }

  int start(int rowId) {
    return (int) (base + (rowId * slope >> Layout.SLOPE_SHIFT)
        + (Platform.getLong(null, offsets + (long) rowId * width) & mask));
  }
}
