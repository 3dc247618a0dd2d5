package io.warmset.columns;

import org.apache.spark.sql.types.*;

/**
 * Which node a Spark type is stored as. The one place that knows Spark's types; user-defined types are stored as
 * their SQL type. A type that is not listed is not supported, and {@link #supports} says so.
 */
public final class ColumnTypes {
  private ColumnTypes() {}

  /** Whether columns of this type, and everything nested in it, can be encoded and read on this machine. */
  public static boolean supports(DataType type) {
    return Layout.platformSupported() && supportsTree(type);
  }

  private static boolean supportsTree(DataType type) {
    DataType sql = sqlType(type);
    switch (kindOf(sql)) {
      case 0:
        return false;
      case Layout.STRUCT:
        if (sql instanceof StructType) {
          for (StructField field : ((StructType) sql).fields()) {
            if (!supportsTree(field.dataType())) return false;
          }
        }
        return true;
      case Layout.ARRAY:
        return supportsTree(((ArrayType) sql).elementType());
      case Layout.MAP:
        return supportsTree(((MapType) sql).keyType()) && supportsTree(((MapType) sql).valueType());
      default:
        return true;
    }
  }

  /** The SQL type behind (possibly several layers of) user-defined types. */
  static DataType sqlType(DataType type) {
    DataType sql = type;
    while (sql instanceof UserDefinedType) sql = ((UserDefinedType<?>) sql).sqlType();
    return sql;
  }

  /** The kind of the root node, 0 when the type is not supported. Expects {@link #sqlType}. */
  static int kindOf(DataType sql) {
    if (sql instanceof BooleanType) return Layout.BOOLEAN;
    if (sql instanceof ByteType || sql instanceof ShortType || sql instanceof IntegerType || sql instanceof DateType
        || sql instanceof YearMonthIntervalType) {
      return Layout.INT;
    }
    if (sql instanceof LongType || sql instanceof TimestampType || sql instanceof TimestampNTZType
        || sql instanceof DayTimeIntervalType || sql instanceof TimeType) {
      return Layout.LONG;
    }
    if (sql instanceof FloatType) return Layout.FLOAT;
    if (sql instanceof DoubleType) return Layout.DOUBLE;
    if (sql instanceof DecimalType) return isLongDecimal(sql) ? Layout.LONG : Layout.DECIMAL;
    if (sql instanceof StringType || sql instanceof CharType || sql instanceof VarcharType || sql instanceof BinaryType
        || isSpatial(sql)) {
      return Layout.BYTES;
    }
    if (sql instanceof StructType || sql instanceof CalendarIntervalType || sql instanceof VariantType) return Layout.STRUCT;
    if (sql instanceof ArrayType) return Layout.ARRAY;
    if (sql instanceof MapType) return Layout.MAP;
    if (sql instanceof NullType) return Layout.NULL;
    return 0;
  }

  static boolean isLongDecimal(DataType sql) {
    return sql instanceof DecimalType && ((DecimalType) sql).precision() <= Decimal.MAX_LONG_DIGITS();
  }

  static boolean isSpatial(DataType sql) {
    return (sql instanceof GeometryType || sql instanceof GeographyType) && SpatialValues.SUPPORTED;
  }

  /** The types of a node's children, in order: fields; months, days, microseconds; value, metadata; element; key, value. */
  static DataType[] childTypes(DataType sql) {
    if (sql instanceof StructType) {
      StructField[] fields = ((StructType) sql).fields();
      DataType[] types = new DataType[fields.length];
      for (int i = 0; i < types.length; i++) types[i] = fields[i].dataType();
      return types;
    }
    if (sql instanceof CalendarIntervalType) {
      return new DataType[] {DataTypes.IntegerType, DataTypes.IntegerType, DataTypes.LongType};
    }
    if (sql instanceof VariantType) return new DataType[] {DataTypes.BinaryType, DataTypes.BinaryType};
    if (sql instanceof ArrayType) return new DataType[] {((ArrayType) sql).elementType()};
    if (sql instanceof MapType) return new DataType[] {((MapType) sql).keyType(), ((MapType) sql).valueType()};
    return new DataType[0];
  }

  static IllegalArgumentException unsupported(DataType type) {
    return new IllegalArgumentException("Warmset cannot store columns of type " + type.sql()
        + "; ask ColumnTypes.supports first and leave such a relation to Spark's own cache");
  }
}
