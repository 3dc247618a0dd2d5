package io.warmset.columns;

import java.util.function.LongUnaryOperator;
import java.util.function.Predicate;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Strings of any collation and binaries: bytes behind offsets on a line, either per row or per
 * distinct value with codes per row. Strings point at the bytes; those of a dictionary are made once per batch and
 * handed out again.
 */
public class WarmBytesVector extends WarmVector {
  /**
   * Dictionaries up to this size have their strings copied to the heap when first asked for: hashing a string, as
   * aggregation does in every row, copies it unless it is an array of its own.
   */
  private static final int HEAP_ENTRIES_MAX = 1024;

  private long codes = Layout.ZEROES;
  private int codeWidth;
  private int codeMask;
  private boolean dictionary;
  private UTF8String[] entries = new UTF8String[0];
  private int entriesUsed;

  private long offsets = Layout.ZEROES;
  private int offsetWidth;
  private long offsetMask;
  private long slope;
  /** Address of the bytes plus the base of the offsets. */
  private long bytes;
  private long base;
  private long length;
  /** Values that the offsets are of. */
  private int count;

  WarmBytesVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    long header = bindHeader(cursor, Layout.BYTES, rows);
    count = (int) cursor.next();
    base = cursor.next();
    slope = cursor.next();
    length = cursor.next();
    dictionary = (Layout.flags(header) & Layout.FLAG_DICTIONARY) != 0;
    codeWidth = Layout.codeWidth(header);
    codeMask = (int) Layout.mask(codeWidth);
    codes = cursor.take(dictionary ? Layout.valueBytes(rows, codeWidth, Short.BYTES) : 0);
    offsetWidth = Layout.width(header);
    offsetMask = Layout.mask(offsetWidth);
    offsets = cursor.take(Layout.valueBytes(count + 1L, offsetWidth, Long.BYTES));
    bytes = cursor.take(Layout.align(length)) + base;
    forgetEntries(dictionary ? count : 0);
  }

  @Override
  void describeValues(long[] words, int at) {
    words[at + NativeAggregate.FORM] = NativeAggregate.TEXT;
    words[at + NativeAggregate.WIDTH] = codeWidth;
    words[at + NativeAggregate.WORD] = dictionary ? 1 : 0;
    words[at + NativeAggregate.BASE] = base;
    words[at + NativeAggregate.DATA] = codes;
    words[at + NativeAggregate.COUNT] = count;
    words[at + NativeAggregate.OFFSET_WIDTH] = offsetWidth;
    words[at + NativeAggregate.ENTRIES] = offsets;
    words[at + NativeAggregate.SLOPE] = slope;
    words[at + NativeAggregate.BYTES] = bytes - base;
    words[at + NativeAggregate.LENGTH] = length;
  }

  /** Drops the strings of the batch before; the array itself is used again. */
  private void forgetEntries(int count) {
    java.util.Arrays.fill(entries, 0, entriesUsed, null);
    if (entries.length < count) entries = new UTF8String[count];
    entriesUsed = count;
  }

  /** Address of the value at `index`, by way of its place on the line and in the offsets. */
  private long start(long onLine, long offset) {
    return bytes + (onLine >> Layout.SLOPE_SHIFT) + (Platform.getLong(null, offset) & offsetMask);
  }

  private int code(int rowId) {
    return Platform.getShort(null, codes + (long) rowId * codeWidth) & codeMask;
  }

  @Override
  public UTF8String getUTF8String(int rowId) {
    if (isNullAt(rowId)) return null;
    if (dictionary) {
      int code = code(rowId);
      UTF8String entry = entries[code];
      return entry != null ? entry : makeEntry(code);
    }
    return stringAt(rowId);
  }

  private UTF8String makeEntry(int code) {
    UTF8String inPlace = stringAt(code);
    UTF8String entry = entriesUsed <= HEAP_ENTRIES_MAX ? UTF8String.fromBytes(inPlace.getBytes()) : inPlace;
    entries[code] = entry;
    return entry;
  }

  private UTF8String stringAt(int index) {
    long onLine = index * slope;
    long offset = offsets + (long) index * offsetWidth;
    long start = start(onLine, offset);
    return UTF8String.fromAddress(null, start, (int) (start(onLine + slope, offset + offsetWidth) - start));
  }

  @Override
  public byte[] getBinary(int rowId) {
    if (isNullAt(rowId)) return null;
    int index = dictionary ? code(rowId) : rowId;
    long onLine = index * slope;
    long offset = offsets + (long) index * offsetWidth;
    long start = start(onLine, offset);
    byte[] value = new byte[(int) (start(onLine + slope, offset + offsetWidth) - start)];
    Platform.copyMemory(null, start, value, Platform.BYTE_ARRAY_OFFSET, value.length);
    return value;
  }

  /** Where the bytes of a value that is not null are. */
  final UTF8String place(int rowId) {
    return stringAt(dictionary ? code(rowId) : rowId);
  }

  /** In a dictionary that is smaller than the selection, each value is looked at once. */
  @Override
  public void keepMatching(Selection selection, Predicate<UTF8String> matches, boolean nullsToo) {
    if (!nullsToo) keepPresent(selection);
    boolean[] known = dictionary && entriesUsed <= selection.count() ? matching(matches) : null;
    int[] rows = selection.rows();
    int kept = 0;
    for (int i = 0; i < selection.count(); i++) {
      int row = rows[i];
      rows[kept] = row;
      kept += isNullAt(row) || (known != null ? known[code(row)] : matches.test(getUTF8String(row))) ? 1 : 0;
    }
    selection.truncate(kept);
  }

  private boolean[] matching(Predicate<UTF8String> matches) {
    boolean[] known = new boolean[entriesUsed];
    for (int code = 0; code < known.length; code++) {
      UTF8String entry = entries[code];
      known[code] = matches.test(entry != null ? entry : makeEntry(code));
    }
    return known;
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    if (dictionary) {
      if (codeWidth == 0) return;
      long to = allocate.applyAsLong(Gather.bytes(selection.count(), codeWidth));
      Gather.shorts(codes, codeWidth, selection, to);
      codes = to;
    } else {
      compactBytes(selection, allocate);
    }
  }

  /** Values one behind the other again, with their offsets as they are. */
  private void compactBytes(Selection selection, LongUnaryOperator allocate) {
    int kept = selection.count();
    long ends = allocate.applyAsLong(8L * (kept + 1));
    Platform.putLong(null, ends, 0);
    long sum = 0;
    for (int i = 0; i < kept; i++) {
      int row = selection.row(i);
      sum += startOf(row + 1) - startOf(row);
      Platform.putLong(null, ends + 8L * (i + 1), sum);
    }
    long to = allocate.applyAsLong(Layout.align(Math.max(sum, 1)));
    for (int i = 0; i < kept; i++) {
      long start = startOf(selection.row(i));
      Platform.copyMemory(null, start, null, to + Platform.getLong(null, ends + 8L * i),
          startOf(selection.row(i) + 1) - start);
    }
    offsets = ends;
    offsetWidth = Long.BYTES;
    offsetMask = -1;
    slope = 0;
    bytes = to;
    base = 0;
    length = sum;
    count = kept;
  }

  private long startOf(int index) {
    return start(index * slope, offsets + (long) index * offsetWidth);
  }
}
