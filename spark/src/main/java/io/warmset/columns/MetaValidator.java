package io.warmset.columns;

import java.io.IOException;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;

/**
 * Checks one column's description, and its bytes, before anything trusts them. {@link #check} looks at words only;
 * {@link #checkData} expects that check has passed and reads inside the announced bytes only.
 */
final class MetaValidator {
  private static final int DEPTH_MAX = 512;

  private final BatchMeta meta;
  private final int column;
  private final long[] words;
  private int word;
  /** Bytes from the start of the column to the current piece. */
  private long at;
  /** Where the column lies; looked at only when `withData`. */
  private long address;
  private boolean withData;

  MetaValidator(BatchMeta meta, int column) {
    this.meta = meta;
    this.column = column;
    this.words = meta.words();
  }

  void check(DataType type) throws IOException {
    walk(type);
    if (at != meta.bytes(column)) throw damaged("describes " + at + " bytes, the batch says " + meta.bytes(column));
  }

  void checkData(DataType type, long address) throws IOException {
    this.address = address;
    this.withData = true;
    walk(type);
  }

  private void walk(DataType type) throws IOException {
    word = meta.start(column);
    at = 0;
    node(ColumnTypes.sqlType(type), meta.numRows(), 0);
  }

  private void node(DataType sql, int rows, int depth) throws IOException {
    if (depth > DEPTH_MAX) throw damaged("is nested deeper than " + DEPTH_MAX);
    int kind = ColumnTypes.kindOf(sql);
    long header = next();
    if (Layout.kind(header) != kind || kind == 0) {
      throw damaged("holds " + Layout.kindName(Layout.kind(header)) + ", its type is " + sql.sql());
    }
    int nulls = Layout.nulls(header);
    if (nulls < 0 || nulls > rows || kind == Layout.NULL && nulls != rows) throw damaged(nulls + " nulls in " + rows + " rows");
    validity(rows, kind == Layout.NULL ? 0 : nulls);
    int width = Layout.width(header);
    switch (kind) {
      case Layout.NULL:
        break;
      case Layout.BOOLEAN:
        width(width, 1);
        step(width == 0 ? 0 : Layout.align((rows + 7L) >>> 3));
        break;
      case Layout.INT:
        width(width, Integer.BYTES);
        next();
        step(Layout.valueBytes(rows, width, Integer.BYTES));
        break;
      case Layout.LONG:
        width(width, Long.BYTES);
        next();
        step(Layout.valueBytes(rows, width, Long.BYTES));
        break;
      case Layout.FLOAT:
        if (width != 0) exactly(width, Float.BYTES);
        step(Layout.floatingBytes(rows, width, Float.BYTES));
        break;
      case Layout.DOUBLE:
        doubles(header, rows);
        break;
      case Layout.DECIMAL:
        if (width != WarmDecimalVector.WIDE) width(width, Long.BYTES);
        next();
        step(width == WarmDecimalVector.WIDE ? rows * 16L : Layout.valueBytes(rows, width, Long.BYTES));
        break;
      case Layout.BYTES:
        bytes(header, rows, nulls);
        break;
      case Layout.STRUCT:
        for (DataType child : ColumnTypes.childTypes(sql)) node(ColumnTypes.sqlType(child), rows, depth + 1);
        break;
      default:
        int elements = ranges(width, rows);
        for (DataType child : ColumnTypes.childTypes(sql)) node(ColumnTypes.sqlType(child), elements, depth + 1);
        break;
    }
  }

  /** The number of nulls must be that of the bits: readers skip the bits when it is 0. */
  private void validity(int rows, int nulls) throws IOException {
    long bytes = Layout.validityBytes(rows, nulls);
    long start = at;
    step(bytes);
    if (!withData || bytes == 0) return;
    int present = 0;
    for (long b = 0; b < bytes; b += 8) present += Long.bitCount(Platform.getLong(null, address + start + b));
    if (present != rows - nulls) throw damaged("has " + present + " values, its description says " + (rows - nulls));
  }

