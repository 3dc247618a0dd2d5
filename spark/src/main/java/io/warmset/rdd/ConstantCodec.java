package io.warmset.rdd;

/** Immutable objects that many elements share: the coder keeps them, elements hold a number. */
final class ConstantCodec extends ClassCodec {
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

  @Override
  boolean hasIdentity(Object value) {
    return false;
  }
}
