package io.warmset.rdd;

import java.util.concurrent.atomic.AtomicLong;

import org.apache.spark.unsafe.Platform;

/**
 * Native memory that grows; bytes are appended. One thread writes to it.
 *
 * <p>Invariant: an address it gave out is valid until the next {@link #reserve}, {@link #reset} or
 * {@link #close}; bytes below {@link #position} move with it and keep their values.
 */
public final class ByteSink implements AutoCloseable {
  private static final long BYTES_MIN = 64;
  private static final AtomicLong ALLOCATED_BYTES = new AtomicLong();

  private long address;
  private long capacity;
  private long position;
  private DoubleNarrower narrower;

  public ByteSink(long initialBytes) {
    capacity = Math.max(BYTES_MIN, initialBytes);
    address = Platform.allocateMemory(capacity);
    ALLOCATED_BYTES.addAndGet(capacity);
  }

  /** Bytes that all sinks of this process hold now. */
  public static long allocatedBytes() {
    return ALLOCATED_BYTES.get();
  }

  /** Makes room, returns the address of the next `bytes` bytes and counts them as written. */
  public long reserve(long bytes) {
    long start = position;
    if (bytes > capacity - start || bytes < 0) grow(bytes);
    position = start + bytes;
    return address + start;
  }

  private void grow(long bytes) {
    if (bytes < 0) throw new IllegalArgumentException("cannot reserve " + bytes + " bytes");
    if (address == 0) throw new IllegalStateException("the sink is closed");
    long wanted = Math.max(position + bytes, capacity * 2);
    // Not reallocateMemory, which copies what lies behind the position too.
    long grown = Platform.allocateMemory(wanted);
    Platform.copyMemory(null, address, null, grown, position);
    Platform.freeMemory(address);
    ALLOCATED_BYTES.addAndGet(wanted - capacity);
    address = grown;
    capacity = wanted;
  }

  /** The workspace of those who write arrays of doubles: it lasts as long as the writing. */
  DoubleNarrower narrower() {
    if (narrower == null) narrower = new DoubleNarrower();
    return narrower;
  }

  /** Bytes appended so far. */
  public long position() {
    return position;
  }

  /** Forgets what was appended from `to` on. */
  public void truncate(long to) {
    if (to < 0 || to > position) {
      throw new IllegalArgumentException("cannot go from " + position + " back to " + to);
    }
    position = to;
  }

  /** Of byte 0; valid until the next {@link #reserve}. */
  public long address() {
    return address;
  }

  /** Forgets everything appended and keeps the memory. */
  public void reset() {
    position = 0;
  }

  @Override
  public void close() {
    if (address != 0) Platform.freeMemory(address);
    ALLOCATED_BYTES.addAndGet(-capacity);
    address = 0;
    capacity = 0;
    position = 0;
    narrower = null;
  }
}
