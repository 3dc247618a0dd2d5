package io.warmset.region;

import java.io.IOException;

/**
 * The region store of this process: a handle on the native store, and the maker of regions.
 *
 * <p>Invariant: the handle is never passed to the native side after {@link #close}, except to give
 * pins back, and by calls that were already under way, which the native side answers with an exception or ignores. Closing
 * twice is harmless. It holds no lock while it is in native code, and owns no region: whoever made
 * one releases it.
 */
public final class Store implements AutoCloseable {
  private final long handle;
  private volatile boolean open = true;

  private Store(long handle) {
    this.handle = handle;
  }

  /**
   * Opens a store; {@link NativeLibrary#load} must have succeeded.
   *
   * @param configJson the configuration, in the form {@link NativeStore#open} takes
   * @throws IOException with a message that names the directory or setting that is wrong
   */
  public static Store open(String configJson) throws IOException {
    return new Store(NativeStore.open(configJson));
  }

  public boolean isOpen() {
    return open;
  }

  /** Makes an empty region with one reference, held by the caller. */
  public Region newRegion() throws IOException {
    return new Region(this, NativeStore.createRegion(handle()));
  }

  /** Statistics as JSON, as {@link NativeStore#stats} gives them. */
  public String stats() throws IOException {
    return NativeStore.stats(handle());
  }

  /** The regions as a JSON array. */
  public String regions() throws IOException {
    return NativeStore.regions(handle());
  }

  /** The regions that nobody uses now, the least recently used first. */
  public long[] coldestRegions() throws IOException {
    return NativeStore.coldestRegions(handle());
  }

  /** Says that a region was released to make room. */
  public void countEviction() throws IOException {
    NativeStore.countEvictions(handle(), 1);
  }

  /** Changes the memory budget; a smaller one demotes segments in the background. */
  public void setBudget(long bytes) throws IOException {
    NativeStore.setBudget(handle(), bytes);
  }

  /** Memory that the pool has taken from the system, in bytes. */
  public long poolBytes() throws IOException {
    return NativeStore.poolBytes(handle());
  }

  /** One tick of a controller of this store's budget: see {@link NativeStore#splitTick}. */
  public void splitTick(long split, long[] heap, long[] out) throws IOException {
    NativeStore.splitTick(split, handle(), heap, out);
  }

  @Override
  public synchronized void close() {
    if (open) {
      open = false;
      NativeStore.close(handle);
    }
  }

  long handle() throws IOException {
    if (!open) {
      throw new IOException("the Warmset store of this process is closed");
    }
    return handle;
  }

  void release(long region) {
    if (open) {
      NativeStore.release(handle, region);
    }
  }

  /** Gives a pin back; to a closed store, too, whose memory comes back with its last pin. */
  void unpin(long region, long segment) {
    try {
      NativeStore.unpin(handle, region, segment);
    } catch (IllegalArgumentException closedMeanwhile) {
      if (open) {
        throw closedMeanwhile;
      }
    }
  }
}
