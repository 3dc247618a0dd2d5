package io.warmset.rdd;

import java.util.Arrays;

/**
 * How doubles split best into a code for the sign and exponent (their top 12 bits) and the rest of
 * the mantissa. Counts the tops, and how many low bits of the mantissas are zero.
 */
final class TopCounts {
  static final int MANTISSA_BITS = 52;
  static final long MANTISSA = (1L << MANTISSA_BITS) - 1;

  private static final int TOPS = 1 << 12;
  /** Enough for every float. */
  private static final int CODE_BITS_MAX = 9;

  private final int[] counts = new int[TOPS];
  /** By number of zero bits at the end of the mantissa. */
  private final int[] zeros = new int[MANTISSA_BITS + 1];
  /** The tops that occur, with their counts above their numbers; sorted by {@link #choose}. */
  private final long[] seen = new long[TOPS];
  private int seenCount;
  /** -1 but for the tops that have a code now. */
  private final short[] codes = new short[TOPS];

  private int width;
  private int codeBits;
  private int shift;
  private int patches;
  private long wordBytes;

  TopCounts() {
    Arrays.fill(codes, (short) -1);
  }

  /** Finds the best split of the first `count` values; returns false if there is none. */
  boolean measure(double[] values, int count) {
    for (int i = 0; i < seenCount; i++) {
      counts[(int) seen[i] & TOPS - 1] = 0;
      codes[(int) seen[i] & TOPS - 1] = -1;
    }
    seenCount = 0;
    Arrays.fill(zeros, 0);
    for (int i = 0; i < count; i++) {
      long bits = Double.doubleToRawLongBits(values[i]);
      int top = (int) (bits >>> MANTISSA_BITS);
      if (counts[top]++ == 0) seen[seenCount++] = top;
      zeros[Long.numberOfTrailingZeros(bits | 1L << MANTISSA_BITS)]++;
    }
    for (int i = 0; i < seenCount; i++) seen[i] |= -(long) counts[(int) seen[i]] * TOPS;
    // The counts are negative, so the most frequent come first.
    Arrays.sort(seen, 0, seenCount);
    return choose(count);
  }

  private boolean choose(int count) {
    long fewest = Long.MAX_VALUE;
    int uncoded = count;
    int coded = 0;
    for (int bits = 0; bits <= CODE_BITS_MAX; bits++) {
      for (; coded < Math.min(seenCount, 1 << bits); coded++) {
        uncoded -= counts[(int) seen[coded] & TOPS - 1];
      }
      if (uncoded > count / DoubleArrays.PATCH_SHARE) continue;
      for (int w = Math.max(1, (bits + 7) / 8); w <= DoubleArrays.WIDTH_MAX; w++) {
        int s = Math.max(0, MANTISSA_BITS - (8 * w - bits));
        long missed = uncoded;
        for (int z = 0; z < s; z++) missed += zeros[z];
        if (missed > count / DoubleArrays.PATCH_SHARE) continue;
        long words = (long) w * count + DoubleArrays.PATCH_BYTES * missed;
        if (words + (8L << bits) < fewest) {
          fewest = words + (8L << bits);
          width = w;
          codeBits = bits;
          shift = s;
          patches = (int) missed;
          wordBytes = words;
        }
      }
      if (coded == seenCount) break;
    }
    return fewest != Long.MAX_VALUE;
  }

  /** Bytes of a word. */
  int width() {
    return width;
  }

  int codeBits() {
    return codeBits;
  }

  /** Low bits of the mantissa that are left out. */
  int shift() {
    return shift;
  }

  /** No more values than these are left over. */
  int patchesMax() {
    return patches;
  }

  /** What the words and patches take, without a table. */
  long wordBytes() {
    return wordBytes;
  }

  /** Gives the most frequent tops codes and writes the table of them. */
  void assignCodes(long table) {
    for (int code = 0; code < 1 << codeBits; code++) {
      int top = code < seenCount ? (int) seen[code] & TOPS - 1 : 0;
      if (code < seenCount) codes[top] = (short) code;
      Raw.U.putLong(table + 8L * code, (long) top << MANTISSA_BITS);
    }
  }

  /** By top: its code, or -1. */
  short[] codes() {
    return codes;
  }
}
