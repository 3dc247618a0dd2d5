package io.warmset.rdd;

import java.util.Arrays;

import sun.misc.Unsafe;

/**
 * Writes arrays of doubles in fewer bytes, in the form of {@link DoubleArrays} that takes the
 * fewest; refuses those that no form makes smaller by a sixteenth. One thread uses it.
 *
 * <p>A sample decides which forms are tried, and soon that none is. The forms and what they suit:
 *
 * <ul>
 *   <li>Codes for the sign and exponent beside the mantissa, of which low bits are left out that
 *       are always zero: floats in 4 bytes; measurements of full precision in 7, for they have few
 *       exponents. The idea is ALP's for real doubles (Afroozeh, Kuffo, Boncz: ALP: Adaptive
 *       Lossless Floating-Point Compression, SIGMOD 2024).
 *   <li>Codes for whole values, if they are few.
 *   <li>Whole numbers over a power of ten, less the smallest: prices, counts.
 * </ul>
 *
 * <p>The first two are one form of bytes, TABLE.
 */
final class DoubleNarrower {
  private static final int SAMPLE_VALUES = 1024;
  /** The sample is of so many pieces of consecutive values, over the whole array. */
  private static final int PIECES = 16;
  private static final int GLANCE_VALUES = 64;
  /** Bits that a float has no room for. */
  private static final long BEYOND_FLOAT = (1L << 29) - 1;
  /** After so many refusals in a row, only one array of as many is looked at. */
  private static final int REFUSALS_MAX = 16;
  /** Looking at a larger array costs next to nothing. */
  private static final int LARGE_VALUES = 1 << 14;
  private static final long BASE = Unsafe.ARRAY_DOUBLE_BASE_OFFSET;
  private static final Unsafe U = Raw.U;

  private final double[] sample = new double[SAMPLE_VALUES];
  private final long[] glance = new long[64];
  private final TopCounts tops = new TopCounts();
  private final DistinctDoubles distinct = new DistinctDoubles();
  private final WholeRange range = new WholeRange();
  private int[] patchAt = new int[64];
  private int refusals;

  /** Appends the array in a form that is smaller than plain; returns false if there is none. */
  boolean write(double[] values, ByteSink sink) {
    if (refusals >= REFUSALS_MAX && values.length < LARGE_VALUES
        && ++refusals % REFUSALS_MAX != 0) {
      return false;
    }
    boolean written = isWorthSampling(values) && writeBest(values, sink);
    if (written) refusals = 0;
    else if (refusals < REFUSALS_MAX) refusals++;
    return written;
  }

  /** Whether a few values look as if they had something in common. */
  private boolean isWorthSampling(double[] values) {
    Arrays.fill(glance, 0);
    int step = values.length / GLANCE_VALUES;
    int strange = 0;
    for (int i = 0; i < GLANCE_VALUES; i++) {
      long bits = Double.doubleToRawLongBits(values[i * step]);
      int top = (int) (bits >>> TopCounts.MANTISSA_BITS);
      long seen = glance[top >>> 6];
      glance[top >>> 6] = seen | 1L << top;
      if ((seen >>> top & 1) == 0 && (bits & BEYOND_FLOAT) != 0) strange++;
    }
    return strange <= GLANCE_VALUES / 2;
  }

  private boolean writeBest(double[] values, ByteSink sink) {
    int count = takeSample(values);
    // Bytes that the words of the sample take.
    long split = tops.measure(sample, count) ? tops.wordBytes() : Long.MAX_VALUE;
    long scaled = range.estimate(sample, count) ? (long) count * range.width() : Long.MAX_VALUE;
    int few = count - count / 8;
    int entries = distinct.count(sample, count, few);
    long coded = entries <= few ? (entries <= 256 ? 1L : 2L) * count : Long.MAX_VALUE;
    for (;;) {
      long fewest = Math.min(split, Math.min(scaled, coded));
      if (fewest > limit(count)) return false;
      if (fewest == split) {
        if (writeSplit(values, sink)) return true;
        split = Long.MAX_VALUE;
      } else if (fewest == scaled) {
        if (writeScaled(values, sink)) return true;
        scaled = Long.MAX_VALUE;
      } else {
        if (writeCoded(values, sink)) return true;
        coded = Long.MAX_VALUE;
      }
    }
  }

  private int takeSample(double[] values) {
    if (values.length <= SAMPLE_VALUES) {
      System.arraycopy(values, 0, sample, 0, values.length);
      return values.length;
    }
    int piece = SAMPLE_VALUES / PIECES;
    for (int p = 0; p < PIECES; p++) {
      int from = (int) ((long) (values.length - piece) * p / (PIECES - 1));
      System.arraycopy(values, from, sample, p * piece, piece);
    }
    return SAMPLE_VALUES;
  }

  /** What `count` values may take, all in all. */
  private static long limit(int count) {
    return 8L * count - (count >>> 1);
  }

