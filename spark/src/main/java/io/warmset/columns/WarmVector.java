package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.sql.vectorized.ColumnarArray;
import org.apache.spark.sql.vectorized.ColumnarMap;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * A column of one batch, read in place from an address.
 *
 * <p>Invariant: between {@link #bind} and the next bind the bytes at the address stay there and do not change;
 * whoever binds holds the pin. A vector owns no memory, so {@link #close} does nothing and a vector may be bound
 * again for ever. Subclasses are final, so that code generated against {@link #className} calls them directly. Row
 * numbers are not checked. Not thread-safe.
 */
public abstract class WarmVector extends ColumnVector {
  private int nulls;
  private long validity = Layout.ZEROES;
  /** -1, or 0 when one validity byte stands for all rows. */
  private int validityMask;

  WarmVector(DataType type) {
    super(type);
  }

  /** A vector for columns of this type, bound to nothing yet. */
  public static WarmVector create(DataType type) {
    return VectorFactory.create(type);
  }

  /** The concrete final class that {@link #create} makes for this type. */
  public static String className(DataType type) {
    return VectorFactory.vectorClass(type).getName();
  }

  /**
   * Points this vector at column `column` of the batch that `meta` describes, whose {@link BatchMeta#bytes(int)}
   * bytes lie at `address`. Allocates nothing for flat types. `address` must be a multiple of 8; it is ignored for
   * 0 bytes.
   */
  public final void bind(BatchMeta meta, int column, long address) {
    Cursor cursor = cursor();
    cursor.words = meta.words();
    cursor.word = meta.start(column);
    cursor.address = address;
    bindNode(cursor, meta.numRows());
  }

  /** Reads this node's words and advances the cursor behind its words and bytes. */
  abstract void bindNode(Cursor cursor, int rows);

  /** Where a bind stands: the next word of the description and the address of the next byte. */
  static final class Cursor {
    long[] words;
    int word;
    long address;

    long next() {
      return words[word++];
    }

    /** The address of the next piece of `bytes` bytes, and steps behind it. */
    long take(long bytes) {
      long start = address;
      address += bytes;
      return bytes == 0 ? Layout.ZEROES : start;
    }
  }

  private Cursor cursor;

  private Cursor cursor() {
    if (cursor == null) cursor = new Cursor();
    return cursor;
  }

  /** Reads the header word and the validity bitmap. Returns the header. */
  final long bindHeader(Cursor cursor, int kind, int rows) {
    long header = cursor.next();
    if (Layout.kind(header) != kind) {
      throw new IllegalStateException("column of type " + type + " is bound to bytes of kind "
          + Layout.kindName(Layout.kind(header)) + ", expected " + Layout.kindName(kind));
    }
    nulls = Layout.nulls(header);
    long bytes = Layout.validityBytes(rows, nulls);
    validityMask = bytes == 0 ? 0 : -1;
    validity = cursor.take(bytes);
    return header;
  }

  @Override
  public final boolean hasNull() {
    return nulls != 0;
  }

  @Override
  public final int numNulls() {
    return nulls;
  }

  @Override
  public final boolean isNullAt(int rowId) {
    return nulls != 0
        && (Platform.getByte(null, validity + ((rowId & validityMask) >> 3)) >> (rowId & 7) & 1) == 0;
  }

  @Override
  public final void close() {
    // Owns nothing.
  }

  @Override
  public final void closeIfFreeable() {
    // Owns nothing: ColumnarToRow calls this after each batch.
  }

  final UnsupportedOperationException notOfThisType(String what) {
    return new UnsupportedOperationException(what + " asked of a column of type " + type);
  }

  @Override
  public boolean getBoolean(int rowId) {
    throw notOfThisType("boolean");
  }

  @Override
  public byte getByte(int rowId) {
    throw notOfThisType("byte");
  }

  @Override
  public short getShort(int rowId) {
    throw notOfThisType("short");
  }

  @Override
  public int getInt(int rowId) {
    throw notOfThisType("int");
  }

  @Override
  public long getLong(int rowId) {
    throw notOfThisType("long");
  }

  @Override
  public float getFloat(int rowId) {
    throw notOfThisType("float");
  }

  @Override
  public double getDouble(int rowId) {
    throw notOfThisType("double");
  }

  @Override
  public ColumnarArray getArray(int rowId) {
    throw notOfThisType("array");
  }

  @Override
  public ColumnarMap getMap(int rowId) {
    throw notOfThisType("map");
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    throw notOfThisType("decimal");
  }

  @Override
  public UTF8String getUTF8String(int rowId) {
    throw notOfThisType("string");
  }

  @Override
  public byte[] getBinary(int rowId) {
    throw notOfThisType("binary");
  }

  @Override
  public ColumnVector getChild(int ordinal) {
    throw notOfThisType("child");
  }
}
