package io.warmset.rdd;

import java.nio.ByteBuffer;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.function.Supplier;

import org.apache.spark.serializer.SerializerInstance;
import scala.reflect.ClassTag;
import scala.reflect.ClassTag$;

/**
 * Objects as bytes of the serialiser that the application set (Java's, or Kryo).
 *
 * <p>Invariant: an instance is used by one thread at a time, and not again after it failed.
 */
final class SparkBlobs {
  private static final ClassTag<Object> ANY = ClassTag$.MODULE$.apply(Object.class);

  private final ClassLoader loader;
  private final Supplier<SerializerInstance> make;
  private final Queue<SerializerInstance> idle = new ConcurrentLinkedQueue<>();

  SparkBlobs(ClassLoader loader, Supplier<SerializerInstance> make) {
    this.loader = loader;
    this.make = make;
  }

  private SerializerInstance borrow() {
    SerializerInstance instance = idle.poll();
    if (instance == null) instance = make.get();
    if (instance == null) throw new IllegalStateException("Spark is not running");
    return instance;
  }

  byte[] write(Object element) {
    SerializerInstance instance = borrow();
    ByteBuffer buffer = instance.serialize(element, ANY);
    byte[] bytes = new byte[buffer.remaining()];
    buffer.get(bytes);
    idle.add(instance);
    return bytes;
  }

  Object read(byte[] bytes) {
    SerializerInstance instance = borrow();
    Object element = instance.deserialize(ByteBuffer.wrap(bytes), loader, ANY);
    idle.add(instance);
    return element;
  }
}
