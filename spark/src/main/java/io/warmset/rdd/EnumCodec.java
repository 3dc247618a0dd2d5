package io.warmset.rdd;

/** Constants of a Java enum, by their place in it. */
final class EnumCodec extends ClassCodec {
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

  @Override
  boolean hasIdentity(Object value) {
    return false;
  }
}
