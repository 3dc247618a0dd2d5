package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/**
 * Chooses and writes offsets in the line form of {@link Layout}: rising numbers are a straight line plus what is
 * left, and what is left of summed lengths grows with the square root of the rows only.
 */
final class OffsetLine {
  int width;
  long base;
  long slope;
  private long ends;
  private int count;

  /** Plans for the `count` ends (longs) that lie at `ends`; the first offset is 0 and is not among them. */
  void plan(long ends, int count) {
    this.ends = ends;
    this.count = count;
    long total = count == 0 ? 0 : Platform.getLong(null, ends + 8L * (count - 1));
    slope = count == 0 ? 0 : (total << Layout.SLOPE_SHIFT) / count;
    long min = 0;
    long max = 0;
    for (int i = 1; i <= count; i++) {
      long rest = Platform.getLong(null, ends + 8L * (i - 1)) - (i * slope >> Layout.SLOPE_SHIFT);
      min = Math.min(min, rest);
      max = Math.max(max, rest);
    }
    width = Layout.widthOf(max - min);
    base = min;
    if (Layout.widthOf(total) <= width) {
      // No gain from the line: plain offsets.
      slope = 0;
      base = 0;
      width = Layout.widthOf(total);
    }
  }

  long bytes() {
    return Layout.valueBytes(count + 1L, width, Long.BYTES);
  }

  /** Writes the offsets. Returns the address behind. */
  long write(long to) {
    long bytes = bytes();
    if (bytes == 0) return to;
    Platform.putLong(null, to + bytes - 8, 0);
    // Each store is a whole word and the next one overwrites what it spilled; the last spills into the padding.
    Platform.putLong(null, to, -base);
    long at = to;
    for (int i = 1; i <= count; i++) {
      at += width;
      long end = Platform.getLong(null, ends + 8L * (i - 1));
      Platform.putLong(null, at, end - (i * slope >> Layout.SLOPE_SHIFT) - base);
    }
    return to + bytes;
  }
}
