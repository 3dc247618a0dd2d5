package io.warmset.columns;

import org.apache.spark.sql.execution.vectorized.OnHeapColumnVector;
import org.apache.spark.sql.vectorized.ColumnVector;

/** The loops of the read benchmark: one per concrete class, like generated code, with the null test it makes. */
final class ReadLoops {
  private ReadLoops() {}

  static long longs(ColumnVector vector, int rows) {
    WarmLongVector v = (WarmLongVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getLong(i);
    return sum;
  }

  static long sparkLongs(ColumnVector vector, int rows) {
    OnHeapColumnVector v = (OnHeapColumnVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getLong(i);
    return sum;
  }

  static long ints(ColumnVector vector, int rows) {
    WarmIntVector v = (WarmIntVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getInt(i);
    return sum;
  }

  static long sparkInts(ColumnVector vector, int rows) {
    OnHeapColumnVector v = (OnHeapColumnVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getInt(i);
    return sum;
  }

  static long doubles(ColumnVector vector, int rows) {
    WarmDoubleVector v = (WarmDoubleVector) vector;
    double sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getDouble(i);
    return (long) sum;
  }

  static long sparkDoubles(ColumnVector vector, int rows) {
    OnHeapColumnVector v = (OnHeapColumnVector) vector;
    double sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getDouble(i);
    return (long) sum;
  }

  static long booleans(ColumnVector vector, int rows) {
    WarmBooleanVector v = (WarmBooleanVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i) && v.getBoolean(i)) sum++;
    return sum;
  }

  static long sparkBooleans(ColumnVector vector, int rows) {
    OnHeapColumnVector v = (OnHeapColumnVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i) && v.getBoolean(i)) sum++;
    return sum;
  }

  static long strings(ColumnVector vector, int rows) {
    WarmBytesVector v = (WarmBytesVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getUTF8String(i).numBytes();
    return sum;
  }

  static long sparkStrings(ColumnVector vector, int rows) {
    OnHeapColumnVector v = (OnHeapColumnVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getUTF8String(i).numBytes();
    return sum;
  }

  static long decimals(ColumnVector vector, int rows) {
    WarmLongVector v = (WarmLongVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getDecimal(i, 15, 2).toUnscaledLong();
    return sum;
  }

  static long sparkDecimals(ColumnVector vector, int rows) {
    OnHeapColumnVector v = (OnHeapColumnVector) vector;
    long sum = 0;
    for (int i = 0; i < rows; i++) if (!v.isNullAt(i)) sum += v.getDecimal(i, 15, 2).toUnscaledLong();
    return sum;
  }
}
