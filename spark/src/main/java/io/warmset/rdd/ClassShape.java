package io.warmset.rdd;

import java.io.Serializable;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * The fields of a class that are written, and where each lies in its objects and in the bytes.
 *
 * <p>An object is a fixed part, with a slot for each field, and behind it what its references
 * lead to, in the order of the slots, which are ordered by their size.
 */
final class ClassShape {
  /** What a slot holds. */
  enum Kind {
    /** The value. */
    PRIMITIVE,
    /** The length, -1 for null; behind it the values. */
    PRIMITIVE_ARRAY,
    /** The word of {@link Strings}; behind it the bytes. */
    STRING,
    /** The id of the object's class, 0 for null; behind it its payload. */
    ANY,
    /** 1, or 0 for null; behind it the payload of the one class that it can be. */
    INLINED
  }

  /** A field. `at` is the place of its slot, `offset` its place in an object. */
  static final class Slot {
    final String name;
    final Class<?> type;
    final Kind kind;
    final long offset;
    final ClassCodec inlined;
    int at;

    private Slot(Field field, Kind kind, ClassCodec inlined) {
      this.name = field.getName();
      this.type = field.getType();
      this.kind = kind;
      this.offset = Raw.U.objectFieldOffset(field);
      this.inlined = inlined;
    }

    int bytes() {
      switch (kind) {
        case PRIMITIVE:
          return primitiveBytes(type);
        case ANY:
          return 2;
        case INLINED:
          return 1;
        default:
          return 4;
      }
    }
  }

  /** Ordered by place. */
  final List<Slot> slots;
  final int fixedBytes;

  private ClassShape(List<Slot> slots, int fixedBytes) {
    this.slots = slots;
    this.fixedBytes = fixedBytes;
  }

  /** The class has a shape that no codec can be made for. */
  static final class Unfit extends Exception {
    Unfit(String message) {
      super(message, null, false, false);
    }
  }

  static ClassShape of(Class<?> type) throws Unfit {
    List<Slot> slots = new ArrayList<>();
    try {
      for (Class<?> at = type; Serializable.class.isAssignableFrom(at); at = at.getSuperclass()) {
        for (Field field : at.getDeclaredFields()) {
          if ((field.getModifiers() & (Modifier.STATIC | Modifier.TRANSIENT)) == 0) {
            slots.add(slot(field));
          }
        }
      }
    } catch (LinkageError | RuntimeException e) {
      throw new Unfit(type.getName() + " does not show its fields: " + e);
    }
    if (slots.size() > Qualification.FIELDS_MAX) {
      throw new Unfit(type.getName() + " has more than " + Qualification.FIELDS_MAX + " fields");
    }
    slots.sort(Comparator.comparingInt(slot -> -slot.bytes()));
    int bytes = 0;
    for (Slot slot : slots) {
      slot.at = bytes;
      bytes += slot.bytes();
    }
    return new ClassShape(slots, bytes);
  }

  private static Slot slot(Field field) {
    Class<?> type = field.getType();
    if (type.isPrimitive()) return new Slot(field, Kind.PRIMITIVE, null);
    if (PrimitiveArrays.is(type)) return new Slot(field, Kind.PRIMITIVE_ARRAY, null);
    if (type == String.class) return new Slot(field, Kind.STRING, null);
    ClassCodec inlined = Codecs.inlined(type);
    return new Slot(field, inlined == null ? Kind.ANY : Kind.INLINED, inlined);
  }

  private static int primitiveBytes(Class<?> type) {
    if (type == long.class || type == double.class) return 8;
    if (type == int.class || type == float.class) return 4;
    return type == short.class || type == char.class ? 2 : 1;
  }
}
