package io.warmset.region;

import java.io.IOException;
import java.lang.ref.Cleaner;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * A region shared by several owners of one process: the batches whose columns lie in it and the
 * tasks that read them.
 *
 * <p>Invariant: the native region lives while any reference is held, and is released exactly once,
 * when the last one goes; a region whose owners all became unreachable without releasing it is
 * released by a cleaner. {@link #retain} never revives a released region. It knows nothing of what
 * the segments hold, and does not count pins: the native side does.
 */
public class Region {
  private static final Cleaner CLEANER = Cleaner.create();

  private final Store store;
  private final long id;
  private final AtomicInteger references = new AtomicInteger(1);
  private final Cleaner.Cleanable releaser;

  Region(Store store, long id) {
    this.store = store;
    this.id = id;
    this.releaser = CLEANER.register(this, new Releaser(store, id));
  }

  public long id() {
    return id;
  }

  /** Takes a reference; false if the region has been released already. */
  public boolean retain() {
    int seen = references.get();
    while (seen > 0) {
      if (references.compareAndSet(seen, seen + 1)) {
        return true;
      }
      seen = references.get();
    }
    return false;
  }

  /** Gives one reference back. O(1), never throws. */
  public void release() {
    if (references.decrementAndGet() == 0) {
      releaser.clean();
    }
  }

  public boolean isReleased() {
    return references.get() <= 0;
  }

  /**
   * Makes a segment to write to.
   *
   * @param bytes its least size
   * @param address receives the address of its first byte in element 0; valid until {@link #seal}
   * @return the segment's index in this region
   * @throws NoSpaceException when neither the pool nor the disk has room; the region stays usable
   */
  public long reserve(long bytes, long[] address) throws IOException {
    return NativeStore.reserve(store.handle(), id, bytes, address);
  }

  /** Ends writing: the segment's first {@code usedBytes} bytes are now immutable. */
  public void seal(long segment, long usedBytes) throws IOException {
    NativeStore.seal(store.handle(), id, segment, usedBytes);
  }

  /** Starts to bring a segment in; never waits. See {@link NativeStore#pinStart}. */
  public int pinStart(long segment) throws IOException {
    return NativeStore.pinStart(store.handle(), id, segment);
  }

  /** Waits for a started pin and returns the address, valid until {@link #unpin}. */
  public long pinWait(long segment) throws IOException {
    return NativeStore.pinWait(store.handle(), id, segment);
  }

  /** Pins a segment and returns its address, valid until {@link #unpin}. */
  public long pin(long segment) throws IOException {
    return NativeStore.pin(store.handle(), id, segment);
  }

  /** Gives one pin back; ignored once the store is closed. */
  public void unpin(long segment) {
    store.unpin(id, segment);
  }

  /** Must not refer to the Region, or it would never become unreachable. */
  private static final class Releaser implements Runnable {
    private final Store store;
    private final long id;
    private final AtomicBoolean done = new AtomicBoolean();

    Releaser(Store store, long id) {
      this.store = store;
      this.id = id;
    }

    @Override
    public void run() {
      if (done.compareAndSet(false, true)) {
        store.release(id);
      }
    }
  }
}
