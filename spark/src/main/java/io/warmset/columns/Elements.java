package io.warmset.columns;

import org.apache.spark.sql.catalyst.expressions.UnsafeArrayData;
import org.apache.spark.sql.catalyst.util.ArrayData;
import org.apache.spark.unsafe.Platform;

/** Where the elements of an array lie in memory, for arrays of fixed-size elements none of which is null. */
final class Elements {
  private Elements() {}

  /** The array as one whose elements may be read in bulk, or null when it is of another make or has nulls. */
  static UnsafeArrayData withoutNulls(ArrayData array, int count) {
    if (!(array instanceof UnsafeArrayData)) return null;
    UnsafeArrayData unsafe = (UnsafeArrayData) array;
    Object object = unsafe.getBaseObject();
    long bits = unsafe.getBaseOffset() + 8;
    for (int word = 0; word < (count + 63) >>> 6; word++) {
      if (Platform.getLong(object, bits + 8L * word) != 0) return null;
    }
    return unsafe;
  }

  /** Offset of the first element behind the count and the null bits. */
  static long first(UnsafeArrayData array, int count) {
    return array.getBaseOffset() + UnsafeArrayData.calculateHeaderPortionInBytes(count);
  }
}
