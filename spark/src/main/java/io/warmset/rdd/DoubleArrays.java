package io.warmset.rdd;

import io.warmset.columns.Decimals;
import sun.misc.Unsafe;

/**
 * Arrays of doubles: as they are, or in fewer bytes where that loses no bit. {@link DoubleNarrower}
 * chooses; reading is here.
 *
 * <pre>
 * length below -1                   u16 for each of -1 - length values: see {@link RepeatedDoubles}
 * fewer than VALUES_MIN values      the values
 * else PLAIN                        u8 form, the values
 * else TABLE, SCALED                u8 form, u8 width
 *                                   u8 of TABLE: bits of a word below its code; of SCALED: power
 *                                   u8 shift, i32 patches, i64 base
 *                                   TABLE: i64 for each code there can be
 *                                   words of `width` bytes each, then 8 - width more
 *                                   patches: i32 index, i64 bits
 *
 * value of TABLE      table[code] | (bits below the code) &lt;&lt; shift
 * value of SCALED     (base + word) / 10^power
 * </pre>
 *
 * <p>A patch is a value that the form cannot give.
 *
 * <p>Invariant: what is read back has the bits that were written, those of NaNs too. No word leads
 * beyond the table: it has an entry for each code that the words' bits can spell.
 */
final class DoubleArrays {
  /** Smaller arrays are not worth a look of their own. */
  static final int VALUES_MIN = 256;

  static final byte PLAIN = 0;
  static final byte TABLE = 1;
  static final byte SCALED = 2;

  static final int HEADER_BYTES = 16;
  static final int PATCH_BYTES = 12;
  /** One value of so many may be a patch. */
  static final int PATCH_SHARE = 32;
  static final int WIDTH_MAX = 7;
  static final int CODE_BITS_MAX = 12;

  /** Values that are divided at once, by vector instructions, while they are in the cache. */
  private static final int CHUNK_VALUES = 1024;
  private static final long BASE = Unsafe.ARRAY_DOUBLE_BASE_OFFSET;
  private static final Unsafe U = Raw.U;

  private DoubleArrays() {}

  /**
   * Appends the values of an array whose length stands at byte `lengthAt` of the sink, and puts
   * -1 - length there if they are codes.
   */
  static void write(double[] values, long lengthAt, ByteSink sink, RepeatedDoubles repeated) {
    int length = values.length;
    if (length >= VALUES_MIN) {
      if (sink.narrower().write(values, sink)) return;
      U.putByte(sink.reserve(1), PLAIN);
    } else if (length > 0 && repeated.write(values, sink)) {
      U.putInt(sink.address() + lengthAt, -1 - length);
      return;
    }
    long bytes = (long) values.length << 3;
    Raw.copyOut(values, BASE, sink.reserve(bytes), bytes);
  }

  static double[] read(int length, ByteSource source, RepeatedDoubles repeated) {
    if (length < 0) return repeated.read(-1 - length, source);
    if (length >= VALUES_MIN) {
      byte form = U.getByte(source.take(1));
      if (form != PLAIN) return readNarrowed(form, length, source);
    }
    long at = source.take((long) length << 3);
    double[] values = source.doubles(length);
    Raw.copyIn(at, values, BASE, (long) length << 3);
    return values;
  }

  // All bytes are taken before the array is made: a damaged length makes none of more than eight
  // times what there is.
  private static double[] readNarrowed(byte form, int length, ByteSource source) {
    if (form != TABLE && form != SCALED) throw source.damaged("form " + form + " of doubles");
    long header = source.take(HEADER_BYTES - 1);
    int width = U.getByte(header);
    int second = U.getByte(header + 1);
    int shift = U.getByte(header + 2);
    int patches = U.getInt(header + 3);
    long base = U.getLong(header + 7);
    boolean fits = form == TABLE
        ? width >= 1 && width <= WIDTH_MAX && second <= 8 * width
            && second >= 8 * width - CODE_BITS_MAX && second >= 0 && shift >= 0 && shift <= 52
        : width >= 1 && width <= Decimals.WIDTH_MAX
            && second >= 0 && second < Decimals.DIVISORS.length;
    if (!fits || patches < 0 || patches > length / PATCH_SHARE) {
      throw source.damaged("doubles in words of " + width + " bytes, " + patches + " patches");
    }
    long table = form == TABLE ? source.take(8L << (8 * width - second)) : 0;
    long words = source.take((long) length * width + 8 - width);
    long patch = source.take((long) patches * PATCH_BYTES);
    double[] values = source.doubles(length);
    if (form == TABLE && width == WIDTH_MAX && second == 52 && shift == 0) {
      // Measurements of full precision have these: shifts by constants take half the time.
      look(words, WIDTH_MAX, 52, 0, table, values);
    } else if (form == TABLE) {
      look(words, width, second, shift, table, values);
    } else {
      scale(words, width, base, Decimals.DIVISORS[second], values);
    }
    for (int i = 0; i < patches; i++, patch += PATCH_BYTES) {
      int index = U.getInt(patch);
      if (index < 0 || index >= length) throw source.damaged("a patch of value " + index);
      U.putLong(values, BASE + ((long) index << 3), U.getLong(patch + 4));
    }
    return values;
  }

  private static void look(
      long words, int width, int low, int shift, long table, double[] values) {
    long mask = -1L >>> (64 - 8 * width);
    long lowMask = (1L << low) - 1;
    long at = words;
    for (int i = 0; i < values.length; i++) {
      long word = U.getLong(at) & mask;
      long bits = U.getLong(table + ((word >>> low) << 3)) | (word & lowMask) << shift;
      values[i] = Double.longBitsToDouble(bits);
      at += width;
    }
  }

  private static void scale(
      long words, int width, long base, double divisor, double[] values) {
    long mask = -1L >>> (64 - 8 * width);
    double bias = 0x1p52 - base;
    long at = words;
    for (int from = 0; from < values.length; from += CHUNK_VALUES) {
      int to = Math.min(values.length, from + CHUNK_VALUES);
      for (int i = from; i < to; i++) {
        long word = U.getLong(at) & mask;
        values[i] = Double.longBitsToDouble(Decimals.WHOLE_BITS | word) - bias;
        at += width;
      }
      if (divisor != 1.0) {
        for (int i = from; i < to; i++) values[i] /= divisor;
      }
    }
  }
}
