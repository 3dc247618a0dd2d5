package io.warmset.columns;

import org.apache.spark.sql.types.DataType;

/** Which vector class reads which type. */
final class VectorFactory {
  private VectorFactory() {}

  static WarmVector create(DataType type) {
    DataType sql = ColumnTypes.sqlType(type);
    switch (ColumnTypes.kindOf(sql)) {
      case Layout.NULL:
        return new WarmNullVector(type);
      case Layout.BOOLEAN:
        return new WarmBooleanVector(type);
      case Layout.INT:
        return new WarmIntVector(type);
      case Layout.LONG:
        return new WarmLongVector(type);
      case Layout.FLOAT:
        return new WarmFloatVector(type);
      case Layout.DOUBLE:
        return new WarmDoubleVector(type);
      case Layout.DECIMAL:
        return new WarmDecimalVector(type);
      case Layout.BYTES:
        return ColumnTypes.isSpatial(sql) ? new WarmSpatialVector(type) : new WarmBytesVector(type);
      case Layout.STRUCT:
        return new WarmStructVector(type);
      case Layout.ARRAY:
        return new WarmArrayVector(type);
      case Layout.MAP:
        return new WarmMapVector(type);
      default:
        throw ColumnTypes.unsupported(type);
    }
  }

  static Class<? extends WarmVector> vectorClass(DataType type) {
    DataType sql = ColumnTypes.sqlType(type);
    switch (ColumnTypes.kindOf(sql)) {
      case Layout.NULL:
        return WarmNullVector.class;
      case Layout.BOOLEAN:
        return WarmBooleanVector.class;
      case Layout.INT:
        return WarmIntVector.class;
      case Layout.LONG:
        return WarmLongVector.class;
      case Layout.FLOAT:
        return WarmFloatVector.class;
      case Layout.DOUBLE:
        return WarmDoubleVector.class;
      case Layout.DECIMAL:
        return WarmDecimalVector.class;
      case Layout.BYTES:
        return ColumnTypes.isSpatial(sql) ? WarmSpatialVector.class : WarmBytesVector.class;
      case Layout.STRUCT:
        return WarmStructVector.class;
      case Layout.ARRAY:
        return WarmArrayVector.class;
      case Layout.MAP:
        return WarmMapVector.class;
      default:
        throw ColumnTypes.unsupported(type);
    }
  }

  static WarmVector[] createChildren(DataType type) {
    DataType[] types = ColumnTypes.childTypes(ColumnTypes.sqlType(type));
    WarmVector[] children = new WarmVector[types.length];
    for (int i = 0; i < types.length; i++) children[i] = create(types[i]);
    return children;
  }
}
