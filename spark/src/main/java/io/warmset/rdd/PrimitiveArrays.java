package io.warmset.rdd;

import sun.misc.Unsafe;

/**
 * Arrays of primitives: their bytes as they are, one copy each way, but doubles as
 * {@link DoubleArrays} has them.
 */
final class PrimitiveArrays {
  private static final Unsafe U = Raw.U;

  private PrimitiveArrays() {}

  static boolean is(Class<?> type) {
    return type.isArray() && type.getComponentType().isPrimitive();
  }

  /** Bytes of an element of the array class, as a power of two. */
  static int shift(Class<?> array) {
    return Integer.numberOfTrailingZeros(U.arrayIndexScale(array));
  }

  /** For arrays of any class but double[]. */
  static void write(Object array, long base, long bytes, ByteSink sink) {
    Raw.copyOut(array, base, sink.reserve(bytes), bytes);
  }

  // The bytes are taken before the array is made: a damaged length allocates nothing.

  static byte[] readBytes(int length, ByteSource source) {
    long at = source.take(length);
    byte[] array = new byte[length];
    Raw.copyIn(at, array, Unsafe.ARRAY_BYTE_BASE_OFFSET, length);
    return array;
  }

  static boolean[] readBooleans(int length, ByteSource source) {
    long at = source.take(length);
    boolean[] array = new boolean[length];
    for (int i = 0; i < length; i++) array[i] = U.getByte(at + i) != 0;
    return array;
  }

  static short[] readShorts(int length, ByteSource source) {
    long at = source.take((long) length << 1);
    short[] array = new short[length];
    Raw.copyIn(at, array, Unsafe.ARRAY_SHORT_BASE_OFFSET, (long) length << 1);
    return array;
  }

  static char[] readChars(int length, ByteSource source) {
    long at = source.take((long) length << 1);
    char[] array = new char[length];
    Raw.copyIn(at, array, Unsafe.ARRAY_CHAR_BASE_OFFSET, (long) length << 1);
    return array;
  }

  static int[] readInts(int length, ByteSource source) {
    long at = source.take((long) length << 2);
    int[] array = source.ints(length);
    Raw.copyIn(at, array, Unsafe.ARRAY_INT_BASE_OFFSET, (long) length << 2);
    return array;
  }

  static float[] readFloats(int length, ByteSource source) {
    long at = source.take((long) length << 2);
    float[] array = new float[length];
    Raw.copyIn(at, array, Unsafe.ARRAY_FLOAT_BASE_OFFSET, (long) length << 2);
    return array;
  }

  static long[] readLongs(int length, ByteSource source) {
    long at = source.take((long) length << 3);
    long[] array = new long[length];
    Raw.copyIn(at, array, Unsafe.ARRAY_LONG_BASE_OFFSET, (long) length << 3);
    return array;
  }

  /**
   * The call that writes the array of the given name, in generated code.
   *
   * @param lengthAt where its length stands in the sink
   */
  static String writing(Class<?> array, String name, String lengthAt) {
    if (array == double[].class) {
      return "DoubleArrays.write(" + name + ", " + lengthAt + ", sink, coder.doubles);";
    }
    return "PrimitiveArrays.write(" + name + ", " + U.arrayBaseOffset(array) + "L, (long) " + name
        + ".length << " + shift(array) + ", sink);";
  }

  /** The call that reads an array of so many, in generated code. */
  static String reading(Class<?> array, String length) {
    if (array == double[].class) return "DoubleArrays.read(" + length + ", source, coder.doubles)";
    String name = array.getComponentType().getName();
    return "PrimitiveArrays.read" + Character.toUpperCase(name.charAt(0)) + name.substring(1)
        + "s(" + length + ", source)";
  }

  private interface Reader {
    Object read(int length, ByteSource source);
  }

  /** The codec of an array class: how many, then the bytes. */
  static ClassCodec codec(Class<?> array) {
    if (array == byte[].class) return new Codec(array, PrimitiveArrays::readBytes);
    if (array == boolean[].class) return new Codec(array, PrimitiveArrays::readBooleans);
    if (array == short[].class) return new Codec(array, PrimitiveArrays::readShorts);
    if (array == char[].class) return new Codec(array, PrimitiveArrays::readChars);
    if (array == int[].class) return new Codec(array, PrimitiveArrays::readInts);
    if (array == float[].class) return new Codec(array, PrimitiveArrays::readFloats);
    if (array == long[].class) return new Codec(array, PrimitiveArrays::readLongs);
    return new DoublesCodec();
  }

  private static final class DoublesCodec extends ClassCodec {
    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      double[] values = (double[]) value;
      long lengthAt = sink.position();
      U.putInt(sink.reserve(4), values.length);
      DoubleArrays.write(values, lengthAt, sink, coder.doubles);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      return DoubleArrays.read(U.getInt(source.take(4)), source, coder.doubles);
    }

    @Override
    boolean hasIdentity(Object value) {
      return ((double[]) value).length > 0;
    }
  }

  private static final class Codec extends ClassCodec {
    private final int shift;
    private final long base;
    private final Reader reader;

    Codec(Class<?> array, Reader reader) {
      this.shift = shift(array);
      this.base = U.arrayBaseOffset(array);
      this.reader = reader;
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      int length = java.lang.reflect.Array.getLength(value);
      U.putInt(sink.reserve(4), length);
      PrimitiveArrays.write(value, base, (long) length << shift, sink);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      return reader.read(U.getInt(source.take(4)), source);
    }

    @Override
    boolean hasIdentity(Object value) {
      return java.lang.reflect.Array.getLength(value) > 0;
    }
  }
}
