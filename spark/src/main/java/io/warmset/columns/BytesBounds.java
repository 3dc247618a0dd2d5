package io.warmset.columns;

import java.util.Arrays;

import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Bounds of a batch's strings in Spark's binary order, short enough to stay on the heap. A value is first compared by
 * its leading 8 bytes, which settles nearly all.
 *
 * <p>Invariant: lower &lt;= every value &lt;= upper. Bounds are exact up to {@link #PREFIX_MAX} bytes; beyond, the lower
 * one is cut and the upper one is cut and raised. A bound ends with a whole character as Spark counts them, also where
 * values are not UTF-8: Spark prunes "starts with" by the first characters of the bounds, and would read behind a
 * character that is cut.
 */
final class BytesBounds {
  private static final int PREFIX_MAX = 64;

  private boolean any;
  private long min;
  private int minLength;
  private long minKey;
  private long max;
  private int maxLength;
  private long maxKey;

  void reset() {
    any = false;
  }

  /** Takes the value at an address with at least 7 readable bytes behind it; it must stay until the bounds are taken. */
  void note(long address, int length) {
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

  /** A value on the heap that is not above the least one, null when there was none. */
  UTF8String lower() {
    return any ? UTF8String.fromBytes(copy(min, wholeCharacters(min, minLength))) : null;
  }

  /** A value on the heap that is not below the greatest one, null when there was none. */
  UTF8String upper() {
    if (!any) return null;
    int end = wholeCharacters(max, maxLength);
    if (end == maxLength) return UTF8String.fromBytes(copy(max, end));
    int raised = end - 1;
    while (raised >= 0 && isGreatest(raised)) raised--;
    if (raised < 0) {
      raised = end;
      while (raised < maxLength && isGreatest(raised)) raised++;
      // Nothing but the greatest byte: only the value itself bounds it.
      if (raised == maxLength) return UTF8String.fromBytes(copy(max, maxLength));
    }
    byte[] bound = copy(max, raised + 1);
    bound[raised]++;
    return UTF8String.fromBytes(completed(bound));
  }

  private boolean isGreatest(int at) {
    return Platform.getByte(null, max + at) == (byte) 0xFF;
  }

  /** Where the last character ends that is whole and within the first {@link #PREFIX_MAX} bytes. */
  private static int wholeCharacters(long address, int length) {
    int most = Math.min(length, PREFIX_MAX);
    int end = 0;
    while (end < most) {
      int next = end + UTF8String.numBytesForFirstByte(Platform.getByte(null, address + end));
      if (next > most) break;
      end = next;
    }
    return end;
  }

  /** Makes the last character whole; what is behind a raised byte only raises the bound more. */
  private static byte[] completed(byte[] bound) {
    int end = 0;
    while (end < bound.length) end += UTF8String.numBytesForFirstByte(bound[end]);
    byte[] whole = Arrays.copyOf(bound, end);
    Arrays.fill(whole, bound.length, end, (byte) 0xFF);
    return whole;
  }

  private static byte[] copy(long address, int length) {
    byte[] bytes = new byte[length];
    Platform.copyMemory(null, address, bytes, Platform.BYTE_ARRAY_OFFSET, length);
    return bytes;
  }
}
