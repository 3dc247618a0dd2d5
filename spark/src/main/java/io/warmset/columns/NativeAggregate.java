package io.warmset.columns;

/**
 * A filter and a partial aggregate over the batches of one partition, in native code.
 *
 * <p>Invariant: addresses are looked at during {@link #add} only. Handles are numbers that the native side checks: a
 * wrong or stale one gives an {@link IllegalArgumentException}. Nothing here loads the library.
 */
public final class NativeAggregate {
  /** What {@link #add} returns for a batch that it added. */
  public static final int ADDED = 0;
  /** The same where the groups take so much memory, or are so many to their rows, that they should be given out. */
  public static final int FULL = 1;
  /**
   * What {@link #add} returns for a batch with whose first rows a value or a sum would leave its type; it added nothing of it.
   * Where it added rows before these, so many less.
   */
  public static final int REFUSED = -1;
  /** Numbers per column in the description of a batch. */
  public static final int WORDS = 13;

  static final int OPAQUE = 0;
  static final int PACKED = 1;
  static final int WIDE = 2;
  static final int DOUBLES = 3;
  static final int CONSTANT_DOUBLE = 4;
  static final int DOUBLE_CODES = 5;
  static final int SCALED_DOUBLES = 6;
  static final int TEXT = 7;

  // Where in a column's words each number stands.
  static final int FORM = 0;
  /** 0: no row is null; 1: all are; 2: those whose bit at VALIDITY is 0. */
  static final int NULLS = 1;
  static final int VALIDITY = 2;
  /** Bytes per row of what lies at DATA: values, or codes. */
  static final int WIDTH = 3;
  /** 4 or 8: where sums of whole numbers wrap; of text, whether it has codes. */
  static final int WORD = 4;
  /** What is added to numbers or offsets; of a constant double, its bits. */
  static final int BASE = 5;
  static final int DATA = 6;
  /** Distinct values; of scaled doubles, the bits of the divisor. */
  static final int COUNT = 7;
  static final int OFFSET_WIDTH = 8;
  /** Offsets of text, or distinct doubles. */
  static final int ENTRIES = 9;
  static final int SLOPE = 10;
  static final int BYTES = 11;
  static final int LENGTH = 12;

  private NativeAggregate() {}

  /**
   * Makes one that has seen nothing.
   *
   * @param planJson the plan, in the form of `warmset_kernels::Plan`
   * @return its handle, greater than 0
   */
  public static native long open(String planJson);

  /**
   * Adds the rows of one batch.
   *
   * @param columns {@link WarmVector#describe} of each column of the plan
   * @return {@link #ADDED}, {@link #FULL}, or {@link #REFUSED} less the rows that were added
   */
  public static native int add(long handle, int rows, long[] columns);

  /** The groups that it has. */
  public static native long groups(long handle);

  /**
   * The least and the greatest value of a key of whole numbers among its groups, for each of the ranges that begin with these numbers,
   * one behind the other; the first is above the second where there is none. The numbers themselves do not count.
   *
   * @param begins ascending; what is below the first counts to it
   */
  public static native long[] keyRanges(long handle, int key, long[] begins);

  /**
   * Gives out groups in pieces, rows in the format of UnsafeRow, each behind its length in 8 bytes; an empty one after the last, with
   * which they are forgotten. All are to be taken before the next batch.
   */
  public static native byte[] take(long handle);

  /** Ends one. Unknown handles are ignored. */
  public static native void close(long handle);
}
