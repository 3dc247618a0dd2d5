package io.warmset.rdd;

/**
 * Whether values came before, nearly: their hashes lie in a table of fixed size, in which later
 * ones take the places of earlier ones. And whether it is worth asking: after as many values as it
 * has places, of which hardly any came again, only a few are looked at.
 *
 * <p>False for some values that did come before; true for hardly any that did not.
 */
final class SeenBefore {
  private static final int SLOT_BITS = 14;
  private static final int MISSES_MAX = 1 << SLOT_BITS;
  /** A value that came again makes up for so many that did not. */
  private static final int WORTH = 16;
  /** Prime, or it would always meet the same field of elements that have a few. */
  private static final int SKIPPED = 17;

  /** 0 = free. */
  private final int[] hashes = new int[1 << SLOT_BITS];
  private int conflicts;
  private int misses;
  private int skipped;

  /** Whether to look at what comes next. */
  boolean isWorthLooking() {
    if (misses < MISSES_MAX) return true;
    if (++skipped < SKIPPED) return false;
    skipped = 0;
    return true;
  }

  /** So many values that were looked at have entries. */
  void found(int values) {
    misses = Math.max(0, misses - WORTH * values);
  }

  /** So many have none. */
  void missed(int values) {
    misses = Math.min(MISSES_MAX, misses + values);
  }

  /** Notes the value. */
  boolean add(long value) {
    long mixed = value * 0x9E3779B97F4A7C15L;
    int slot = (int) (mixed >>> (64 - SLOT_BITS));
    int hash = (int) (mixed >>> (32 - SLOT_BITS)) | 1;
    if (hashes[slot] == hash) return true;
    // Of values that come in turn and share a slot, one must stay until it comes again.
    if (hashes[slot] == 0 || ++conflicts * 0x9E3779B9 < 0) hashes[slot] = hash;
    return false;
  }
}
