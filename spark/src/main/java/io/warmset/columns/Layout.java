package io.warmset.columns;

import java.nio.ByteOrder;

import org.apache.spark.unsafe.Platform;

/**
 * The byte layout of one column, and the packing of its description.
 *
 * <p>A column is a tree of <em>nodes</em> in the shape of its data type. A node is described by a few 64-bit words;
 * the place of every byte follows from the words and the number of rows, so a description holds no offsets and the
 * bytes may lie anywhere. All numbers are little-endian; every piece starts on a multiple of 8 bytes from the start
 * of the column.
 *
 * <pre>
 * words of a node, in the order of a depth-first walk          bytes of a node, in the same order
 *   NULL     header                                              -
 *   BOOLEAN  header                                              validity | bits
 *   INT      header base                                         validity | rows * width, pad
 *   LONG     header base                                         validity | rows * width, pad
 *   FLOAT    header                                              validity | rows * 4, or one value
 *   DOUBLE   header                                              validity | rows * 8, or one value
 *            header count (DICTIONARY)                           validity | rows * 1, pad | count * 8
 *            header base power (SCALED)                          validity | rows * width, pad
 *   DECIMAL  header base                                         validity | rows * width, pad
 *   BYTES    header count base slope length                      validity | codes | offsets | bytes
 *   STRUCT   header, then each child                             validity, then each child
 *   ARRAY    header base slope elements, then the child          validity | offsets, then the child
 *   MAP      header base slope elements, then keys, then values  validity | offsets, then keys, then values
 *
 * header    bits 0-7 kind, 8-15 width, 16-23 code width (BYTES), 24-31 flags, 32-63 number of nulls
 * validity  one bit per row, least significant first, 1 = present; absent when no row or every row is null
 * width     bytes per value. A value is base + the unsigned number of that many bytes; 0 = every value is base.
 *           Values are read with one load of the full word and a mask, hence the pad of (word - width) bytes.
 * offsets   count + 1 values: base + (i * slope &gt;&gt; 16) + the unsigned number of `width` bytes at i * width.
 *           The line takes out the mean length, so that two bytes do for most strings and none for equal lengths.
 * SCALED    a double is (base + the unsigned number of `width` bytes) / 10^power, exactly
 * codes     (flag DICTIONARY) which of `count` distinct values a row has: 0, 1 or 2 bytes. Without the flag there
 *           are no codes and count = rows.
 * </pre>
 */
final class Layout {
  static final int NULL = 1;
  static final int BOOLEAN = 2;
  static final int INT = 3;
  static final int LONG = 4;
  static final int FLOAT = 5;
  static final int DOUBLE = 6;
  static final int DECIMAL = 7;
  static final int BYTES = 8;
  static final int STRUCT = 9;
  static final int ARRAY = 10;
  static final int MAP = 11;

  /** BYTES, DOUBLE: rows hold codes into distinct values. */
  static final int FLAG_DICTIONARY = 1;
  /** BOOLEAN of width 0: every value is true. */
  static final int FLAG_TRUE = 2;

  /** DOUBLE: rows hold whole numbers, to be divided by a power of ten. */
  static final int FLAG_SCALED = 4;

  /** Fixed point of the slope of offsets. */
  static final int SLOPE_SHIFT = 16;
  static final int DICTIONARY_ENTRIES_MAX = 1 << 16;

  /** 16 zero bytes: what a vector of constants or of nulls points at. Lives as long as the process. */
  static final long ZEROES = constantBytes((byte) 0);
  /** 16 bytes of ones: what a vector of constant true points at. Lives as long as the process. */
  static final long ONES = constantBytes((byte) -1);

  private Layout() {}

  private static long constantBytes(byte value) {
    long address = Platform.allocateMemory(16);
    Platform.setMemory(address, value, 16);
    return address;
  }

  /** In-place reading relies on the order of bytes in a word. */
  static boolean platformSupported() {
    return ByteOrder.nativeOrder() == ByteOrder.LITTLE_ENDIAN && Platform.unaligned();
  }

  static long header(int kind, int width, int codeWidth, int flags, int nulls) {
    return kind | (long) width << 8 | (long) codeWidth << 16 | (long) flags << 24 | (long) nulls << 32;
  }

  static int kind(long header) {
    return (int) header & 0xFF;
  }

  static int width(long header) {
    return (int) (header >>> 8) & 0xFF;
  }

  static int codeWidth(long header) {
    return (int) (header >>> 16) & 0xFF;
  }

  static int flags(long header) {
    return (int) (header >>> 24) & 0xFF;
  }

  static int nulls(long header) {
    return (int) (header >>> 32);
  }

  /** Rounds up to the alignment of pieces. */
  static long align(long bytes) {
    return (bytes + 7) & ~7L;
  }

  static long validityBytes(int rows, int nulls) {
    return nulls == 0 || nulls == rows ? 0 : align((rows + 7L) >>> 3);
  }

  /** Bytes of `count` values of `width` bytes that are read as words of `word` bytes. */
  static long valueBytes(long count, int width, int word) {
    return width == 0 || count == 0 ? 0 : align(count * width + (word - width));
  }

  /** Bytes of float or double values: a constant still takes one slot. */
  static long floatingBytes(int rows, int width, int word) {
    return rows == 0 ? 0 : align(width == 0 ? word : (long) rows * word);
  }

  /** The least number of bytes that holds the unsigned `range`. */
  static int widthOf(long range) {
    return (64 - Long.numberOfLeadingZeros(range) + 7) >>> 3;
  }

  /** The mask that keeps the low `width` bytes. */
  static long mask(int width) {
    return width >= 8 ? -1L : (1L << (width << 3)) - 1;
  }

  static String kindName(int kind) {
    String[] names = {"?", "null", "boolean", "int", "long", "float", "double", "decimal", "bytes", "struct", "array", "map"};
    return kind > 0 && kind < names.length ? names[kind] : "unknown kind " + kind;
  }
}
