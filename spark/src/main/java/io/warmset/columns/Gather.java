package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/**
 * Copies the values of selected rows side by side, still encoded.
 *
 * <p>Invariant: values are read and written as whole words, as {@link Layout} allows, so the target has room for a
 * word behind the last value ({@link #bytes}); the next value overwrites what a word had too much.
 */
final class Gather {
  private Gather() {}

  /** Space for `count` values of `width` bytes. */
  static long bytes(int count, int width) {
    return (long) count * width + Long.BYTES;
  }

  /** Values that are read as words of 8 bytes. */
  static void longs(long from, int width, Selection selection, long to) {
    int[] rows = selection.rows();
    for (int i = 0; i < selection.count(); i++) {
      Platform.putLong(null, to + (long) i * width, Platform.getLong(null, from + (long) rows[i] * width));
    }
  }

  /** Values that are read as words of 4 bytes. */
  static void ints(long from, int width, Selection selection, long to) {
    int[] rows = selection.rows();
    for (int i = 0; i < selection.count(); i++) {
      Platform.putInt(null, to + (long) i * width, Platform.getInt(null, from + (long) rows[i] * width));
    }
  }

  /** Values that are read as words of 2 bytes. */
  static void shorts(long from, int width, Selection selection, long to) {
    int[] rows = selection.rows();
    for (int i = 0; i < selection.count(); i++) {
      Platform.putShort(null, to + (long) i * width, Platform.getShort(null, from + (long) rows[i] * width));
    }
  }

  /** Bits, least significant first; returns how many are set. */
  static int bits(long from, Selection selection, long to) {
    int[] rows = selection.rows();
    int count = selection.count();
    int set = 0;
    for (int start = 0; start < count; start += 8) {
      int packed = 0;
      for (int i = start; i < Math.min(start + 8, count); i++) {
        packed |= (Platform.getByte(null, from + (rows[i] >> 3)) >> (rows[i] & 7) & 1) << (i - start);
      }
      Platform.putByte(null, to + (start >> 3), (byte) packed);
      set += Integer.bitCount(packed);
    }
    return set;
  }
}
