package io.warmset.columns;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Least and greatest string of a batch in the order of its collation, as Spark's statistics have them. In the binary
 * order a value is first compared by its leading 8 bytes, which settles nearly all.
 */
final class BytesBounds {
  private static final int BINARY_COLLATION = 0;

  private final int collation;
  private boolean any;
  private long min;
  private int minLength;
  private long minKey;
  private long max;
  private int maxLength;
  private long maxKey;
  private UTF8String lower;
  private UTF8String upper;

  BytesBounds(int collation) {
    this.collation = collation;
  }

  void reset() {
    any = false;
    lower = null;
    upper = null;
  }

  /** Takes the value at an address with at least 7 readable bytes behind it; it must stay until the bounds are taken. */
  void note(long address, int length) {
    if (collation != BINARY_COLLATION) {
      noteCollated(UTF8String.fromAddress(null, address, length));
      return;
    }
    long key = key(address, length);
    if (!any) {
      any = true;
      setMin(address, length, key);
      setMax(address, length, key);
      return;
    }
    if (Long.compareUnsigned(key, minKey) <= 0 && (key != minKey || compare(address, length, min, minLength) < 0)) {
      setMin(address, length, key);
    }
    if (Long.compareUnsigned(key, maxKey) >= 0 && (key != maxKey || compare(address, length, max, maxLength) > 0)) {
      setMax(address, length, key);
    }
  }

  private void noteCollated(UTF8String value) {
    if (upper == null || value.semanticCompare(upper, collation) > 0) upper = value;
    if (lower == null || value.semanticCompare(lower, collation) < 0) lower = value;
  }

  private void setMin(long address, int length, long key) {
    min = address;
    minLength = length;
    minKey = key;
  }

  private void setMax(long address, int length, long key) {
    max = address;
    maxLength = length;
    maxKey = key;
  }

  /** The leading 8 bytes as a number that compares, unsigned, as the bytes do; short values are padded with zeroes. */
  private static long key(long address, int length) {
    return Long.reverseBytes(Platform.getLong(null, address) & Layout.mask(Math.min(length, 8)));
  }

  private static int compare(long a, int lengthA, long b, int lengthB) {
    return UTF8String.fromAddress(null, a, lengthA).binaryCompare(UTF8String.fromAddress(null, b, lengthB));
  }

  /** A copy on the heap of the least value, null when there was none. */
  UTF8String lower() {
    if (collation == BINARY_COLLATION) return any ? UTF8String.fromAddress(null, min, minLength).copy() : null;
    return lower == null ? null : lower.copy();
  }

  /** A copy on the heap of the greatest value, null when there was none. */
  UTF8String upper() {
    if (collation == BINARY_COLLATION) return any ? UTF8String.fromAddress(null, max, maxLength).copy() : null;
    return upper == null ? null : upper.copy();
  }
}
