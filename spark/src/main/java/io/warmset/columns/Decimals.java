package io.warmset.columns;

/**
 * Doubles that are whole numbers over a power of ten, and those whole numbers.
 *
 * <p>Invariant: a value that {@link #isExact} is, bit for bit, the quotient of {@link #whole} and the divisor.
 */
public final class Decimals {
  /** Divisors by their power. The quotient of two doubles that are whole numbers is the double nearest the decimal. */
  public static final double[] DIVISORS = {1.0, 10.0, 100.0, 1000.0, 10000.0};

  /** Whole numbers up to here, and a little beyond, are exact in a double. */
  public static final double WHOLE_MAX = 1e15;
  /** Bytes of the widest whole number less a base: it must stay below 2^52. */
  public static final int WIDTH_MAX = 6;
  /** The bits of 2^52: a whole number below it put in the low bits gives the double 2^52 + that number. */
  public static final long WHOLE_BITS = Double.doubleToRawLongBits(0x1p52);

  /**
   * Adding this leaves a number below 2^51 rounded to a whole one in the low bits of the sum, and two instructions take it
   * out again as a double or as a long. Conversions between the two would do the same, but the instruction that C2 uses
   * for them (cvtsi2sd) waits for the result of the one before: ten times slower.
   */
  private static final double ROUNDING = 0x1.8p52;
  private static final long ROUNDING_BITS = Double.doubleToRawLongBits(ROUNDING);

  private Decimals() {}

  /** The whole number nearest value * divisor, which is at most WHOLE_MAX. */
  public static long whole(double value, double divisor) {
    return Double.doubleToRawLongBits(value * divisor + ROUNDING) - ROUNDING_BITS;
  }

  /** The same as a double, for a value of any size. Beyond WHOLE_MAX it says only that. */
  public static double wholeDouble(double value, double divisor) {
    return value * divisor + ROUNDING - ROUNDING;
  }

  /** Whether the double with these bits, value * divisor being at most WHOLE_MAX, comes back from its whole number. */
  public static boolean isExact(long bits, double divisor) {
    // A negative zero comes back as zero, here as at the reader, and is refused.
    double whole = wholeDouble(Double.longBitsToDouble(bits), divisor);
    return Double.doubleToRawLongBits(whole / divisor) == bits;
  }
}
