package io.warmset.rdd;

import java.lang.reflect.Modifier;
import java.util.HashSet;
import java.util.Set;

import org.apache.spark.sql.types.StructType;
import scala.reflect.ClassTag;

/**
 * The codec of every class, made when it is first asked for.
 *
 * <p>Invariant: a codec is reachable from its class alone (and from the coders that use it), so a
 * class loader can go when the user's classes do.
 */
final class Codecs {
  private static final ClassValue<ClassCodec> KNOWN = new ClassValue<>() {
    @Override
    protected ClassCodec computeValue(Class<?> type) {
      return make(type);
    }
  };

  /** Classes whose codecs this thread is making: a cycle of final classes ends at one of them. */
  private static final ThreadLocal<Set<Class<?>>> IN_THE_MAKING =
      ThreadLocal.withInitial(HashSet::new);

  private Codecs() {}

  /** The codec of the class, or a {@link ClassCodec.None} that says why there is none. */
  static ClassCodec of(Class<?> type) {
    return KNOWN.get(type);
  }

  /** The codec that a field of the type needs no id for; null if the field needs one. */
  static ClassCodec inlined(Class<?> type) {
    if (!Modifier.isFinal(type.getModifiers()) || type.isArray()) return null;
    if (IN_THE_MAKING.get().contains(type)) return null;
    ClassCodec codec = of(type);
    return codec instanceof ClassCodec.None ? null : codec;
  }

  private static ClassCodec make(Class<?> type) {
    String leftAlone = Qualification.leftAlone(type);
    if (leftAlone != null) return new ClassCodec.None(leftAlone, true);
    ClassCodec special = special(type);
    if (special != null) return special;
    String refusal = Qualification.refusal(type);
    if (refusal != null) return new ClassCodec.None(refusal, false);
    Set<Class<?>> inTheMaking = IN_THE_MAKING.get();
    inTheMaking.add(type);
    try {
      return CodecCompiler.compile(type, ClassShape.of(type));
    } catch (ClassShape.Unfit e) {
      return new ClassCodec.None(e.getMessage(), false);
    } finally {
      inTheMaking.remove(type);
      if (inTheMaking.isEmpty()) IN_THE_MAKING.remove();
    }
  }

  private static ClassCodec special(Class<?> type) {
    if (type.isArray()) {
      if (PrimitiveArrays.is(type)) return PrimitiveArrays.codec(type);
      return new ArrayCodec(type.getComponentType());
    }
    if (Enum.class.isAssignableFrom(type)) return ValueCodecs.EnumCodec.of(type);
    // Immutable, and the same for many elements: kept once per partition.
    if (type == Class.class || type == StructType.class || ClassTag.class.isAssignableFrom(type)) {
      return new ValueCodecs.ConstantCodec(type);
    }
    ClassCodec value = ValueCodecs.of(type);
    return value != null ? value : ScalaCodecs.of(type);
  }
}
