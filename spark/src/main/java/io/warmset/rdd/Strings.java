package io.warmset.rdd;

import sun.misc.Unsafe;

/**
 * Strings as the bytes they have on the heap: one word says how many and of which form, then they
 * follow.
 *
 * <pre>
 * word  -1 null; n &gt;= 0: n Latin-1 bytes; otherwise -2 - word UTF-16 units
 * </pre>
 *
 * <p>Invariant: the heap form is used only if this JVM's strings proved to have it.
 */
final class Strings {
  static final int NULL = -1;
  private static final Unsafe U = Raw.U;
  private static final byte LATIN1 = 0;
  private static final byte UTF16 = 1;

  private static final long VALUE = offset("value");
  private static final long CODER = offset("coder");
  /** Whether a string is a byte array and a coder, as in every HotSpot since 9. */
  private static final boolean OPEN = VALUE >= 0 && CODER >= 0 && proven();
  /** False with -XX:-CompactStrings: every string is UTF-16. */
  private static final boolean COMPACT = OPEN && U.getByte("a", CODER) == LATIN1;

  private Strings() {}

  private static long offset(String field) {
    try {
      return U.objectFieldOffset(String.class.getDeclaredField(field));
    } catch (NoSuchFieldException | UnsupportedOperationException e) {
      return -1;
    }
  }

  private static boolean proven() {
    for (String s : new String[] {"", "a\u00e9", "\u0416\u20ac\ud83d\ude00"}) {
      if (!(U.getObject(s, VALUE) instanceof byte[])) return false;
      byte[] value = (byte[]) U.getObject(s, VALUE);
      if (!s.equals(make(value.clone(), U.getByte(s, CODER)))) return false;
    }
    return true;
  }

  private static String make(byte[] value, byte coder) {
    Object made = Raw.allocate(String.class);
    U.putObject(made, VALUE, value);
    U.putByte(made, CODER, coder);
    return (String) made;
  }

  static int word(String s) {
    if (s == null) return NULL;
    if (COMPACT && U.getByte(s, CODER) == LATIN1) return s.length();
    return -2 - s.length();
  }

  static void write(String s, ByteSink sink) {
    if (OPEN) {
      byte[] value = (byte[]) U.getObject(s, VALUE);
      long at = sink.reserve(value.length);
      Raw.copyOut(value, Unsafe.ARRAY_BYTE_BASE_OFFSET, at, value.length);
    } else {
      long at = sink.reserve(2L * s.length());
      for (int i = 0; i < s.length(); i++) U.putChar(at + 2L * i, s.charAt(i));
    }
  }

  /** The string whose word has been read; not for {@link #NULL}. */
  static String read(int word, ByteSource source) {
    if (word >= 0) {
      long at = source.take(word);
      byte[] value = new byte[word];
      Raw.copyIn(at, value, Unsafe.ARRAY_BYTE_BASE_OFFSET, word);
      if (COMPACT) return make(value, LATIN1);
      return new String(value, java.nio.charset.StandardCharsets.ISO_8859_1);
    }
    int units = -2 - word;
    long at = source.take(2L * units);
    if (OPEN && units < 1 << 30) {
      byte[] value = new byte[2 * units];
      Raw.copyIn(at, value, Unsafe.ARRAY_BYTE_BASE_OFFSET, value.length);
      return make(value, UTF16);
    }
    char[] value = new char[units];
    for (int i = 0; i < units; i++) value[i] = U.getChar(at + 2L * i);
    return new String(value);
  }
}
