package io.warmset.rdd;

import java.io.Serializable;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.BiPredicate;

import org.apache.fory.Fory;
import org.apache.fory.logging.LoggerFactory;
import org.apache.fory.resolver.TypeResolver;
import org.apache.fory.serializer.Serializer;

/**
 * Objects as bytes of Apache Fory, with references followed, for the classes of one class loader.
 *
 * <p>Invariant: an instance is used by one thread at a time, and not again after it failed: it
 * takes a class that it was denied once for one that it may have. An object is read back and
 * compared if it is the first of its class, or if the instance meets the class of anything in it
 * for the first time.
 */
final class ForyBlobs {
  private static final int DEPTH_MAX = 2000;

  static {
    // It would advise users, by warnings, to write serialisers of its own kind.
    LoggerFactory.disableLogging();
  }

  private final ClassLoader loader;
  private final Queue<Instance> idle = new ConcurrentLinkedQueue<>();

  ForyBlobs(ClassLoader loader) {
    this.loader = loader;
  }

  /** An object inside the element must stay the object it is. */
  static final class LeftAlone extends RuntimeException {
    LeftAlone(String message) {
      super(message, null, false, false);
    }
  }

  /** A Fory, and what it has met since it was last asked. */
  private static final class Instance {
    private final ClassLoader loader;
    private final Fory fory;
    private boolean metClass;
    private String leftAlone;

    Instance(ClassLoader loader) {
      this.loader = loader;
      fory = Fory.builder()
          .withXlang(false)
          .withClassLoader(loader)
          .requireClassRegistration(false)
          .withRefTracking(true)
          .ignoreStringRef(true)
          .withCodegen(true)
          .withMaxDepth(DEPTH_MAX)
          // Its limits guard against strangers' bytes; these are ours, and checksummed.
          .withMaxGraphMemoryBytes(Long.MAX_VALUE)
          .withMaxUnbackedContainerItems(Integer.MAX_VALUE)
          .withMaxTypeFields(Integer.MAX_VALUE)
          .withMaxTypeMetaBytes(Integer.MAX_VALUE)
          .withTypeChecker(this::mayBeWritten)
          .build();
      fory.registerSerializerFactory(this::checkKnown);
    }

    /** Asked once for each class; Fory makes the serialiser itself. */
    private Serializer<?> checkKnown(TypeResolver resolver, Class<?> type) {
      String why = Qualification.foreign(type, loader);
      if (why != null) {
        leftAlone = why;
        throw new LeftAlone(why);
      }
      String unlike = Qualification.unlikeJava(type);
      if (unlike != null) throw new IllegalStateException(unlike);
      return null;
    }

    private boolean mayBeWritten(TypeResolver resolver, String name) {
      metClass = true;
      Class<?> type;
      try {
        type = Class.forName(name, false, loader);
      } catch (ClassNotFoundException | LinkageError e) {
        return true; // Fory will say so itself, or knows the class by another loader.
      }
      String why = Qualification.leftAlone(type);
      if (why != null) leftAlone = why;
      return why == null
          && (type.isInterface() || type.isArray() || Serializable.class.isAssignableFrom(type));
    }
  }

  private Instance borrow() {
    Instance instance = idle.poll();
    return instance == null ? new Instance(loader) : instance;
  }

  /** Throws whatever Fory throws, and if `agreed` says that object and copy differ. */
  byte[] write(Object element, boolean first, BiPredicate<Object, Object> agreed) {
    Instance instance = borrow();
    instance.leftAlone = null;
    try {
      byte[] blob = instance.fory.serialize(element);
      if (first || instance.metClass) {
        if (!agreed.test(element, instance.fory.deserialize(blob))) {
          throw new IllegalStateException("what it reads back is not what it wrote");
        }
        instance.metClass = false;
      }
      idle.add(instance);
      return blob;
    } catch (RuntimeException e) {
      if (instance.leftAlone != null) throw new LeftAlone(instance.leftAlone);
      throw e;
    }
  }

  Object read(byte[] blob) {
    Instance instance = borrow();
    Object element = instance.fory.deserialize(blob);
    idle.add(instance);
    return element;
  }
}
