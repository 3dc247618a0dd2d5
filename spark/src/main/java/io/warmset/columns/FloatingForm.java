package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/**
 * Chooses how the doubles (or floats) of a batch are written, and writes them: every form gives back exactly the same
 * bits.
 *
 * <p>Doubles that people store are often decimals with a few digits behind the point (prices), whole numbers, or a
 * handful of values (rates). The last become a dictionary of at most 256 entries; the others whole numbers over a power
 * of ten, narrowed like any whole number, if dividing gives every value back bit for bit (so never for NaN, infinity or
 * negative zero). All else stays plain, and so do floats.
 */
final class FloatingForm {
  static final int ENTRIES_MAX = 256;

  private static final int SLOTS = 1024;
  private static final int SAMPLE_ROWS = 64;

  private enum Kind { PLAIN, DICTIONARY, SCALED }

  private Kind kind = Kind.PLAIN;
  private int width;
  private long base;
  private int power;
  /** Entry + 1 per slot, 0 = free; made when first needed, as are the entries. */
  private short[] slots;
  private long[] entries;
  private byte[] codes;
  private int count;

  /** Plans for a column that is neither constant nor without values; `numbers` tells that it holds no NaN. */
  void plan(FloatingEncoder column, boolean numbers, double min, double max) {
    kind = Kind.PLAIN;
    width = Double.BYTES;
    if (findEntries(column) && Layout.valueBytes(column.rows, 1, 8) + 8L * count <= 4L * column.rows) {
      kind = Kind.DICTIONARY;
      width = 1;
    } else if (numbers && min >= -Decimals.WHOLE_MAX && max <= Decimals.WHOLE_MAX) {
      planScaled(column, min, max);
    }
  }

  void plain(int valueBytes) {
    kind = Kind.PLAIN;
    width = valueBytes;
  }

  void constant() {
    kind = Kind.PLAIN;
    width = 0;
  }

  private boolean findEntries(FloatingEncoder column) {
    if (slots == null) {
      slots = new short[SLOTS];
      entries = new long[ENTRIES_MAX];
      codes = new byte[column.rows];
    }
    if (codes.length < column.rows) codes = new byte[column.rows];
    java.util.Arrays.fill(slots, (short) 0);
    count = 0;
    for (int row = 0; row < column.rows; row++) {
      int code = column.isPresent(row) ? entry(column.bits(row)) : 0;
      if (code < 0) return false;
      codes[row] = (byte) code;
    }
    return true;
  }

  /** The number of an entry, added when new; -1 when there are too many. */
  private int entry(long bits) {
    int slot = (int) ((bits * 0x9E3779B97F4A7C15L) >>> 54);
    while (slots[slot] != 0) {
      int found = slots[slot] - 1;
      if (entries[found] == bits) return found;
      slot = (slot + 1) & (SLOTS - 1);
    }
    if (count == ENTRIES_MAX) return -1;
    entries[count] = bits;
    slots[slot] = (short) ++count;
    return count - 1;
  }

  private void planScaled(FloatingEncoder column, double min, double max) {
    for (int p = 0; p < Decimals.DIVISORS.length; p++) {
      double divisor = Decimals.DIVISORS[p];
      if (Math.max(-min, max) * divisor > Decimals.WHOLE_MAX) return;
      long smallest = Decimals.whole(min, divisor);
      long range = Decimals.whole(max, divisor) - smallest;
      if (Layout.widthOf(range) > Decimals.WIDTH_MAX) return;
      if (exact(column, p, Math.min(SAMPLE_ROWS, column.rows)) && exact(column, p, column.rows)) {
        kind = Kind.SCALED;
        power = p;
        base = smallest;
        width = Math.max(1, Layout.widthOf(range));
        return;
      }
    }
  }

  private static boolean exact(FloatingEncoder column, int power, int rows) {
    double divisor = Decimals.DIVISORS[power];
    for (int row = 0; row < rows; row++) {
      if (!Decimals.isExact(column.bits(row), divisor) && column.isPresent(row)) return false;
    }
    return true;
  }

  void describe(WordSink words, int type, int nulls) {
    int flags = kind == Kind.DICTIONARY ? Layout.FLAG_DICTIONARY : kind == Kind.SCALED ? Layout.FLAG_SCALED : 0;
    words.add(Layout.header(type, width, 0, flags, nulls));
    if (kind == Kind.DICTIONARY) words.add(count);
    if (kind == Kind.SCALED) {
      words.add(base);
      words.add(power);
    }
  }

  long bytes(int rows, int valueBytes) {
    switch (kind) {
      case DICTIONARY:
        return Layout.valueBytes(rows, width, Long.BYTES) + 8L * count;
      case SCALED:
        return Layout.valueBytes(rows, width, Long.BYTES);
      default:
        return Layout.floatingBytes(rows, width, valueBytes);
    }
  }

  /** Writes the values of `column`, so many bytes each, that lie at `from`. Returns the address behind. */
  long write(FloatingEncoder column, int valueBytes, long from, long constant, long to) {
    int rows = column.rows;
    long behind = to + bytes(rows, valueBytes);
    if (behind == to) return to;
    if (kind == Kind.DICTIONARY) {
      writeEntries(column, to);
    } else if (kind == Kind.SCALED) {
      Platform.putLong(null, behind - 8, 0);
      writeScaled(from, rows, to);
    } else if (width == 0) {
      Platform.putLong(null, to, constant);
    } else {
      // An odd number of floats leaves half a word of padding.
      Platform.putLong(null, behind - 8, 0);
      Platform.copyMemory(null, from, null, to, (long) valueBytes * rows);
    }
    return behind;
  }

  private void writeEntries(FloatingEncoder column, long to) {
    long table = to + Layout.valueBytes(column.rows, width, Long.BYTES);
    Platform.putLong(null, table - 8, 0);
    Platform.copyMemory(codes, Platform.BYTE_ARRAY_OFFSET, null, to, column.rows);
    for (int e = 0; e < count; e++) Platform.putLong(null, table + 8L * e, entries[e]);
  }

  /** Whole words one over the other: each store's spill is overwritten by the next, the last one's lies in the padding. */
  private void writeScaled(long from, int rows, long to) {
    long mask = Layout.mask(width);
    double divisor = Decimals.DIVISORS[power];
    for (int row = 0; row < rows; row++) {
      long whole = Decimals.whole(Platform.getDouble(null, from + 8L * row), divisor);
      Platform.putLong(null, to + (long) row * width, (whole - base) & mask);
    }
  }
}
