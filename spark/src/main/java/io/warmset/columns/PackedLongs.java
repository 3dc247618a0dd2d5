package io.warmset.columns;

import java.util.Arrays;

import org.apache.spark.unsafe.Platform;

/**
 * Predicates on values that are a base plus 0 to 8 unsigned bytes per row (see {@link Layout}), for the vectors that
 * keep them so. The rows of the selection are taken for present.
 */
final class PackedLongs {
  private PackedLongs() {}

  static long get(long data, int width, long mask, long base, int row) {
    return base + (Platform.getLong(null, data + (long) row * width) & mask);
  }

  /** Takes out rows outside `low` to `high`, both included. */
  static void keepRange(Selection selection, long data, int width, long mask, long base, long low, long high) {
    if (low > high) {
      selection.truncate(0);
      return;
    }
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += Long.compareUnsigned(get(data, width, mask, base, row) - low, high - low) <= 0 ? 1 : 0;
    }
    selection.truncate(kept);
  }

  /** Takes out rows with none of the values in `ascending`. */
  static void keepAnyOf(Selection selection, long data, int width, long mask, long base, long[] ascending) {
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += Arrays.binarySearch(ascending, get(data, width, mask, base, row)) >= 0 ? 1 : 0;
    }
    selection.truncate(kept);
  }
}
