package io.warmset.columns;

/**
 * Rows of one batch, by number and ascending: those that have passed the predicates so far.
 *
 * <p>Invariant: a predicate only takes rows out, and only rows for which it is not true. Whoever reads the rest
 * evaluates the predicate again, so keeping too many is slow and never wrong. Not thread-safe.
 */
public final class Selection {
  private int[] ascending = new int[0];
  private int[] rows = new int[0];
  private int count;

  /** All of a batch's `rows` rows. */
  public void reset(int rows) {
    if (ascending.length < rows) {
      ascending = new int[rows];
      for (int i = 0; i < rows; i++) ascending[i] = i;
      this.rows = new int[rows];
    }
    System.arraycopy(ascending, 0, this.rows, 0, rows);
    count = rows;
  }

  /** How many rows are left. */
  public int count() {
    return count;
  }

  /** The number of the row at `index`, which is below {@link #count}. */
  public int row(int index) {
    return rows[index];
  }

  /** The row numbers; those from {@link #count} on mean nothing. Predicates write the kept ones to the front. */
  int[] rows() {
    return rows;
  }

  /** Only the first `kept` rows stay. */
  void truncate(int kept) {
    count = kept;
  }
}
