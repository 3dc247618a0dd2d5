package io.warmset.rdd;

/**
 * The arrays of the elements that were read last, for the next ones: arrays that are written again
 * and again stay in the processor's cache, and are never collected.
 *
 * <p>Invariant: no array is given out twice between two calls of {@link #startAgain}. Whoever calls
 * that has made sure that nobody looks at an element any more that was read before.
 */
public final class SpareArrays {
  /** Whoever takes more has new ones beyond these. */
  private static final int KEPT_MAX = 128;

  private final double[][] keptDoubles = new double[KEPT_MAX][];
  private final int[][] keptInts = new int[KEPT_MAX][];
  private int nextDoubles;
  private int nextInts;

  /** From now on all arrays are given out again. */
  public void startAgain() {
    nextDoubles = 0;
    nextInts = 0;
  }

  /** An array of that length, with anything in it. */
  double[] doubles(int length) {
    if (nextDoubles == KEPT_MAX) return new double[length];
    double[] array = keptDoubles[nextDoubles];
    if (array == null || array.length != length) {
      array = new double[length];
      keptDoubles[nextDoubles] = array;
    }
    nextDoubles++;
    return array;
  }

  /** An array of that length, with anything in it. */
  int[] ints(int length) {
    if (nextInts == KEPT_MAX) return new int[length];
    int[] array = keptInts[nextInts];
    if (array == null || array.length != length) {
      array = new int[length];
      keptInts[nextInts] = array;
    }
    nextInts++;
    return array;
  }
}
