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

  /**
   * How much of the heap one partition's tables of repeated values may take: a share of its bytes, as
   * long as the budget of all partitions has room.
   */
  static final class Room {
    /** One byte of tables for so many bytes of elements. */
    private static final int SHARE = 16;
    /** Partitions of fewer bytes have no tables. */
    private static final long APPENDED_BYTES_MIN = 1L << 16;

    private final TableBudget budget;
    private long appendedBytes;
    private long takenBytes;

    Room(TableBudget budget) {
      this.budget = budget;
    }

    /** An element of so many bytes is whole. */
    void appended(long bytes) {
      appendedBytes += bytes;
    }

    /** Whether it is worth beginning. */
    boolean isOpen() {
      return appendedBytes >= APPENDED_BYTES_MIN;
    }

    /** Whether there was room for so many more. */
    boolean take(long bytes) {
      if (takenBytes + bytes > appendedBytes / SHARE || !budget.take(bytes)) return false;
      takenBytes += bytes;
      return true;
    }

    /** All that it ever took. */
    long takenBytes() {
      return takenBytes;
    }
  }
}
