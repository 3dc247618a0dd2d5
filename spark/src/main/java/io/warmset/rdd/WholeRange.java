package io.warmset.rdd;

import java.util.Arrays;

import io.warmset.columns.Decimals;

/**
 * The power of ten over which almost all doubles of an array are whole, and a range that holds
 * almost all of the whole numbers: a few far from the others (zeros for what is missing) must not
 * make all wider.
 */
final class WholeRange {
  /** One value of so many of the sample may lie below the range, and one above. */
  private static final int TRIMMED_SHARE = 4 * DoubleArrays.PATCH_SHARE;

  private double[] wholes = {};
  private int power;
  private double divisor;
  /** What may be in the range. */
  private double low;
  private double high;
  /** What is. */
  private double min;
  private double max;

  /** Finds the power, and a range that fits the first `count` values; false if there is none. */
  boolean estimate(double[] sample, int count) {
    if (wholes.length < count) wholes = new double[count];
    if (!find(sample, count, 0)) return false;
    int found = 0;
    for (int i = 0; i < count; i++) {
      if (isWhole(sample[i], divisor)) wholes[found++] = Decimals.wholeDouble(sample[i], divisor);
    }
    Arrays.sort(wholes, 0, found);
    int trimmed = found / TRIMMED_SHARE;
    min = wholes[trimmed];
    max = wholes[found - 1 - trimmed];
    if (width(wholes[0], wholes[found - 1]) == width(min, max)) {
      min = wholes[0];
      max = wholes[found - 1];
    }
    // Values that the sample has not seen find room on both sides.
    double room = Math.scalb(1.0, 8 * width()) - 1 - (max - min);
    low = min - Math.floor(room / 2);
    high = low + Math.scalb(1.0, 8 * width()) - 1;
    return width() <= Decimals.WIDTH_MAX;
  }

  /** Finds the range of all values, from what was estimated; false if too few of them fit one. */
  boolean measure(double[] values) {
    return measure(values, values.length)
        || find(values, values.length, power) && width() <= Decimals.WIDTH_MAX;
  }

  private boolean find(double[] values, int count, int first) {
    low = -Decimals.WHOLE_MAX;
    high = Decimals.WHOLE_MAX;
    for (power = first; power < Decimals.DIVISORS.length; power++) {
      if (measure(values, count)) return true;
    }
    return false;
  }

  private boolean measure(double[] values, int count) {
    divisor = Decimals.DIVISORS[power];
    int missed = 0;
    int missedMax = count / DoubleArrays.PATCH_SHARE;
    min = high;
    max = low;
    for (int i = 0; i < count && missed <= missedMax; i++) {
      double whole = Decimals.wholeDouble(values[i], divisor);
      if (whole >= low && whole <= high && isWhole(values[i], divisor)) {
        min = Math.min(min, whole);
        max = Math.max(max, whole);
      } else {
        missed++;
      }
    }
    return missed <= missedMax;
  }

  private static boolean isWhole(double value, double divisor) {
    // Not of a NaN or what is too large.
    return Math.abs(value) * divisor <= Decimals.WHOLE_MAX
        && Decimals.isExact(Double.doubleToRawLongBits(value), divisor);
  }

  /** Bytes of a word. */
  int width() {
    return width(min, max);
  }

  private static int width(double min, double max) {
    int bits = 64 - Long.numberOfLeadingZeros((long) max - (long) min);
    return Math.max(1, (bits + 7) / 8);
  }

  int power() {
    return power;
  }

  long base() {
    return (long) min;
  }

  /** The whole number less the base; -1 if the value is none of the range. */
  long word(double value) {
    long word = Decimals.whole(value, divisor) - (long) min;
    return word >= 0 && word <= (long) max - (long) min && isWhole(value, divisor) ? word : -1;
  }
}