  private void doubles(long header, int rows) throws IOException {
    int width = Layout.width(header);
    switch (Layout.flags(header)) {
      case Layout.FLAG_DICTIONARY:
        long count = next();
        exactly(width, 1);
        if (count < 1 || count > FloatingForm.ENTRIES_MAX) throw damaged(count + " distinct doubles");
        long start = at;
        step(Layout.valueBytes(rows, width, Long.BYTES));
        for (int row = 0; withData && row < rows; row++) {
          int code = Platform.getByte(null, address + start + row) & 0xFF;
          if (code >= count) throw damaged("row " + row + " has code " + code + " of " + count);
        }
        step(8L * count);
        break;
      case Layout.FLAG_SCALED:
        long base = next();
        long power = next();
        if (base > Decimals.WHOLE_MAX || base < -Decimals.WHOLE_MAX) throw damaged("base " + base);
        width(width, Decimals.WIDTH_MAX);
        if (power < 0 || power >= Decimals.DIVISORS.length) throw damaged("power " + power);
        step(Layout.valueBytes(rows, width, Long.BYTES));
        break;
      case 0:
        if (width != 0) exactly(width, Double.BYTES);
        step(Layout.floatingBytes(rows, width, Double.BYTES));
        break;
      default:
        throw damaged("unknown flags of doubles: " + Layout.flags(header));
    }
  }

  private void bytes(long header, int rows, int nulls) throws IOException {
    boolean dictionary = (Layout.flags(header) & Layout.FLAG_DICTIONARY) != 0;
    int codeWidth = Layout.codeWidth(header);
    long count = next();
    long base = next();
    long slope = next();
    long length = next();
    width(codeWidth, Short.BYTES);
    width(Layout.width(header), Long.BYTES);
    if (dictionary ? count < 0 || count > Layout.DICTIONARY_ENTRIES_MAX || count == 0 && nulls != rows : count != rows) {
      throw damaged(count + " values for " + rows + " rows");
    }
    if (length < 0 || length > meta.bytes(column)) throw damaged("length " + length);
    if (dictionary) codes(rows, codeWidth, (int) count);
    offsets((int) count, Layout.width(header), base, slope, length);
    step(Layout.align(length));
  }

  private void codes(int rows, int width, int count) throws IOException {
    long start = at;
    step(Layout.valueBytes(rows, width, Short.BYTES));
    if (!withData) return;
    int mask = (int) Layout.mask(width);
    for (int row = 0; width != 0 && row < rows; row++) {
      int code = Platform.getShort(null, address + start + (long) row * width) & mask;
      if (code >= Math.max(count, 1)) throw damaged("row " + row + " has code " + code + " of " + count);
    }
  }

  private int ranges(int width, int rows) throws IOException {
    long base = next();
    long slope = next();
    long elements = next();
    width(width, Long.BYTES);
    if (elements < 0 || elements > Integer.MAX_VALUE) throw damaged(elements + " elements");
    offsets(rows, width, base, slope, elements);
    return (int) elements;
  }

  /** Offsets must rise from 0 to the length, each step within the range of int. */
  private void offsets(int count, int width, long base, long slope, long length) throws IOException {
    long start = at;
    step(Layout.valueBytes(count + 1L, width, Long.BYTES));
    if (slope < 0 || slope >> Layout.SLOPE_SHIFT > length || base > 0 || base < -length) {
      throw damaged("offsets on a line of slope " + slope + " from " + base + " for " + length);
    }
    if (!withData) return;
    long before = 0;
    long from = width == 0 ? Layout.ZEROES : address + start;
    for (int i = 0; i <= count; i++) {
      long offset = base + (i * slope >> Layout.SLOPE_SHIFT)
          + (Platform.getLong(null, from + (long) i * width) & Layout.mask(width));
      if (i == 0 && offset != 0 || offset < before || offset > length || offset - before > Integer.MAX_VALUE) {
        throw damaged("offset " + i + " is " + offset + " after " + before + " of " + length);
      }
      before = offset;
    }
    if (before != length) throw damaged("offsets end at " + before + " of " + length);
  }

  private long next() throws IOException {
    if (word >= words.length) throw damaged("is cut short");
    return words[word++];
  }

  private void step(long bytes) throws IOException {
    at += bytes;
    if (bytes < 0 || at > meta.bytes(column)) throw damaged("needs more than its " + meta.bytes(column) + " bytes");
  }

  private void width(int width, int most) throws IOException {
    if (width > most) throw damaged("width " + width + ", at most " + most);
  }

  private void exactly(int width, int expected) throws IOException {
    if (width != expected) throw damaged("width " + width + ", expected " + expected);
  }

  private IOException damaged(String what) {
    return new IOException("damaged column " + column + ": " + what);
  }
}
