package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.SpecializedGetters;
import org.apache.spark.sql.types.BinaryType;
import org.apache.spark.sql.types.CharType;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.StringType;
import org.apache.spark.sql.types.VarcharType;
import org.apache.spark.sql.vectorized.ColumnVector;
import org.apache.spark.unsafe.Platform;
import org.apache.spark.unsafe.types.UTF8String;

/**
 * Strings, binaries and spatial values: collected one behind the other with their ends, written either so or as a
 * dictionary, whichever takes fewer bytes.
 */
final class BytesEncoder extends ColumnEncoder {
  private enum Source { STRING, BINARY, SPATIAL }

  /** Rows per distinct value from which a dictionary is preferred at about the same size. */
  private static final int REPEATS_MIN = 64;
  /** What does not matter next to a batch of that many rows. */
  private static final int SMALL_BYTES = 64;

  private final Source source;
  private final BytesBounds bounds;

  private final GrowBuffer bytes = new GrowBuffer();
  private final GrowBuffer ends = new GrowBuffer();
  private long length;

  private final BytesDictionary dictionary = new BytesDictionary();
  private final OffsetLine offsets = new OffsetLine();
  private boolean useDictionary;
  private int codeWidth;

  BytesEncoder(DataType sql) {
    boolean string = sql instanceof StringType || sql instanceof CharType || sql instanceof VarcharType;
    source = string ? Source.STRING : sql instanceof BinaryType ? Source.BINARY : Source.SPATIAL;
    // Bounds in the order of another collation would prune nothing: see BatchStatistics.
    boolean binaryOrder = string && (!(sql instanceof StringType) || ((StringType) sql).collationId() == 0);
    bounds = binaryOrder ? new BytesBounds() : null;
  }

  long bytesAddress() {
    return bytes.address();
  }

  /** Where the value of `row` ends, counted from the first byte collected. */
  long end(int row) {
    return Platform.getLong(null, ends.address() + 8L * row);
  }

  private void putEnd() {
    ends.ensure((rows + 1L) * 8, rows * 8L);
    Platform.putLong(null, ends.address() + rows * 8L, length);
  }

  void put(Object from, long offset, int count) {
    bytes.ensure(length + count, length);
    Platform.copyMemory(from, offset, null, bytes.address() + length, count);
    length += count;
    putEnd();
    present();
  }

  void put(byte[] value) {
    put(value, Platform.BYTE_ARRAY_OFFSET, value.length);
  }

  private void put(UTF8String value) {
    put(value.getBaseObject(), value.getBaseOffset(), value.numBytes());
  }

  @Override
  void appendNull() {
    putEnd();
    absent();
  }

  @Override
  void append(SpecializedGetters from, int ordinal) {
    if (from.isNullAt(ordinal)) {
      appendNull();
      return;
    }
    switch (source) {
      case STRING:
        put(from.getUTF8String(ordinal));
        break;
      case BINARY:
        put(from.getBinary(ordinal));
        break;
      case SPATIAL:
        SpatialValues.put(from, ordinal, this);
        break;
    }
  }

  @Override
  void appendStaged(RowStage.Rows staged, int ordinal) {
    for (int r = 0; r < staged.count; r++) {
      if (staged.isNull(r, ordinal)) {
        appendNull();
        continue;
      }
      long place = Platform.getLong(null, staged.field(r, ordinal));
      int count = (int) place;
      long from = staged.addresses[r] + (place >>> 32);
      bytes.ensure(length + count, length);
      long to = bytes.address() + length;
      if (count <= 64) {
        // Values in an UnsafeRow are padded to whole words, and so is our buffer.
        for (int at = 0; at < count; at += 8) Platform.putLong(null, to + at, Platform.getLong(null, from + at));
      } else {
        Platform.copyMemory(null, from, null, to, count);
      }
      length += count;
      putEnd();
      present();
    }
  }

  @Override
  void appendColumn(ColumnVector vector, int from, int count) {
    boolean mayBeNull = vector.hasNull();
    for (int i = from; i < from + count; i++) {
      if (mayBeNull && vector.isNullAt(i)) {
        appendNull();
        continue;
      }
      switch (source) {
        case STRING:
          put(vector.getUTF8String(i));
          break;
        case BINARY:
          put(vector.getBinary(i));
          break;
        case SPATIAL:
          SpatialValues.put(vector, i, this);
          break;
      }
    }
  }

