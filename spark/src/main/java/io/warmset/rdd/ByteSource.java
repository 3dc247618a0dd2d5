package io.warmset.rdd;

/**
 * Bytes to read, from front to back. One thread reads from it; whoever made it keeps the bytes
 * where they are until it is done.
 *
 * <p>Invariant: no address is given out whose bytes are not wholly inside. Asking for more is
 * damage: an IllegalStateException.
 */
public final class ByteSource {
  private final long start;
  private final long end;
  private long at;
  private int depth;
  private SpareArrays spares;

  public ByteSource(long address, long bytes) {
    if (bytes < 0) throw new IllegalArgumentException("a source of " + bytes + " bytes");
    start = address;
    end = address + bytes;
    at = address;
  }

  /**
   * From now on elements are read into these arrays; null: into new ones. See {@link SpareArrays}
   * for when that is allowed.
   */
  public void reuse(SpareArrays arrays) {
    spares = arrays;
  }

  /** An array with anything in it, for a reader that fills it. */
  double[] doubles(int length) {
    return spares == null ? new double[length] : spares.doubles(length);
  }

  /** An array with anything in it, for a reader that fills it. */
  int[] ints(int length) {
    return spares == null ? new int[length] : spares.ints(length);
  }

  /** The address of the next `bytes` bytes, which are then behind. */
  public long take(long bytes) {
    long from = at;
    if (bytes < 0 || bytes > end - from) throw tooShort(bytes);
    at = from + bytes;
    return from;
  }

  public long remaining() {
    return end - at;
  }

  /** Bytes taken so far. */
  public long position() {
    return at - start;
  }

  /** One object further in: bounds what damaged bytes can nest. */
  void enter() {
    if (++depth > ElementCoder.DEPTH_MAX) {
      throw damaged("objects nest more than " + ElementCoder.DEPTH_MAX + " deep");
    }
  }

  void leave() {
    depth--;
  }

  void startElement() {
    depth = 0;
  }

  IllegalStateException damaged(String what) {
    return new IllegalStateException("damaged element, near byte " + position() + ": " + what);
  }

  private IllegalStateException tooShort(long bytes) {
    return damaged(bytes + " bytes are wanted, " + remaining() + " are left");
  }
}
