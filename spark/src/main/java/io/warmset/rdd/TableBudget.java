package io.warmset.rdd;

import java.util.concurrent.atomic.AtomicLong;

/**
 * How much of the heap the tables of repeated values of all partitions may take. Each partition
 * takes from it; what its handles are charged for they give back when they are closed.
 */
public final class TableBudget {
  private final long bytesMax;
  private final AtomicLong heldBytes = new AtomicLong();

  public TableBudget(long bytesMax) {
    this.bytesMax = bytesMax;
  }

  boolean take(long bytes) {
    if (heldBytes.addAndGet(bytes) <= bytesMax) return true;
    heldBytes.addAndGet(-bytes);
    return false;
  }

  public void giveBack(long bytes) {
    heldBytes.addAndGet(-bytes);
  }

  public long heldBytes() {
    return heldBytes.get();
  }
}