  @Override
  void finish() {
    // Values are read as whole words, even where all are empty.
    bytes.ensure(Math.max(length, 1), length);
    offsets.plan(ends.address(), rows);
    long plain = offsets.bytes() + Layout.align(length);
    useDictionary = rows != 0 && dictionary.build(this);
    if (!useDictionary) return;
    offsets.plan(dictionary.ends(), dictionary.entries());
    codeWidth = Layout.widthOf(Math.max(0, dictionary.entries() - 1));
    long coded = Layout.valueBytes(rows, codeWidth, Short.BYTES) + offsets.bytes() + Layout.align(dictionary.length());
    if (coded < mostCoded(plain)) {
      dictionary.succeeded();
    } else {
      dictionary.failed();
      useDictionary = false;
      offsets.plan(ends.address(), rows);
    }
  }

  /**
   * What a dictionary may take: less than the plain values, or hardly more if few strings come again and again, since
   * those are handed out without being made again for each row.
   */
  private long mostCoded(long plain) {
    return dictionary.entries() <= rows / REPEATS_MIN ? plain + plain / 16 + SMALL_BYTES : plain - plain / 16;
  }

  private long dataLength() {
    return useDictionary ? dictionary.length() : length;
  }

  @Override
  void describe(WordSink words) {
    int flags = useDictionary ? Layout.FLAG_DICTIONARY : 0;
    words.add(Layout.header(Layout.BYTES, offsets.width, useDictionary ? codeWidth : 0, flags, nulls));
    words.add(useDictionary ? dictionary.entries() : rows);
    words.add(offsets.base);
    words.add(offsets.slope);
    words.add(dataLength());
  }

  private long codeBytes() {
    return useDictionary ? Layout.valueBytes(rows, codeWidth, Short.BYTES) : 0;
  }

  @Override
  long bytes() {
    return Layout.validityBytes(rows, nulls) + codeBytes() + offsets.bytes() + Layout.align(dataLength());
  }

  @Override
  long write(long address) {
    long at = writeValidity(address);
    if (useDictionary) at = writeCodes(at);
    at = offsets.write(at);
    long behind = at + Layout.align(dataLength());
    if (behind == at) return at;
    Platform.putLong(null, behind - 8, 0);
    if (useDictionary) {
      writeEntries(at);
    } else {
      Platform.copyMemory(null, bytes.address(), null, at, length);
    }
    return behind;
  }

  private long writeCodes(long to) {
    long size = codeBytes();
    if (size == 0) return to;
    Platform.putLong(null, to + size - 8, 0);
    long codes = dictionary.codes();
    if (codeWidth == 1) {
      for (int row = 0; row < rows; row++) Platform.putByte(null, to + row, Platform.getByte(null, codes + 2L * row));
    } else {
      Platform.copyMemory(null, codes, null, to, 2L * rows);
    }
    return to + size;
  }

  private void writeEntries(long to) {
    long at = to;
    for (int entry = 0; entry < dictionary.entries(); entry++) {
      int count = dictionary.length(entry);
      Platform.copyMemory(null, bytes.address() + dictionary.start(entry), null, at, count);
      at += count;
    }
  }

  @Override
  long bufferedBytes() {
    return length + 4L * rows;
  }

  @Override
  long sparkBytes() {
    return length + 4L * (rows - nulls) + sparkNullBytes();
  }

  @Override
  void bounds(Object[] stats, int lower, int upper) {
    if (bounds == null || rows == nulls) return;
    bounds.reset();
    long base = bytes.address();
    if (useDictionary) {
      for (int e = 0; e < dictionary.entries(); e++) bounds.note(base + dictionary.start(e), dictionary.length(e));
    } else {
      long start = 0;
      for (int row = 0; row < rows; row++) {
        long end = end(row);
        if (isPresent(row)) bounds.note(base + start, (int) (end - start));
        start = end;
      }
    }
    stats[lower] = bounds.lower();
    stats[upper] = bounds.upper();
  }

  @Override
  void sketch(DistinctSketch into) {
    long base = bytes.address();
    if (useDictionary) {
      for (int e = 0; e < dictionary.entries(); e++) into.add(base + dictionary.start(e), dictionary.length(e));
      return;
    }
    long start = 0;
    for (int row = 0; row < rows; row++) {
      long end = end(row);
      if (isPresent(row)) into.add(base + start, (int) (end - start));
      start = end;
    }
  }

  @Override
  void reset() {
    super.reset();
    bytes.recycle();
    ends.recycle();
    dictionary.recycle();
    length = 0;
    useDictionary = false;
  }

  @Override
  void close() {
    super.close();
    bytes.close();
    ends.close();
    dictionary.close();
  }
}
