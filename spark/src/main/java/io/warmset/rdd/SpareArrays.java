package io.warmset.rdd;

/**
 * The arrays of the element that was read last, for the next one: a large array that is written
 * again and again stays in the processor's cache, and is never collected.
 *
 * <p>Invariant: no array is given out twice for one element. Whoever reads so has made sure that
 * nobody looks at an element any more when the next one is read.
 */
public final class SpareArrays {
  /** Elements with more arrays have new ones beyond these. */
  private static final int KEPT_MAX = 8;

  private final double[][] kept = new double[KEPT_MAX][];
  private int next;

  void startElement() {
    next = 0;
  }

  /** An array of that length, with anything in it. */
  double[] doubles(int length) {
    if (next == KEPT_MAX) return new double[length];
    double[] array = kept[next];
    if (array == null || array.length != length) {
      array = new double[length];
      kept[next] = array;
    }
    next++;
    return array;
  }
}
