package io.warmset.rdd;

import java.math.BigDecimal;
import java.math.BigInteger;
import java.util.Map;

import sun.misc.Unsafe;

/** Boxed primitives, strings, big numbers, constants: values whose identity nobody may rely on. */
final class ValueCodecs {
  private static final Unsafe U = Raw.U;

  private ValueCodecs() {}

  private abstract static class Value extends ClassCodec {
    @Override
    final boolean hasIdentity(Object value) {
      return false;
    }
  }

  private interface Writer {
    void write(long address, Object value);
  }

  private interface Reader {
    Object read(long address);
  }

  /** A value of so many bytes. */
  private static final class Fixed extends Value {
    private final int bytes;
    private final Writer writer;
    private final Reader reader;

    Fixed(int bytes, Writer writer, Reader reader) {
      this.bytes = bytes;
      this.writer = writer;
      this.reader = reader;
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      writer.write(sink.reserve(bytes), value);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      return reader.read(source.take(bytes));
    }
  }

  private static final class StringCodec extends Value {
    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      int word = coder.strings.word((String) value);
      U.putInt(sink.reserve(4), word);
      if (RepeatedStrings.isWhole(word)) Strings.write((String) value, sink);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      int word = U.getInt(source.take(4));
      if (word == Strings.NULL) throw source.damaged("a string without a length");
      return coder.strings.read(word, source);
    }
  }

  private static final class BigIntegerCodec extends Value {
    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      putInteger((BigInteger) value, sink);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      return takeInteger(source);
    }
  }

  private static final class BigDecimalCodec extends Value {
    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      BigDecimal decimal = (BigDecimal) value;
      U.putInt(sink.reserve(4), decimal.scale());
      putInteger(decimal.unscaledValue(), sink);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      int scale = U.getInt(source.take(4));
      return new BigDecimal(takeInteger(source), scale);
    }
  }

  private static void putInteger(BigInteger value, ByteSink sink) {
    byte[] bytes = value.toByteArray();
    U.putInt(sink.reserve(4), bytes.length);
    Raw.copyOut(bytes, Unsafe.ARRAY_BYTE_BASE_OFFSET, sink.reserve(bytes.length), bytes.length);
  }

  private static BigInteger takeInteger(ByteSource source) {
    int length = U.getInt(source.take(4));
    if (length == 0) throw source.damaged("a number without digits");
    byte[] bytes = PrimitiveArrays.readBytes(length, source);
    try {
      return new BigInteger(bytes);
    } catch (ArithmeticException e) {
      throw source.damaged("a number of " + length + " bytes");
    }
  }

  private static final Map<Class<?>, ClassCodec> ALL = Map.ofEntries(
      Map.entry(Boolean.class, new Fixed(1,
          (at, v) -> U.putByte(at, (byte) ((Boolean) v ? 1 : 0)), at -> U.getByte(at) != 0)),
      Map.entry(Byte.class, new Fixed(1, (at, v) -> U.putByte(at, (Byte) v), U::getByte)),
      Map.entry(Short.class, new Fixed(2, (at, v) -> U.putShort(at, (Short) v), U::getShort)),
      Map.entry(Character.class, new Fixed(2, (at, v) -> U.putChar(at, (Character) v), U::getChar)),
      Map.entry(Integer.class, new Fixed(4, (at, v) -> U.putInt(at, (Integer) v), U::getInt)),
      Map.entry(Float.class, new Fixed(4, (at, v) -> U.putFloat(at, (Float) v), U::getFloat)),
      Map.entry(Long.class, new Fixed(8, (at, v) -> U.putLong(at, (Long) v), U::getLong)),
      Map.entry(Double.class, new Fixed(8, (at, v) -> U.putDouble(at, (Double) v), U::getDouble)),
      Map.entry(String.class, new StringCodec()),
      Map.entry(BigInteger.class, new BigIntegerCodec()),
      Map.entry(BigDecimal.class, new BigDecimalCodec()));

  /** The codec of a class of values; null for every other class. */
  static ClassCodec of(Class<?> type) {
    return ALL.get(type);
  }

  /** Immutable objects that many elements share: the coder keeps them, elements hold a number. */
  static final class ConstantCodec extends Value {
    private final Class<?> type;

    ConstantCodec(Class<?> type) {
      this.type = type;
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      Raw.U.putInt(sink.reserve(4), coder.constant(value));
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      int number = Raw.U.getInt(source.take(4));
      return ElementCoder.checked(coder.constantAt(number, source), type, source);
    }
  }

  /** Constants of a Java enum, by their place in it. */
  static final class EnumCodec extends Value {
    private final Object[] constants;

    private EnumCodec(Object[] constants) {
      this.constants = constants;
    }

    /** The class may be that of one constant with a body of its own. */
    static ClassCodec of(Class<?> type) {
      Class<?> at = type;
      while (at != null && !at.isEnum()) at = at.getSuperclass();
      if (at == null) return new ClassCodec.None(type.getName() + " is no enum", false);
      return new EnumCodec(at.getEnumConstants());
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      Raw.U.putInt(sink.reserve(4), ((Enum<?>) value).ordinal());
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      int ordinal = Raw.U.getInt(source.take(4));
      if (ordinal < 0 || ordinal >= constants.length) {
        throw source.damaged("constant " + ordinal + " of an enum of " + constants.length);
      }
      return constants[ordinal];
    }
  }
}
