package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/** Writes longs as base plus unsigned numbers of a given number of bytes. */
final class Narrowing {
  private Narrowing() {}

  /**
   * Writes `count` longs that lie every `stride` bytes from `from` on as `width` bytes each at `to`; `word` is the
   * size of the word they will be read with. Values outside the range (those of null rows) are cut to the width.
   * Returns the address behind, padding included.
   */
  static long write(long from, int stride, int count, long base, int width, int word, long to) {
    long bytes = Layout.valueBytes(count, width, word);
    if (bytes == 0) return to;
    // The padding is part of the bytes and must not depend on what lay there before.
    Platform.putLong(null, to + bytes - 8, 0);
    switch (width) {
      case 1:
        for (int i = 0; i < count; i++) {
          Platform.putByte(null, to + i, (byte) (Platform.getLong(null, from + (long) stride * i) - base));
        }
        break;
      case 2:
        for (int i = 0; i < count; i++) {
          Platform.putShort(null, to + 2L * i, (short) (Platform.getLong(null, from + (long) stride * i) - base));
        }
        break;
      case 4:
        for (int i = 0; i < count; i++) {
          Platform.putInt(null, to + 4L * i, (int) (Platform.getLong(null, from + (long) stride * i) - base));
        }
        break;
      case 8:
        for (int i = 0; i < count; i++) {
          Platform.putLong(null, to + 8L * i, Platform.getLong(null, from + (long) stride * i) - base);
        }
        break;
      default:
        writeOdd(from, stride, count, base, width, to);
        break;
    }
    return to + bytes;
  }

  /** Widths without a store of their own: the low bytes in pieces, never past the value. */
  private static void writeOdd(long from, int stride, int count, long base, int width, long to) {
    long at = to;
    for (int i = 0; i < count; i++) {
      long value = Platform.getLong(null, from + (long) stride * i) - base;
      int done = 0;
      if (width >= 4) {
        Platform.putInt(null, at, (int) value);
        done = 4;
      }
      if (width - done >= 2) {
        Platform.putShort(null, at + done, (short) (value >>> (done << 3)));
        done += 2;
      }
      if (width - done >= 1) Platform.putByte(null, at + done, (byte) (value >>> (done << 3)));
      at += width;
    }
  }
}
