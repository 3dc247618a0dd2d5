package io.warmset.rdd;

import java.util.Arrays;

import sun.misc.Unsafe;

/**
 * The doubles that come again and again in a partition's small arrays: an array of nothing else is
 * codes of two bytes.
 *
 * <p>Invariant: an entry never changes, nor makes room for another. One thread writes, any number
 * read what is written.
 */
final class RepeatedDoubles {
  private static final int CODE_BYTES = 2;
  private static final int LOOKS_MAX = 16;
  private static final Unsafe U = Raw.U;

  private final TableBudget.Room room;
  private volatile double[] table = {};
  private int count;
  // Null while nothing is written.
  private DistinctDoubles codes;
  private SeenBefore seen;

  RepeatedDoubles(TableBudget.Room room) {
    this.room = room;
  }

  /** Appends the codes of a small array that has some; returns false if a value has none. */
  boolean write(double[] values, ByteSink sink) {
    if (codes == null && !beginWriting() || !seen.isWorthLooking()) return false;
    long start = sink.position();
    long at = sink.reserve((long) CODE_BYTES * values.length);
    int misses = 0;
    // Some more are noted after the first miss: they may come again.
    for (int i = 0; i < values.length && misses < LOOKS_MAX; i++, at += CODE_BYTES) {
      long bits = Double.doubleToRawLongBits(values[i]);
      int code = codes.find(bits);
      if (code < 0 && seen.add(bits)) code = add(bits);
      if (code < 0) misses++;
      U.putShort(at, (short) code);
    }
    if (misses == 0) {
      seen.found(Math.min(values.length, LOOKS_MAX));
      return true;
    }
    seen.missed(misses);
    sink.truncate(start);
    return false;
  }

  private boolean beginWriting() {
    if (!room.isOpen()) return false;
    codes = new DistinctDoubles();
    seen = new SeenBefore();
    for (int i = 0; i < count; i++) codes.add(Double.doubleToRawLongBits(table[i]));
    return true;
  }

  private int add(long bits) {
    if (codes.isFull() || !room.take(Double.BYTES)) return -1;
    double[] values = table;
    if (count == values.length) values = Arrays.copyOf(values, Math.max(16, 2 * count));
    values[count] = Double.longBitsToDouble(bits);
    table = values;
    count++;
    return codes.add(bits);
  }

  /** An array of so many values whose codes come next. */
  double[] read(int length, ByteSource source) {
    if (length >= DoubleArrays.VALUES_MIN) throw source.damaged("codes of " + length + " doubles");
    long at = source.take((long) CODE_BYTES * length);
    double[] known = table;
    double[] values = source.doubles(length);
    for (int i = 0; i < length; i++, at += CODE_BYTES) {
      int code = U.getShort(at) & 0xFFFF;
      if (code >= known.length) {
        throw source.damaged("double " + code + " is none of this partition's");
      }
      values[i] = known[code];
    }
    return values;
  }

  /** Gives up what only writing needs. */
  void release() {
    codes = null;
    seen = null;
    table = Arrays.copyOf(table, count);
  }
}
