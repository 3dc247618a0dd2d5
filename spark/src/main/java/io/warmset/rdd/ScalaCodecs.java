package io.warmset.rdd;

import java.lang.reflect.Field;
import java.lang.reflect.Method;
import java.lang.reflect.Modifier;

import scala.collection.immutable.$colon$colon;
import scala.collection.immutable.List;
import scala.collection.immutable.Nil$;
import scala.runtime.BoxedUnit;
import scala.runtime.ModuleSerializationProxy;
import sun.misc.Unsafe;

/**
 * Scala's objects, which serialise themselves as the name of their class and are read as
 * themselves, and lists, which serialise themselves as their elements.
 */
final class ScalaCodecs {
  private static final Unsafe U = Raw.U;

  private ScalaCodecs() {}

  /** The codec of a Scala module or list; null for every other class. */
  static ClassCodec of(Class<?> type) {
    if (type == $colon$colon.class) return ListCodec.make();
    if (type == Nil$.class) return new Single(Nil$.MODULE$);
    if (type == BoxedUnit.class) return new Single(BoxedUnit.UNIT);
    Object module = type.getName().endsWith("$") ? module(type) : null;
    return module == null ? null : new Single(module);
  }

  /** The only instance, if the class is a module that says so when it is serialised. */
  private static Object module(Class<?> type) {
    try {
      Method writeReplace = type.getDeclaredMethod("writeReplace");
      Field instance = type.getDeclaredField("MODULE$");
      if (!Modifier.isStatic(instance.getModifiers()) || instance.getType() != type) return null;
      instance.setAccessible(true);
      writeReplace.setAccessible(true);
      Object module = instance.get(null);
      if (module == null || !(writeReplace.invoke(module) instanceof ModuleSerializationProxy)) {
        return null;
      }
      return module;
    } catch (ReflectiveOperationException | RuntimeException | LinkageError e) {
      return null;
    }
  }

  /** No payload: there is one such object. */
  private static final class Single extends ClassCodec {
    private final Object instance;

    Single(Object instance) {
      this.instance = instance;
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      if (value != instance) throw ElementCoder.Refusal.SECOND;
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      return instance;
    }

    @Override
    boolean hasIdentity(Object value) {
      return false;
    }
  }

  /** A list that is not empty: how many, then an id and a payload each. */
  private static final class ListCodec extends ClassCodec {
    private final long next;

    private ListCodec(long next) {
      this.next = next;
    }

    static ClassCodec make() {
      try {
        return new ListCodec(U.objectFieldOffset($colon$colon.class.getDeclaredField("next")));
      } catch (NoSuchFieldException e) {
        return new None("this Scala's lists are made otherwise", false);
      }
    }

    @Override
    void write(Object value, ByteSink sink, ElementCoder coder) {
      long lengthAt = sink.position();
      sink.reserve(4);
      int length = 0;
      for (List<?> at = (List<?>) value; at != Nil$.MODULE$; at = (List<?>) at.tail()) {
        coder.writeAny(at.head(), sink);
        length++;
      }
      U.putInt(sink.address() + lengthAt, length);
    }

    @Override
    Object read(ByteSource source, ElementCoder coder) {
      int length = U.getInt(source.take(4));
      if (length <= 0) throw source.damaged("a list of " + length);
      Object first = cell(coder.readAny(source));
      Object last = first;
      for (int i = 1; i < length; i++) {
        Object cell = cell(coder.readAny(source));
        U.putObject(last, next, cell);
        last = cell;
      }
      return first;
    }

    @SuppressWarnings({"unchecked", "rawtypes"})
    private static Object cell(Object head) {
      return new $colon$colon(head, (List) Nil$.MODULE$);
    }
  }
}