  // ---- signs and exponents

  private boolean writeSplit(double[] values, ByteSink sink) {
    if (!tops.measure(values, values.length)) return false;
    if (!fits(values.length, tops.width(), tops.codeBits(), tops.patchesMax())) return false;
    int width = tops.width();
    int low = 8 * width - tops.codeBits();
    int shift = tops.shift();
    long start = sink.position();
    long words = begin(DoubleArrays.TABLE, width, low, shift, 0, values.length, sink);
    long table = words - (8L << tops.codeBits());
    tops.assignCodes(table);
    short[] codes = tops.codes();
    long unsaid = (1L << shift) - 1;
    int patches = 0;
    for (int i = 0; i < values.length; i++) {
      long bits = U.getLong(values, BASE + ((long) i << 3));
      long mantissa = bits & TopCounts.MANTISSA;
      long code = codes[(int) (bits >>> TopCounts.MANTISSA_BITS)];
      if (code < 0 || (mantissa & unsaid) != 0) {
        patches = patch(i, patches);
        code = 0;
      }
      U.putLong(words, code << low | mantissa >>> shift);
      words += width;
    }
    return end(start, values, patches, sink);
  }

  // ---- few values

  private boolean writeCoded(double[] values, ByteSink sink) {
    int missed = distinct.countAll(values);
    int codeBits = distinct.codeBits();
    int width = codeBits <= 8 ? 1 : 2;
    if (!fits(values.length, width, codeBits, missed)) return false;
    int low = 8 * width - codeBits;
    long start = sink.position();
    long words = begin(DoubleArrays.TABLE, width, low, 0, 0, values.length, sink);
    distinct.write(words - (8L << codeBits));
    int patches = 0;
    for (int i = 0; i < values.length; i++) {
      long code = distinct.find(U.getLong(values, BASE + ((long) i << 3)));
      if (code < 0) {
        patches = patch(i, patches);
        code = 0;
      }
      U.putLong(words, code << low);
      words += width;
    }
    return end(start, values, patches, sink);
  }

  // ---- whole numbers over a power of ten

  private boolean writeScaled(double[] values, ByteSink sink) {
    if (!range.measure(values)) return false;
    int width = range.width();
    int patchesMax = values.length / DoubleArrays.PATCH_SHARE;
    if (!fits(values.length, width, 0, patchesMax)) return false;
    long start = sink.position();
    long words = begin(
        DoubleArrays.SCALED, width, range.power(), 0, range.base(), values.length, sink);
    int patches = 0;
    for (int i = 0; i < values.length; i++) {
      long word = range.word(values[i]);
      if (word < 0) {
        patches = patch(i, patches);
        word = 0;
      }
      U.putLong(words, word);
      words += width;
    }
    return end(start, values, patches, sink);
  }

  // ---- what the forms share

  private static boolean fits(int count, int width, int codeBits, int patches) {
    long bytes = DoubleArrays.HEADER_BYTES + (8L << codeBits) + (long) count * width + 8
        + (long) patches * DoubleArrays.PATCH_BYTES;
    return patches <= count / DoubleArrays.PATCH_SHARE && bytes <= limit(count);
  }

  /** Makes room for all but the patches, writes the header and returns the address of the words. */
  private static long begin(
      byte form, int width, int second, int shift, long base, int count, ByteSink sink) {
    long tableBytes = form == DoubleArrays.TABLE ? 8L << (8 * width - second) : 0;
    // Whole words are written one over the other; the last one's spill is the bytes at the end.
    long wordBytes = (long) count * width + 8 - width;
    long header = sink.reserve(DoubleArrays.HEADER_BYTES + tableBytes + wordBytes);
    U.putByte(header, form);
    U.putByte(header + 1, (byte) width);
    U.putByte(header + 2, (byte) second);
    U.putByte(header + 3, (byte) shift);
    U.putLong(header + 8, base);
    return header + DoubleArrays.HEADER_BYTES + tableBytes;
  }

  private int patch(int index, int patches) {
    if (patches == patchAt.length) patchAt = Arrays.copyOf(patchAt, 2 * patches);
    patchAt[patches] = index;
    return patches + 1;
  }

  /** Writes the patches; takes all back if another thread has changed too many values meanwhile. */
  private boolean end(long start, double[] values, int patches, ByteSink sink) {
    if (patches > values.length / DoubleArrays.PATCH_SHARE) {
      sink.truncate(start);
      return false;
    }
    long at = sink.reserve((long) patches * DoubleArrays.PATCH_BYTES);
    for (int p = 0; p < patches; p++, at += DoubleArrays.PATCH_BYTES) {
      U.putInt(at, patchAt[p]);
      U.putLong(at + 4, Double.doubleToRawLongBits(values[patchAt[p]]));
    }
    U.putInt(sink.address() + start + 4, patches);
    return true;
  }
}
