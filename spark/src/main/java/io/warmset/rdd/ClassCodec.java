package io.warmset.rdd;

/**
 * How the objects of exactly one class become bytes and back. Has no state of its own.
 *
 * <p>Invariant: what `write` appended, `read` takes, byte for byte; and `read` gives an object that
 * Java's serialisation could have given, a fresh one unless it is a value, or throws
 * IllegalStateException. The object's id and whether it is null are the business of whoever refers
 * to it.
 */
abstract class ClassCodec {
  abstract void write(Object value, ByteSink sink, ElementCoder coder);

  abstract Object read(ByteSource source, ElementCoder coder);

  /**
   * Whether it matters that two references lead to this very object, because it may change or lead
   * to itself.
   */
  boolean hasIdentity(Object value) {
    return true;
  }

  /** In the place of a codec: the class has none. */
  static final class None extends ClassCodec {
    final String reason;
    /** Its objects must stay as they are, whatever could serialise them. */
    final boolean leftAlone;

    None(String reason, boolean leftAlone) {
      this.reason = reason;
      this.leftAlone = leftAlone;
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      throw new IllegalStateException(reason);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      throw new IllegalStateException(reason);
    }
  }
}
