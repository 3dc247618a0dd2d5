package io.warmset.columns;

import org.apache.spark.sql.types.DataType;
import org.apache.spark.unsafe.types.BinaryView;
import org.apache.spark.unsafe.types.UTF8String;

/** Geometries and geographies, handed out where they lie. */
public final class WarmSpatialVector extends WarmBytesVector {
  WarmSpatialVector(DataType type) {
    super(type);
  }

  @Override
  public BinaryView getBinaryView(int rowId) {
    if (isNullAt(rowId)) return null;
    UTF8String value = place(rowId);
    return BinaryView.fromAddress(null, value.getBaseOffset(), value.numBytes());
  }
}
