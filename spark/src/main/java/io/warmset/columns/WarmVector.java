package io.warmset.columns;

import java.util.function.LongUnaryOperator;
import java.util.function.Predicate;

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

  /** Whether {@link #compact} works for columns of this type: all that are not nested. */
  public static boolean canCompact(DataType type) {
    int kind = ColumnTypes.kindOf(ColumnTypes.sqlType(type));
    return kind != Layout.STRUCT && kind != Layout.ARRAY && kind != Layout.MAP;
  }

  /**
   * Shows the selected rows only, as rows 0 to count - 1, until the next bind. The values stay encoded and are copied
   * to memory that `allocate` gives for a number of bytes, at a multiple of 8; it must last as long as the binding.
   */
  public final void compact(Selection selection, LongUnaryOperator allocate) {
    if (nulls != 0 && validityMask != 0) {
      long to = allocate.applyAsLong(Layout.align((selection.count() + 7L) >>> 3));
      nulls = selection.count() - Gather.bits(validity, selection, to);
      validity = to;
    } else if (nulls != 0) {
      nulls = selection.count();
    }
    compactValues(selection, allocate);
  }

  /** Makes the values, not the validity, those of the selected rows. */
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    throw notOfThisType("rows by selection");
  }

  /** Writes what native code has to know of the binding to words {@code at} to {@code at + NativeAggregate.WORDS - 1}. */
  public final void describe(long[] words, int at, int rows) {
    java.util.Arrays.fill(words, at, at + NativeAggregate.WORDS, 0);
    words[at + NativeAggregate.NULLS] = nulls == 0 ? 0 : nulls == rows ? 1 : 2;
    words[at + NativeAggregate.VALIDITY] = validity;
    describeValues(words, at);
  }

  /** Leaves the values undescribed, for those of whom only nulls are looked at. */
  void describeValues(long[] words, int at) {
    words[at + NativeAggregate.FORM] = NativeAggregate.OPAQUE;
  }

  static void describePacked(long[] words, int at, int word, int width, long base, long data) {
    words[at + NativeAggregate.FORM] = NativeAggregate.PACKED;
    words[at + NativeAggregate.WIDTH] = width;
    words[at + NativeAggregate.WORD] = word;
    words[at + NativeAggregate.BASE] = base;
    words[at + NativeAggregate.DATA] = data;
  }

  /** Takes out the rows that are null. */
  public final void keepPresent(Selection selection) {
    if (nulls == 0) return;
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += isNullAt(row) ? 0 : 1;
    }
    selection.truncate(kept);
  }

  /**
   * Takes out rows whose value is null or outside `low` to `high`, both included: the value itself, days,
   * microseconds, months, the unscaled number of a decimal, 0 and 1 of a boolean.
   */
  public void keepRange(Selection selection, long low, long high) {
    throw notOfThisType("range of whole numbers");
  }

  /** Takes out rows whose value is null or none of these, which ascend. Values as for {@link #keepRange}. */
  public void keepAnyOf(Selection selection, long[] ascending) {
    throw notOfThisType("set of whole numbers");
  }

  /** Takes out rows whose value is null or certainly none of the keys. Values as for {@link #keepRange}. */
  public void keepAmong(Selection selection, KeySet keys) {
    throw notOfThisType("set of keys");
  }

  /** Takes out rows whose value is null or outside `low` to `high`, both included. Not-a-number is kept. */
  public void keepRange(Selection selection, double low, double high) {
    throw notOfThisType("range of floating-point numbers");
  }

  /** Takes out rows whose value does not match, and those that are null unless `nullsToo`. */
  public void keepMatching(Selection selection, Predicate<UTF8String> matches, boolean nullsToo) {
    throw notOfThisType("match of strings");
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
