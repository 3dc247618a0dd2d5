package io.warmset.rdd;

import java.util.Arrays;

/** Codes for distinct values, by their bits, in the order in which they come. */
final class DistinctDoubles {
  private static final int ENTRIES_MAX = 1 << DoubleArrays.CODE_BITS_MAX;
  private static final int SLOT_BITS = DoubleArrays.CODE_BITS_MAX + 1;

  /** Code + 1 per slot, 0 = free. */
  private final short[] slots = new short[1 << SLOT_BITS];
  private final long[] entries = new long[ENTRIES_MAX];
  private int count;

  /** Counts the distinct ones of the first values, up to one more than `most`. */
  int count(double[] values, int length, int most) {
    clear();
    for (int i = 0; i < length && count <= most; i++) {
      find(Double.doubleToRawLongBits(values[i]), true);
    }
    return count;
  }

  /** Gives codes to the array's values. Returns how many got none, or a few of them if many. */
  int countAll(double[] values) {
    clear();
    int missed = 0;
    int missedMax = values.length / DoubleArrays.PATCH_SHARE;
    for (int i = 0; i < values.length && missed <= missedMax; i++) {
      if (find(Double.doubleToRawLongBits(values[i]), true) < 0) missed++;
    }
    return missed;
  }

  /** Its code, which is new if it had none; not when {@link #isFull}. */
  int add(long bits) {
    return find(bits, true);
  }

  boolean isFull() {
    return count == ENTRIES_MAX;
  }

  private void clear() {
    if (count > 0) Arrays.fill(slots, (short) 0);
    count = 0;
  }

  /** Its code; -1 if it has none. */
  int find(long bits) {
    return find(bits, false);
  }

  private int find(long bits, boolean add) {
    int slot = (int) ((bits * 0x9E3779B97F4A7C15L) >>> (64 - SLOT_BITS));
    while (slots[slot] != 0) {
      int found = slots[slot] - 1;
      if (entries[found] == bits) return found;
      slot = (slot + 1) & (slots.length - 1);
    }
    if (!add || count == ENTRIES_MAX) return -1;
    entries[count] = bits;
    slots[slot] = (short) ++count;
    return count - 1;
  }

  /** Bits that every code fits. */
  int codeBits() {
    return 32 - Integer.numberOfLeadingZeros(count - 1);
  }

  /** Writes the table of all codes that the bits can spell. */
  void write(long table) {
    for (int code = 0; code < 1 << codeBits(); code++) {
      Raw.U.putLong(table + 8L * code, code < count ? entries[code] : 0);
    }
  }
}
