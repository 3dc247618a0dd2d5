package io.warmset.rdd;

import java.io.Serializable;
import java.lang.ref.WeakReference;
import java.util.Map;
import java.util.Set;
import java.util.WeakHashMap;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.Supplier;
import java.util.zip.CRC32C;

import org.apache.spark.SparkEnv;
import org.apache.spark.serializer.SerializerInstance;
import sun.misc.Unsafe;

/**
 * Serialises what the codecs do not take: first Fory, then the serialiser of the application.
 *
 * <pre>
 * blob   i32 bytes, i32 CRC-32C of the id and them, the bytes
 * </pre>
 *
 * <p>Invariant: Fory is used for a class only after an object of it was read back, and only for
 * what Java could serialise too; Spark's serialiser only after it has read an object of the class
 * back, too. Blobs name their classes: an element whose class the loader does not know, or knows
 * another by that name, is refused; inside an element Fory looks as well. The checksum keeps
 * damaged bytes from Fory, which trusts its input.
 */
public final class ElementFallbacks {
  private static final Unsafe U = Raw.U;
  private static final long HEAD_BYTES = 8;
  /** So many failures in a row, and a partition's objects of the class do not try it again. */
  private static final int FAILURES_MAX = 16;

  private static final Map<ClassLoader, WeakReference<ElementFallbacks>> BY_LOADER =
      new WeakHashMap<>();
  /** For the class loader that this class came from: it lives as long. */
  private static ElementFallbacks own;

  private final ClassLoader loader;
  private final ForyBlobs fory;
  private final SparkBlobs spark;
  private final Set<Class<?>> proven = ConcurrentHashMap.newKeySet();

  ElementFallbacks(ClassLoader loader, Supplier<SerializerInstance> serializers) {
    this.loader = loader;
    fory = new ForyBlobs(loader);
    spark = new SparkBlobs(loader, serializers);
  }

  /** Those for the classes that this thread can load; shared, and gone when nobody uses them. */
  public static synchronized ElementFallbacks current() {
    ClassLoader home = ElementFallbacks.class.getClassLoader();
    ClassLoader context = Thread.currentThread().getContextClassLoader();
    if (context == null || context == home) {
      if (own == null) own = new ElementFallbacks(home, ElementFallbacks::sparkSerializer);
      return own;
    }
    WeakReference<ElementFallbacks> known = BY_LOADER.get(context);
    ElementFallbacks found = known == null ? null : known.get();
    if (found == null) {
      found = new ElementFallbacks(context, ElementFallbacks::sparkSerializer);
      BY_LOADER.put(context, new WeakReference<>(found));
    }
    return found;
  }

  private static SerializerInstance sparkSerializer() {
    SparkEnv env = SparkEnv.get();
    return env == null ? null : env.serializer().newInstance();
  }

  /** Appends the element's id and blob; or appends nothing and says why nothing can. */
  String write(Object element, ElementCoder.Entry entry, ByteSink sink) {
    String foryFailure = "Fory is not tried with it";
    if (entry.foryFailures >= FAILURES_MAX && entry.leftAlone != null) return entry.leftAlone;
    if (element instanceof Serializable && entry.foryFailures < FAILURES_MAX) {
      try {
        boolean first = !proven.contains(element.getClass());
        put(ElementCoder.ID_FORY, fory.write(element, first, this::agreed), sink);
        if (first) proven.add(element.getClass());
        entry.foryFailures = 0;
        return null;
      } catch (ForyBlobs.LeftAlone e) {
        entry.foryFailures++;
        entry.leftAlone = e.getMessage();
        return entry.leftAlone;
      } catch (Exception | StackOverflowError | LinkageError e) {
        entry.foryFailures++;
        foryFailure = "Fory: " + e;
      }
    }
    if (entry.sparkFailures >= FAILURES_MAX) return entry.sparkFailure;
    String foreign = entry.known ? null : Qualification.foreign(element.getClass(), loader);
    if (foreign != null) {
      entry.sparkFailures = FAILURES_MAX;
      entry.sparkFailure = foreign;
      return foreign;
    }
    try {
      byte[] blob = spark.write(element);
      if (!entry.known) spark.read(blob);
      entry.known = true;
      put(ElementCoder.ID_SPARK, blob, sink);
      entry.sparkFailures = 0;
      return null;
    } catch (Exception | StackOverflowError | LinkageError e) {
      entry.sparkFailures++;
      entry.sparkFailure = foryFailure + "; Spark's serializer: " + e;
      return entry.sparkFailure;
    }
  }

  /**
   * Whether a copy says what its original says. Objects that are equal to no copy (arrays in case
   * classes) say nothing: then it is enough that the copy could be made.
   */
  private boolean agreed(Object original, Object copy) {
    if (copy == null || copy.getClass() != original.getClass()) return false;
    if (!definesEquals(original.getClass()) || original.equals(copy)) return true;
    Object bySpark = spark.read(spark.write(original));
    return !original.equals(bySpark);
  }

  private static boolean definesEquals(Class<?> type) {
    try {
      return type.getMethod("equals", Object.class).getDeclaringClass() != Object.class;
    } catch (NoSuchMethodException e) {
      return false;
    }
  }

  private static void put(int id, byte[] blob, ByteSink sink) {
    U.putShort(sink.reserve(2), (short) id);
    long at = sink.reserve(HEAD_BYTES + blob.length);
    U.putInt(at, blob.length);
    U.putInt(at + 4, checksum(id, blob));
    Raw.copyOut(blob, Unsafe.ARRAY_BYTE_BASE_OFFSET, at + HEAD_BYTES, blob.length);
  }

  private static int checksum(int id, byte[] blob) {
    CRC32C crc = new CRC32C();
    crc.update(id);
    crc.update(blob, 0, blob.length);
    return (int) crc.getValue();
  }

  /** Takes the blob whose id has been read. */
  Object read(int id, ByteSource source) {
    long head = source.take(HEAD_BYTES);
    byte[] blob = PrimitiveArrays.readBytes(U.getInt(head), source);
    if (checksum(id, blob) != U.getInt(head + 4)) throw source.damaged("the checksum is wrong");
    try {
      return id == ElementCoder.ID_FORY ? fory.read(blob) : spark.read(blob);
    } catch (Exception | StackOverflowError | LinkageError e) {
      String by = id == ElementCoder.ID_FORY ? "Fory" : "Spark's serializer";
      throw new IllegalStateException(
          "an element is damaged, or " + by + " cannot read what it wrote: " + e, e);
    }
  }
}
