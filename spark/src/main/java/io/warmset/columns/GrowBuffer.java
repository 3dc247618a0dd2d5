package io.warmset.columns;

import org.apache.spark.unsafe.Platform;

/**
 * Working memory of an encoder: off-heap, grows by doubling, kept between batches, freed by {@link #close}. Always
 * has {@link #SLACK} readable and writable bytes behind its capacity, so that whole words may be copied past the
 * last byte.
 */
final class GrowBuffer {
  static final int SLACK = 16;
  private static final long BYTES_MIN = 1024;
  private static final long BYTES_KEPT_MAX = 8 << 20;

  private long address;
  private long capacity;

  /** Where the buffer lies now; changes when it grows. */
  long address() {
    return address;
  }

  /** Makes room for `bytes` bytes in all, keeping the first `used`. */
  void ensure(long bytes, long used) {
    if (bytes > capacity) grow(bytes, used);
  }

  private void grow(long bytes, long used) {
    long wanted = Math.max(BYTES_MIN, Math.max(bytes, capacity * 2));
    // Not reallocateMemory, which copies the whole of the old block.
    long grown = Platform.allocateMemory(wanted + SLACK);
    if (address != 0) {
      Platform.copyMemory(null, address, null, grown, used);
      Platform.freeMemory(address);
    }
    address = grown;
    capacity = wanted;
  }

  /** What it holds is not wanted any more; memory that an unusually large batch needed is given back. */
  void recycle() {
    if (capacity > BYTES_KEPT_MAX) close();
  }

  void close() {
    if (address != 0) Platform.freeMemory(address);
    address = 0;
    capacity = 0;
  }
}
