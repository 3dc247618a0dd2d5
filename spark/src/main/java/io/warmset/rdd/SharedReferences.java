package io.warmset.rdd;

import java.util.Arrays;

/**
 * The objects one element has led to so far, by identity.
 *
 * <p>Most elements have a handful: a short list is scanned; only a longer one becomes a hash table.
 */
final class SharedReferences {
  private static final int SCANNED_MAX = 16;
  private static final int TABLE_KEPT_MAX = 1 << 16;
  private static final int SPARSE = 16;

  private final Object[] list = new Object[SCANNED_MAX];
  private int count;
  private Object[] table;
  private boolean tableInUse;

  /** False if the object has been met before. */
  boolean add(Object object) {
    if (count >= SCANNED_MAX) return addToTable(object);
    for (int i = 0; i < count; i++) {
      if (list[i] == object) return false;
    }
    list[count++] = object;
    return true;
  }

  private boolean addToTable(Object object) {
    if (!tableInUse) {
      tableInUse = true;
      if (table == null) table = new Object[8 * SCANNED_MAX];
      for (Object earlier : list) put(earlier);
    }
    if (2 * count >= table.length) {
      Object[] full = table;
      table = new Object[2 * full.length];
      for (Object earlier : full) {
        if (earlier != null) put(earlier);
      }
    }
    if (!put(object)) return false;
    count++;
    return true;
  }

  private boolean put(Object object) {
    int mask = table.length - 1;
    int at = System.identityHashCode(object) & mask;
    while (table[at] != null) {
      if (table[at] == object) return false;
      at = at + 1 & mask;
    }
    table[at] = object;
    return true;
  }

  /** There are no more elements: as when it was new. */
  void release() {
    clear();
    table = null;
  }

  /** The next element begins; nothing of the last one is held. */
  void clear() {
    Arrays.fill(list, 0, Math.min(count, SCANNED_MAX), null);
    if (tableInUse) {
      // Kept only where it costs no more to clear than it cost to fill.
      if (table.length > TABLE_KEPT_MAX || table.length > SPARSE * count) table = null;
      else Arrays.fill(table, null);
    }
    tableInUse = false;
    count = 0;
  }
}
