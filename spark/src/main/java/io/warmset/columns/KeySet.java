package io.warmset.columns;

import java.io.Serializable;

/**
 * Whole numbers that a row's key may be one of: the keys of a join's other side.
 *
 * <p>Invariant: {@link #mayContain} is true of every key it was made of. It is exact while the keys lie so close that
 * a bit for each number between them takes at most 64 bits per key; otherwise a blocked Bloom filter of 16 bits per
 * key, which takes some two in a hundred other numbers for keys. Immutable once made.
 */
public final class KeySet implements Serializable {
  private static final long serialVersionUID = 1L;
  private static final int BLOOM_BITS_PER_KEY = 16;
  /** Below so many bits there is no reason to be anything but exact: 8 KiB. */
  private static final long EXACT_BITS_ANYWAY = 1L << 16;
  private static final long MIX = 0x9E3779B97F4A7C15L;

  private final long min;
  /** Greatest less least, as an unsigned number; -1 with `bits` empty where there are no keys. */
  private final long range;
  private final boolean exact;
  private final long[] bits;

  /** The first `count` of `keys`, in any order, some of them perhaps more than once. */
  public KeySet(long[] keys, int count) {
    long least = Long.MAX_VALUE;
    long greatest = Long.MIN_VALUE;
    for (int i = 0; i < count; i++) {
      least = Math.min(least, keys[i]);
      greatest = Math.max(greatest, keys[i]);
    }
    min = least;
    range = count == 0 ? -1 : greatest - least;
    long exactBits = Math.max(64L * count, EXACT_BITS_ANYWAY);
    exact = count == 0 || Long.compareUnsigned(range, exactBits) < 0;
    if (count == 0) {
      bits = new long[0];
    } else if (exact) {
      bits = new long[(int) (range >>> 6) + 1];
      for (int i = 0; i < count; i++) bits[(int) (keys[i] - min >>> 6)] |= 1L << (keys[i] - min);
    } else {
      long words = (long) count * BLOOM_BITS_PER_KEY / 64 + 1;
      bits = new long[(int) Math.min(1L << 28, Long.highestOneBit(words) * 2)];
      for (int i = 0; i < count; i++) {
        long hash = hash(keys[i]);
        bits[word(hash)] |= pattern(hash);
      }
    }
  }

  private KeySet(long least, long[] bits) {
    min = least;
    range = 64L * bits.length - 1;
    exact = true;
    this.bits = bits;
  }

  /** The numbers from `least` on whose bits are set, the lowest bit of the first word for `least`. `bits` is kept. */
  public static KeySet ofBits(long least, long[] bits) {
    return new KeySet(least, bits);
  }

  public boolean isEmpty() {
    return bits.length == 0;
  }

  /** Whether every number that it lets pass is a key. */
  public boolean isExact() {
    return exact;
  }

  /** The least key; of no meaning where there is none. */
  public long min() {
    return min;
  }

  /** The greatest key; of no meaning where there is none. */
  public long max() {
    return min + range;
  }

  public boolean mayContain(long value) {
    if (bits.length == 0) return false;
    long at = value - min;
    if (Long.compareUnsigned(at, range) > 0) return false;
    if (exact) return (bits[(int) (at >>> 6)] >>> at & 1) != 0;
    long hash = hash(value);
    long pattern = pattern(hash);
    return (bits[word(hash)] & pattern) == pattern;
  }

  private int word(long hash) {
    return (int) (hash >>> 32) & bits.length - 1;
  }

  private static long pattern(long hash) {
    return 1L << hash | 1L << (hash >>> 6) | 1L << (hash >>> 12);
  }

  private static long hash(long value) {
    long mixed = value * MIX;
    mixed = (mixed ^ mixed >>> 32) * MIX;
    return mixed ^ mixed >>> 29;
  }
}
