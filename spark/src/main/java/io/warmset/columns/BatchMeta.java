package io.warmset.columns;

import java.io.Externalizable;
import java.io.IOException;
import java.io.ObjectInput;
import java.io.ObjectOutput;

import org.apache.spark.sql.types.DataType;

/**
 * The description of one encoded batch: one flat array for all columns, relocatable, a few words per column.
 *
 * <pre>
 * words[0]            number of rows (low 32 bits), number of columns (high 32 bits)
 * words[1 + 2c]       where the description of column c starts in this array
 * words[2 + 2c]       bytes of column c
 * words[1 + 2n ...]   the descriptions, see {@link Layout}
 * </pre>
 *
 * Immutable once made. A BatchMeta that came from bytes is checked in shape when it is read; call {@link #validate}
 * against the schema and {@link #validateColumn} against the bytes before binding vectors to bytes of unknown origin.
 */
public final class BatchMeta implements Externalizable {
  private static final long serialVersionUID = 1L;
  private static final byte VERSION = 1;
  /** 128 MiB: far beyond any schema that Spark accepts, and a bound for what a damaged file makes us allocate. */
  private static final int WORDS_MAX = 1 << 24;

  private long[] words;

  /** For deserialisation only. */
  public BatchMeta() {
    this.words = new long[] {0L};
  }

  BatchMeta(long[] words) {
    this.words = words;
  }

  /** Number of rows of the batch. */
  public int numRows() {
    return (int) words[0];
  }

  /** Number of columns of the batch. */
  public int numColumns() {
    return (int) (words[0] >>> 32);
  }

  /** Bytes that column `column` occupies, a multiple of 8; 0 for a column that is described without data. */
  public long bytes(int column) {
    return words[2 + 2 * column];
  }

  /** Bytes of all columns together. */
  public long bytes() {
    long sum = 0;
    for (int c = 0; c < numColumns(); c++) sum += bytes(c);
    return sum;
  }

  /** Heap bytes of this object, for size estimates. */
  public long heapBytes() {
    return 16 + 16 + 8L * words.length;
  }

  int start(int column) {
    return (int) words[1 + 2 * column];
  }

  long[] words() {
    return words;
  }

  /**
   * Checks that this description is one of a batch of columns of these types: kinds, widths, counts and lengths
   * agree. Looks at no data.
   *
   * @throws IOException naming the first column that does not fit
   */
  public void validate(DataType[] types) throws IOException {
    checkShape();
    if (types.length != numColumns()) {
      throw new IOException("damaged batch description: " + numColumns() + " columns, expected " + types.length);
    }
    for (int c = 0; c < types.length; c++) new MetaValidator(this, c).check(types[c]);
  }

  /** As {@link #validate(DataType[])}, for one column only. */
  public void validate(int column, DataType type) throws IOException {
    checkShape();
    if (column >= numColumns()) {
      throw new IOException("damaged batch description: " + numColumns() + " columns, expected one more than " + column);
    }
    new MetaValidator(this, column).check(type);
  }

  /**
   * Walks the offsets and codes of one column whose bytes lie at `address`, after `validate` has passed: no
   * vector bound to them can then read outside `[address, address + availableBytes)`.
   *
   * @throws IOException when the bytes are too few or an offset or code points outside
   */
  public void validateColumn(int column, DataType type, long address, long availableBytes) throws IOException {
    if (bytes(column) > availableBytes) {
      throw new IOException("damaged column " + column + ": needs " + bytes(column) + " bytes, has " + availableBytes);
    }
    new MetaValidator(this, column).checkData(type, address);
  }

  @Override
  public void writeExternal(ObjectOutput out) throws IOException {
    out.writeByte(VERSION);
    out.writeInt(words.length);
    for (long word : words) out.writeLong(word);
  }

  @Override
  public void readExternal(ObjectInput in) throws IOException {
    byte version = in.readByte();
    if (version != VERSION) {
      throw new IOException("batch description of version " + version + ", this build reads version " + VERSION);
    }
    int length = in.readInt();
    if (length < 1 || length > WORDS_MAX) throw new IOException("damaged batch description: length " + length);
    // Grow as the bytes arrive, so that a damaged length cannot make us allocate what is not there.
    long[] read = new long[Math.min(length, 1024)];
    for (int i = 0; i < length; i++) {
      if (i == read.length) read = java.util.Arrays.copyOf(read, (int) Math.min(length, read.length * 2L));
      read[i] = in.readLong();
    }
    words = read;
    checkShape();
  }

  private void checkShape() throws IOException {
    int columns = numColumns();
    if (columns < 0 || numRows() < 0 || 1 + 2L * columns > words.length) {
      throw new IOException("damaged batch description: " + columns + " columns, " + numRows() + " rows in "
          + words.length + " words");
    }
    long expected = 1 + 2L * columns;
    for (int c = 0; c < columns; c++) {
      long start = words[1 + 2 * c];
      long bytes = words[2 + 2 * c];
      if (start < expected || start >= words.length || bytes < 0 || (bytes & 7) != 0) {
        throw new IOException("damaged batch description: column " + c + " starts at word " + start + " with " + bytes
            + " bytes");
      }
      expected = start + 1;
    }
  }

  @Override
  public boolean equals(Object other) {
    return other instanceof BatchMeta && java.util.Arrays.equals(words, ((BatchMeta) other).words);
  }

  @Override
  public int hashCode() {
    return java.util.Arrays.hashCode(words);
  }
}
