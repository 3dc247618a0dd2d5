package io.warmset.columns;

/**
 * A filter and a partial aggregate over the batches of one partition, in native code.
 *
 * <p>Invariant: addresses are looked at during {@link #add} only. Handles are numbers that the native side checks: a
 * wrong or stale one gives an {@link IllegalArgumentException}. Nothing here loads the library.
 */
public final class NativeAggregate {
  /** What {@link #add} returns for a batch in which a value or a sum might leave its type; it added nothing of it. */
  public static final long REFUSED = -1;
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
   * @return the number of groups so far, or {@link #REFUSED}
   */
  public static native long add(long handle, int rows, long[] columns);

  /** Gives out all groups, in the form of `warmset_kernels::Aggregator::take`, and forgets them. */
  public static native byte[] take(long handle);

  /** Ends one. Unknown handles are ignored. */
  public static native void close(long handle);
}
