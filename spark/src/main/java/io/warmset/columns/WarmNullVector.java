package io.warmset.columns;

import java.util.function.LongUnaryOperator;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.sql.types.Decimal;
import org.apache.spark.unsafe.types.UTF8String;

/** A column of Spark's null type: no bytes, every row null. */
public final class WarmNullVector extends WarmVector {
  WarmNullVector(DataType type) {
    super(type);
  }

  @Override
  void bindNode(Cursor cursor, int rows) {
    bindHeader(cursor, Layout.NULL, rows);
  }

  @Override
  public Decimal getDecimal(int rowId, int precision, int scale) {
    return null;
  }

  @Override
  public UTF8String getUTF8String(int rowId) {
    return null;
  }

  @Override
  public byte[] getBinary(int rowId) {
    return null;
  }

  @Override
  void compactValues(Selection selection, LongUnaryOperator allocate) {
    // No values.
  }
}
