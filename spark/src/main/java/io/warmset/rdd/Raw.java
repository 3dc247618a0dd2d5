package io.warmset.rdd;

import java.lang.invoke.MethodHandles;
import java.lang.reflect.Field;

import org.apache.spark.unsafe.Platform;
import sun.misc.Unsafe;

/**
 * Objects and native memory without checks: what generated codecs are made of.
 *
 * <p>Invariant: an address comes from {@link ByteSink#reserve} or {@link ByteSource#take}, which
 * have made sure that its bytes are there.
 */
final class Raw {
  static final Unsafe U = unsafe();

  /** Up to this size a loop of words beats the call to copy. */
  private static final long LOOP_BYTES_MAX = 96;
  /** Beyond this size a copy is cut in pieces, so that a safepoint need not wait for its end. */
  private static final long PIECE_BYTES = 1 << 20;

  private Raw() {}

  private static Unsafe unsafe() {
    try {
      Field field = Unsafe.class.getDeclaredField("theUnsafe");
      field.setAccessible(true);
      return (Unsafe) field.get(null);
    } catch (ReflectiveOperationException e) {
      throw new ExceptionInInitializerError(e);
    }
  }

  /** An object none of whose constructors ran: every field has its default. */
  static Object allocate(Class<?> type) {
    try {
      return U.allocateInstance(type);
    } catch (InstantiationException e) {
      throw new IllegalStateException("cannot make a " + type.getName(), e);
    }
  }

  /** What {@link CodecCompiler} handed to the generated class that asks. */
  static Object[] links(MethodHandles.Lookup generated) {
    try {
      return MethodHandles.classData(generated, "_", Object[].class);
    } catch (IllegalAccessException e) {
      throw new IllegalStateException("a generated codec lost its links", e);
    }
  }

  static void copyOut(Object array, long offset, long address, long bytes) {
    if (bytes <= LOOP_BYTES_MAX) {
      // Counted by an int, or each step would look for a safepoint.
      int end = (int) bytes;
      int i = 0;
      for (; i + 8 <= end; i += 8) U.putLong(address + i, U.getLong(array, offset + i));
      if (i < end && end >= 8) {
        // Some of these bytes are copied twice.
        U.putLong(address + end - 8, U.getLong(array, offset + end - 8));
      } else {
        for (; i < end; i++) U.putByte(address + i, U.getByte(array, offset + i));
      }
    } else if (bytes <= PIECE_BYTES) {
      U.copyMemory(array, offset, null, address, bytes);
    } else {
      Platform.copyMemory(array, offset, null, address, bytes);
    }
  }

  static void copyIn(long address, Object array, long offset, long bytes) {
    if (bytes <= LOOP_BYTES_MAX) {
      int end = (int) bytes;
      int i = 0;
      for (; i + 8 <= end; i += 8) U.putLong(array, offset + i, U.getLong(address + i));
      if (i < end && end >= 8) {
        U.putLong(array, offset + end - 8, U.getLong(address + end - 8));
      } else {
        for (; i < end; i++) U.putByte(array, offset + i, U.getByte(address + i));
      }
    } else if (bytes <= PIECE_BYTES) {
      U.copyMemory(null, address, array, offset, bytes);
    } else {
      Platform.copyMemory(null, address, array, offset, bytes);
    }
  }
}
