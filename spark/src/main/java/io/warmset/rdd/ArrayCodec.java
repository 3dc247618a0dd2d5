package io.warmset.rdd;

import java.lang.reflect.Array;

/** Arrays of references: how many, then an id and a payload each. */
final class ArrayCodec extends ClassCodec {
  private final Class<?> component;

  ArrayCodec(Class<?> component) {
    this.component = component;
  }

  @Override
  void write(Object value, ByteSink sink, ElementCoder coder) {
    Object[] array = (Object[]) value;
    Raw.U.putInt(sink.reserve(4), array.length);
    for (Object each : array) coder.writeAny(each, sink);
  }

  @Override
  Object read(ByteSource source, ElementCoder coder) {
    int length = Raw.U.getInt(source.take(4));
    // Each takes an id at least: a damaged length allocates nothing.
    if (length < 0 || 2L * length > source.remaining()) {
      throw source.damaged("an array of " + length);
    }
    Object[] array = (Object[]) Array.newInstance(component, length);
    for (int i = 0; i < length; i++) {
      Object each = coder.readAny(source);
      if (each != null) array[i] = ElementCoder.checked(each, component, source);
    }
    return array;
  }

  @Override
  boolean hasIdentity(Object value) {
    return ((Object[]) value).length > 0;
  }
}
