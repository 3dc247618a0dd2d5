package io.warmset.columns;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.catalyst.expressions.GenericInternalRow;
import org.apache.spark.sql.catalyst.expressions.UnsafeRow;
import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.vectorized.ColumnVector;

/**
 * Collects batches of rows, or of columns, and writes each as one run of bytes per column.
 *
 * <pre>
 * while there is input:
 *   append rows or columns until rows() or bufferedBytes() says that the batch is large enough
 *   meta = finish()                      chooses the encodings
 *   for each column c: writeTo(c, address of meta.bytes(c) bytes, aligned to 8)
 *   stats()                              if wanted
 *   reset()
 * close()
 * </pre>
 *
 * Values are copied when appended: rows and vectors may be reused by the caller. Working memory is off-heap, is
 * about two times the largest batch, and is kept until {@link #close}. Not thread-safe.
 */
public final class BatchEncoder implements AutoCloseable {
  private final ColumnEncoder[] encoders;
  private final RowStage stage;
  private final WordSink words = new WordSink();
  private int rows;
  private boolean finished;

  /** @throws IllegalArgumentException for a type that {@link ColumnTypes#supports} denies */
  public BatchEncoder(DataType[] types) {
    for (DataType type : types) {
      if (!ColumnTypes.supports(type)) throw ColumnTypes.unsupported(type);
    }
    encoders = new ColumnEncoder[types.length];
    for (int c = 0; c < types.length; c++) encoders[c] = ColumnEncoder.create(types[c]);
    stage = new RowStage(types.length);
  }

  /** Appends one row of as many fields as there are columns. */
  public void append(InternalRow row) {
    if (finished) throw notReset();
    if (row.numFields() != encoders.length) {
      throw new IllegalArgumentException("a row of " + row.numFields() + " fields for " + encoders.length + " columns");
    }
    rows++;
    if (row instanceof UnsafeRow) {
      if (stage.add((UnsafeRow) row)) drainStage();
      return;
    }
    drainStage();
    for (int c = 0; c < encoders.length; c++) encoders[c].append(row, c);
  }

  /** Appends rows `[from, from + count)` of vectors, one per column. */
  public void append(ColumnVector[] vectors, int from, int count) {
    if (finished) throw notReset();
    if (vectors.length != encoders.length) {
      throw new IllegalArgumentException(vectors.length + " vectors for " + encoders.length + " columns");
    }
    drainStage();
    rows += count;
    for (int c = 0; c < encoders.length; c++) encoders[c].appendColumn(vectors[c], from, count);
  }

  private void drainStage() {
    if (stage.count() == 0) return;
    RowStage.Rows staged = stage.rows();
    for (int c = 0; c < encoders.length; c++) encoders[c].appendStaged(staged, c);
    stage.clear();
  }

  private static IllegalStateException notReset() {
    return new IllegalStateException("the batch is finished; call reset() before the next one");
  }

  /** Rows appended since the last reset. */
  public int rows() {
    return rows;
  }

  /** Bytes appended since the last reset, before any encoding. */
  public long bufferedBytes() {
    long sum = stage.bytes();
    for (ColumnEncoder encoder : encoders) sum += encoder.bufferedBytes();
    return sum;
  }

  /** Ends the batch and chooses its encodings. Call once per batch. */
  public BatchMeta finish() {
    if (finished) throw notReset();
    drainStage();
    finished = true;
    words.clear();
    words.add((rows & 0xFFFFFFFFL) | (long) encoders.length << 32);
    for (int c = 0; c < 2 * encoders.length; c++) words.add(0);
    for (int c = 0; c < encoders.length; c++) {
      encoders[c].finish();
      words.set(1 + 2 * c, words.length());
      words.set(2 + 2 * c, encoders[c].bytes());
      encoders[c].describe(words);
    }
    return new BatchMeta(words.toArray());
  }

  /** Writes column `column` of the finished batch: exactly {@link BatchMeta#bytes(int)} bytes at `address`. */
  public void writeTo(int column, long address) {
    if (!finished) throw new IllegalStateException("the batch is not finished; call finish() before writeTo()");
    long bytes = encoders[column].bytes();
    long end = encoders[column].write(address);
    if (end != address + bytes) {
      throw new AssertionError("column " + column + " wrote " + (end - address) + " bytes, announced " + bytes);
    }
  }

  /**
   * Statistics of the finished batch in the form that SimpleMetricsCachedBatch wants: per column lower bound, upper
   * bound, number of nulls, number of rows, size in bytes as Spark's own cache would count it.
   */
  public InternalRow stats() {
    if (!finished) throw new IllegalStateException("the batch is not finished; call finish() before stats()");
    Object[] values = new Object[5 * encoders.length];
    for (int c = 0; c < encoders.length; c++) {
      encoders[c].bounds(values, 5 * c, 5 * c + 1);
      values[5 * c + 2] = encoders[c].nulls;
      values[5 * c + 3] = rows;
      values[5 * c + 4] = encoders[c].sparkBytes();
    }
    return new GenericInternalRow(values);
  }

  /** Adds the finished batch's values to sketches, one per column; null for a column that is left out. */
  public void sketch(DistinctSketch[] into) {
    if (!finished) throw new IllegalStateException("the batch is not finished; call finish() before sketch()");
    for (int c = 0; c < encoders.length; c++) {
      if (into[c] != null) encoders[c].sketch(into[c]);
    }
  }

  /**
   * A column of whole numbers, cut where two of the finished batch that follow one another are furthest apart: the least and the
   * greatest before, and the least and the greatest from there on. Null where all are equal, or are none.
   */
  public long[] halves(int column) {
    if (!finished) throw new IllegalStateException("the batch is not finished; call finish() before halves()");
    return encoders[column].halves();
  }

  /** Forgets the batch and keeps the memory. */
  public void reset() {
    for (ColumnEncoder encoder : encoders) encoder.reset();
    stage.clear();
    rows = 0;
    finished = false;
  }

  /** Frees the working memory. Idempotent; no other call may follow. */
  @Override
  public void close() {
    for (ColumnEncoder encoder : encoders) encoder.close();
    stage.close();
  }
}
