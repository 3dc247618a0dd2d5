package io.warmset.rdd;

import java.io.Externalizable;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.lang.reflect.Field;
import java.lang.reflect.Modifier;
import java.lang.reflect.Proxy;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.Stream;

import org.apache.spark.sql.catalyst.InternalRow;
import org.apache.spark.sql.columnar.CachedBatch;

/**
 * Which classes may be copied field by field.
 *
 * <p>Invariant: a class qualifies only if Java's serialisation would do just that with it: write
 * the fields that are neither static nor transient, and give an object with those fields and
 * defaults elsewhere.
 */
final class Qualification {
  /** Longer methods are not compiled by the JIT (8000 bytes), and longer yet not loaded. */
  static final int FIELDS_MAX = 100;
  private static final String GRAPHX = "org.apache.spark.graphx.";

  private Qualification() {}

  /** Why objects of the class must stay the objects they are; null if they need not. */
  static String leftAlone(Class<?> type) {
    Class<?> inner = type;
    while (inner.isArray()) inner = inner.getComponentType();
    String name = inner.getName();
    if (AutoCloseable.class.isAssignableFrom(inner)) return name + " is to be closed";
    if (InternalRow.class.isAssignableFrom(inner)) return name + " is a row inside Spark";
    if (CachedBatch.class.isAssignableFrom(inner)) return name + " is a cached batch";
    if (name.startsWith(GRAPHX)) return name + " is GraphX's, which shares arrays";
    return null;
  }

  /** Why a blob, which names its classes, would not be read as this class; null if it would. */
  static String foreign(Class<?> type, ClassLoader loader) {
    Class<?> inner = type;
    while (inner.isArray()) inner = inner.getComponentType();
    ClassLoader from = inner.getClassLoader();
    // The last two are written as what they stand for.
    if (from == null || from == loader || inner.isHidden() || Proxy.isProxyClass(inner)) {
      return null;
    }
    try {
      if (Class.forName(inner.getName(), false, loader) == inner) return null;
    } catch (ClassNotFoundException | LinkageError e) {
      // It cannot be read at all.
    }
    return inner.getName() + " is not the class that the task's class loader knows by that name";
  }

  /**
   * Why Fory's copy of an object would not be what Java's serialisation gives; null if it would. Fory
   * copies fields of all superclasses, runs the class's own constructor if it takes nothing, and
   * knows no serialPersistentFields. Collections have serialisers of their own there.
   */
  static String unlikeJava(Class<?> type) {
    if (type.getClassLoader() == null || type.isArray() || type.isInterface() || type.isEnum()
        || type.isRecord() || Iterable.class.isAssignableFrom(type)
        || Map.class.isAssignableFrom(type) || scala.collection.IterableOnce.class.isAssignableFrom(type)) {
      return null;
    }
    boolean transients = false;
    boolean ownReading = false;
    Class<?> at = type;
    for (; at != null && Serializable.class.isAssignableFrom(at); at = at.getSuperclass()) {
      boolean reads = declares(at, "readObject", ObjectInputStream.class);
      if (!reads && hasField(at, "serialPersistentFields")) return has(at, "serialPersistentFields");
      if (declares(at, "readObjectNoData")) return has(at, "readObjectNoData");
      ownReading |= reads;
      transients |= state(at).anyMatch(field -> Modifier.isTransient(field.getModifiers()));
    }
    for (; at != null && at.getClassLoader() != null; at = at.getSuperclass()) {
      if (state(at).findAny().isPresent()) return type.getName() + " extends " + at.getName() + ", whose state Java makes again";
    }
    if (transients && !ownReading && hasPlainConstructor(type)) {
      return type.getName() + " has a constructor that would set its transient fields";
    }
    return null;
  }

  /** The fields that each object has of the class itself. */
  private static Stream<Field> state(Class<?> type) {
    return Arrays.stream(type.getDeclaredFields())
        .filter(field -> !Modifier.isStatic(field.getModifiers()));
  }

  private static boolean hasPlainConstructor(Class<?> type) {
    return Arrays.stream(type.getDeclaredConstructors()).anyMatch(each -> each.getParameterCount() == 0);
  }

  private static boolean hasField(Class<?> type, String name) {
    return Arrays.stream(type.getDeclaredFields()).anyMatch(field -> field.getName().equals(name));
  }

  /** Why a class that is no array cannot be copied field by field; null if it can. */
  static String refusal(Class<?> type) {
    String name = type.getName();
    if (!Serializable.class.isAssignableFrom(type)) return name + " is not Serializable";
    if (Externalizable.class.isAssignableFrom(type)) return name + " is Externalizable";
    if (type.isEnum() || type.isRecord() || type.isHidden() || Proxy.isProxyClass(type)) {
      return name + " is an enum, a record, a lambda or a proxy";
    }
    if (type.isInterface() || Modifier.isAbstract(type.getModifiers()) || type == Class.class) {
      return name + " is not a class of plain objects";
    }
    try {
      return hierarchyRefusal(type);
    } catch (LinkageError e) {
      return name + " refers to a class that cannot be loaded: " + e;
    }
  }

  private static String hierarchyRefusal(Class<?> type) {
    Class<?> at = type;
    for (; at != null && Serializable.class.isAssignableFrom(at); at = at.getSuperclass()) {
      String own = ownSerialization(at);
      if (own != null) return own;
    }
    for (Class<?> above = at; above != Object.class; above = above.getSuperclass()) {
      if (!constructorDoesNothing(above)) {
        return type.getName() + " extends " + above.getName()
            + ", whose constructor Java would run";
      }
    }
    return null;
  }

  /** Scala's skeletons of collections have neither fields nor anything to do at the start. */
  private static boolean constructorDoesNothing(Class<?> type) {
    return type.getName().startsWith("scala.collection.")
        && type.getSimpleName().startsWith("Abstract")
        && type.getClassLoader() == scala.Option.class.getClassLoader();
  }

  private static String ownSerialization(Class<?> type) {
    if (declares(type, "writeObject", ObjectOutputStream.class)) return has(type, "writeObject");
    if (declares(type, "readObject", ObjectInputStream.class)) return has(type, "readObject");
    for (String method : new String[] {"readObjectNoData", "writeReplace", "readResolve"}) {
      if (declares(type, method)) return has(type, method);
    }
    return hasField(type, "serialPersistentFields") ? has(type, "serialPersistentFields") : null;
  }

  private static String has(Class<?> type, String what) {
    return type.getName() + " has " + what;
  }

  static boolean declares(Class<?> type, String method, Class<?>... parameters) {
    try {
      type.getDeclaredMethod(method, parameters);
      return true;
    } catch (NoSuchMethodException e) {
      return false;
    }
  }
}
