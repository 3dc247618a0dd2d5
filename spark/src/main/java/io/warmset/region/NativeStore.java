package io.warmset.region;

import java.io.IOException;

/**
 * The native region store, call by call.
 *
 * <p>Stores, regions and segments are named by numbers that the native side checks: a wrong or stale one gives an
 * {@link IllegalArgumentException} (or {@link IOException} where declared), never a crash. Addresses are valid for
 * reading while a pin is counted, for writing between {@link #reserve} and {@link #seal}. Nothing here loads the
 * library: see {@code NativeLibrary}.
 */
public final class NativeStore {
  /** The segment is there. */
  public static final int READY = 0;
  /** The segment is on its way; {@link #pinWait} waits for it. */
  public static final int PENDING = 1;
  /** There is no room for the segment now; no pin was taken. */
  public static final int NO_ROOM = 2;

  private NativeStore() {}

  /** The most memory that this process can use, in bytes: the machine's, or the tightest limit on it. */
  public static native long memoryLimit();

  /**
   * How many bytes less than {@link #memoryLimit} this process can have, because others in a limited cgroup hold
   * memory that the kernel cannot take back; 0 where no cgroup has a limit.
   *
   * @param ownBytes what this process holds of such memory
   */
  public static native long memoryBeside(long ownBytes);

  /** Gives what the C library keeps of freed memory back to the kernel; it may take some milliseconds. */
  public static native void trimHeap();

  /**
   * Opens a store.
   *
   * @param configJson {@code {"dir","budget_bytes","budget_bytes_max","flash_bytes_max","flash_reserve_bytes",
   *     "huge_pages":"auto|on|off|hugetlb","io":"auto|io_uring|threads","names":{}}};
   *     only the first two are required. {@code names} says what errors call the other keys.
   * @return the store's handle, greater than 0
   * @throws IOException naming the setting that cannot work here
   */
  public static native long open(String configJson) throws IOException;

  /** Closes a store: releases all regions, waits for transfers in flight. Unknown handles are ignored. */
  public static native void close(long store);

  /** Makes an empty region; its id is greater than 0 and never used again. */
  public static native long createRegion(long store);

  /**
   * Adds an unsealed segment to a region.
   *
   * @param bytes its size, greater than 0
   * @param out {@code out[0]} becomes the address to write to
   * @return the segment's index
   * @throws NoSpaceException if others would have to go to disk and it is full
   * @throws IOException if others cannot be written to disk, or the pool is smaller than {@code bytes}
   */
  public static native long reserve(long store, long region, long bytes, long[] out) throws IOException;

  /**
   * Makes the first {@code usedBytes} of a segment immutable and readable.
   *
   * @throws NoSpaceException if the segment had to go to disk at once and it is full; this segment is lost then
   * @throws IOException if the segment had to go to disk at once and could not
   */
  public static native void seal(long store, long region, long segment, long usedBytes) throws IOException;

  /**
   * Takes a pin and starts bringing the segment in; never waits for I/O.
   *
   * @return {@link #READY}, {@link #PENDING} or {@link #NO_ROOM}
   */
  public static native int pinStart(long store, long region, long segment);

  /**
   * Waits for a segment on which {@link #pinStart} gave a pin.
   *
   * @return its address
   * @throws IOException if it cannot be read; the pin is dropped then
   */
  public static native long pinWait(long store, long region, long segment) throws IOException;

  /**
   * Takes a pin and waits for the segment.
   *
   * @return its address
   * @throws NoSpaceException if too much is pinned to show this one now; it is whole, and no pin is left
   * @throws IOException if it cannot be read; no pin is left then
   */
  public static native long pin(long store, long region, long segment) throws IOException;

  /** Gives a pin back. */
  public static native void unpin(long store, long region, long segment);

  /** Ends a region: constant time, idempotent, never throws, unknown ids are ignored. */
  public static native void release(long store, long region);

  /** Changes the budget; demotion down to a smaller one goes on in the background. */
  public static native void setBudget(long store, long bytes);

  /** Memory that the pool has taken from the system, in bytes: what {@link #stats} says too, at next to no cost. */
  public static native long poolBytes(long store);

  /**
   * The regions that could be released to make room: those that nobody reads or writes now, by their last use, the
   * earliest first. What was never read was last used when it was written.
   */
  public static native long[] coldestRegions(long store);

  /** Counts regions that were released to make room, for {@code evictions_total}. */
  public static native void countEvictions(long store, long regions);

  /**
   * Makes a controller that splits one budget between the Java heap and a store's pool.
   *
   * @param limits the heap's least and largest size, the pool's least size and its size at first, in bytes
   * @return its handle, greater than 0
   */
  public static native long splitOpen(long[] limits);

  /**
   * Reads the pool, decides, and sets the pool's budget; what the heap is to do is left to the caller.
   *
   * @param heap what was read of the heap: nanoseconds since the last tick (0 for a look between ticks, which has no
   *     rates), bytes that heap and pool may have together, committed bytes, bytes used after the last collection,
   *     nanoseconds in collections that nobody asked for, nanoseconds of one that was asked for, threads that may wait
   * @param out becomes: the pool's budget, what the heap may have, the size to which it should be collected now
   *     (Long.MAX_VALUE: no collection), moves of the split, turns among them, whether the heap gives nothing back (1 or
   *     0), bytes of the pool's memory, bytes that are in no frame, nanoseconds that readers waited since the last
   *     tick, millionths of all cached bytes that they read, the size to which the heap should be made to grow (0: none),
   *     bytes of cached objects that should leave the heap; a look has no waits and no reads, and its absent bytes are
   *     those of the last tick
   */
  public static native void splitTick(long split, long store, long[] heap, long[] out);

  /** Ends a controller; the pool keeps its budget. Unknown handles are ignored. */
  public static native void splitClose(long split);

  /**
   * What the stores of this process have warned of since the last call, a line each; null for nothing. Before the first call,
   * and after one that does not come again, warnings go to stderr.
   *
   * @param again whether the caller comes back for what is warned of from now on: the first 256 lines are kept until then,
   *     and the number of the others
   */
  public static native String takeWarnings(boolean again);

  /** Statistics of the store as a JSON object. */
  public static native String stats(long store);

  /** Statistics of its regions as a JSON array. */
  public static native String regions(long store);
}
