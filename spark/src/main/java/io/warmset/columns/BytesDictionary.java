package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/**
 * Finds the distinct values of a column of bytes and gives each row the number of its value, in order of first
 * appearance. After a batch in which that did not pay it waits a growing number of batches before it tries again,
 * so that columns of unique text cost next to nothing.
 */
final class BytesDictionary {
  private static final int BATCHES_SKIPPED_MAX = 32;
  private static final long MIX = 0x9E3779B97F4A7C15L;

  /** Slots of 8 bytes: high half of the hash, number of the entry + 1; 0 = free. */
  private final GrowBuffer table = new GrowBuffer();
  /** Two bytes per row. */
  private final GrowBuffer codes = new GrowBuffer();
  /** Per entry the start of its value (8 bytes) and the end after concatenation of all entries (8 bytes). */
  private final GrowBuffer starts = new GrowBuffer();
  private final GrowBuffer ends = new GrowBuffer();
  private int slots;
  private int entries;
  private int toSkip;
  private int skipNext = 1;

  int entries() {
    return entries;
  }

  /** Concatenated ends of the entries, longs. */
  long ends() {
    return ends.address();
  }

  long codes() {
    return codes.address();
  }

  long start(int entry) {
    return Platform.getLong(null, starts.address() + 8L * entry);
  }

  int length(int entry) {
    long before = entry == 0 ? 0 : Platform.getLong(null, ends.address() + 8L * (entry - 1));
    return (int) (Platform.getLong(null, ends.address() + 8L * entry) - before);
  }

  /** Bytes of all entries together. */
  long length() {
    return entries == 0 ? 0 : Platform.getLong(null, ends.address() + 8L * (entries - 1));
  }

  /**
   * Builds codes for all rows of `column`. Returns false when a dictionary does not pay or is not tried this time;
   * its contents are then undefined.
   */
  boolean build(BytesEncoder column) {
    if (toSkip > 0) {
      toSkip--;
      return false;
    }
    if (!tryBuild(column)) {
      failed();
      return false;
    }
    return true;
  }

  /** The dictionary of this batch was of no use. */
  void failed() {
    toSkip = skipNext;
    skipNext = Math.min(skipNext * 2, BATCHES_SKIPPED_MAX);
  }

  /** The dictionary of this batch is used. */
  void succeeded() {
    skipNext = 1;
  }

  private boolean tryBuild(BytesEncoder column) {
    int rows = column.rows;
    entries = 0;
    clearTable(1024);
    codes.ensure(2L * rows, 0);
    long base = column.bytesAddress();
    long start = 0;
    int last = -1;
    long lastStart = 0;
    int lastLength = -1;
    for (int row = 0; row < rows; row++) {
      long end = column.end(row);
      int length = (int) (end - start);
      int code;
      if (!column.isPresent(row)) {
        code = 0;
      } else if (last >= 0 && length == lastLength && same(base + start, base + lastStart, length)) {
        code = last;
      } else {
        code = find(base, start, length);
        if (code < 0) return false;
        last = code;
        lastStart = start;
        lastLength = length;
      }
      Platform.putShort(null, codes.address() + 2L * row, (short) code);
      start = end;
    }
    return true;
  }

  /** The code of the value, added if it is new; -1 when there are too many. */
  private int find(long base, long start, int length) {
    long hash = hash(base + start, length);
    int slot = (int) hash & (slots - 1);
    long high = hash >>> 32 << 32;
    while (true) {
      long found = Platform.getLong(null, table.address() + 8L * slot);
      if (found == 0) break;
      if ((found & 0xFFFFFFFF00000000L) == high) {
        int entry = (int) found - 1;
        if (length(entry) == length && same(base + start, base + start(entry), length)) return entry;
      }
      slot = (slot + 1) & (slots - 1);
    }
    if (entries == Layout.DICTIONARY_ENTRIES_MAX) return -1;
    long before = length();
    starts.ensure(8L * (entries + 1), 8L * entries);
    ends.ensure(8L * (entries + 1), 8L * entries);
    Platform.putLong(null, starts.address() + 8L * entries, start);
    Platform.putLong(null, ends.address() + 8L * entries, before + length);
    Platform.putLong(null, table.address() + 8L * slot, high | (entries + 1));
    int code = entries++;
    if (entries * 2 > slots) rehash(base);
    return code;
  }

  private void clearTable(int slots) {
    this.slots = slots;
    table.ensure(8L * slots, 0);
    Platform.setMemory(table.address(), (byte) 0, 8L * slots);
  }

  private void rehash(long base) {
    clearTable(slots * 4);
    for (int entry = 0; entry < entries; entry++) {
      long hash = hash(base + start(entry), length(entry));
      int slot = (int) hash & (slots - 1);
      while (Platform.getLong(null, table.address() + 8L * slot) != 0) slot = (slot + 1) & (slots - 1);
      Platform.putLong(null, table.address() + 8L * slot, hash >>> 32 << 32 | (entry + 1));
    }
  }

  /** Reads whole words: up to 7 bytes behind the value, which the slack of the buffer allows. */
  private static long hash(long address, int length) {
    long hash = length * MIX;
    int at = 0;
    for (; at + 8 <= length; at += 8) hash = mix(hash ^ Platform.getLong(null, address + at));
    if (at < length) hash = mix(hash ^ Platform.getLong(null, address + at) & Layout.mask(length - at));
    return hash ^ hash >>> 29;
  }

  private static long mix(long value) {
    long mixed = value * MIX;
    return mixed ^ mixed >>> 32;
  }

  static boolean same(long a, long b, int length) {
    int at = 0;
    for (; at + 8 <= length; at += 8) {
      if (Platform.getLong(null, a + at) != Platform.getLong(null, b + at)) return false;
    }
    long rest = Platform.getLong(null, a + at) ^ Platform.getLong(null, b + at);
    return at == length || (rest & Layout.mask(length - at)) == 0;
  }

  void recycle() {
    table.recycle();
    codes.recycle();
    starts.recycle();
    ends.recycle();
  }

  void close() {
    table.close();
    codes.close();
    starts.close();
    ends.close();
  }
}
