package io.warmset.rdd;

import java.util.Arrays;
import java.util.HashMap;
import java.util.IdentityHashMap;
import java.util.Map;

import org.apache.spark.sql.types.StructType;
import sun.misc.Unsafe;

/**
 * Encodes the elements of one partition, of any classes. Its tables, of classes and of values that
 * repeat, grow while it writes; one thread writes, any number read what is written.
 *
 * <pre>
 * element   u16 id, payload
 *   0       null
 *   1, 2    blob of Fory, of Spark's serialiser: see {@link ElementFallbacks}
 *   3 ...   payload of the codec of class id - 3 in the table
 * </pre>
 *
 * <p>Invariant: an entry of a table never changes, so bytes stay readable whatever is written
 * later. Two references to one object inside an element are two references to one object when it is
 * read: an element that has such references is a blob.
 */
public final class ElementCoder {
  /** Deeper objects go to the fallbacks: the stack is bounded, and lists are not flat objects. */
  static final int DEPTH_MAX = 32;
  static final int ID_NULL = 0;
  static final int ID_FORY = 1;
  static final int ID_SPARK = 2;
  static final int ID_FIRST = 3;
  private static final int CODECS_MAX = (1 << 16) - ID_FIRST;
  private static final int CONSTANTS_MAX = 1 << 12;
  private static final Unsafe U = Raw.U;

  /** A class of this partition: its id and codec, or why it has none. */
  static final class Entry {
    final int id;
    final ClassCodec codec;
    final Refusal refusal;
    /** Elements of the class that Fory failed with, one after the other. */
    int foryFailures;
    /** The same of Spark's serialiser, and what it last said. */
    int sparkFailures;
    String sparkFailure;
    /** What one of its elements led to that must stay as it is; null if none did. */
    String leftAlone;
    /** Whether Spark's serialiser gave an object of this very class back. */
    boolean known;

    Entry(int id, ClassCodec codec, Refusal refusal) {
      this.id = id;
      this.codec = codec;
      this.refusal = refusal;
    }
  }

  private static final Entry NULL = new Entry(ID_NULL, null, null);

  private final ElementFallbacks fallbacks;
  private final Map<Class<?>, Entry> entries = new IdentityHashMap<>();
  private final Map<Object, Integer> constantNumbers = new IdentityHashMap<>();
  private final Map<StructType, Integer> schemaNumbers = new HashMap<>();
  private final SharedReferences references = new SharedReferences();
  private final TableBudget.Room tableRoom;
  final RepeatedStrings strings;
  final RepeatedDoubles doubles;
  private volatile ClassCodec[] codecs = {};
  private int codecCount;
  private volatile Object[] constants = {};
  private int constantCount;
  private int depth;
  private Refusal refusal;

  /**
   * @param tables what its tables of values that repeat take from
   */
  public ElementCoder(ElementFallbacks fallbacks, TableBudget tables) {
    this.fallbacks = fallbacks;
    tableRoom = new TableBudget.Room(tables);
    strings = new RepeatedStrings(tableRoom);
    doubles = new RepeatedDoubles(tableRoom);
  }

  /**
   * Whether objects of the class must stay the objects they are: Spark's own rows and batches,
   * whose memory it manages, GraphX's partitions, which share arrays, and whatever is to be closed.
   */
  public static boolean staysWithSpark(Class<?> type) {
    return Qualification.leftAlone(type) != null;
  }

  /**
   * Appends an element.
   *
   * @return false, with the sink as before, if nothing can serialise it: it stays on the heap
   */
  public boolean write(Object element, ByteSink sink) {
    long start = sink.position();
    refusal = null;
    try {
      writeAny(element, sink);
      tableRoom.appended(sink.position() - start);
      return true;
    } catch (Refusal e) {
      sink.truncate(start);
      refusal = e;
      if (e.leftAlone) return false;
    } finally {
      references.clear();
      depth = 0;
    }
    String failure = fallbacks.write(element, entries.get(element.getClass()), sink);
    if (failure == null) return true;
    refusal = new Refusal(refusal.getMessage() + "; " + failure, false);
    return false;
  }

  /** All elements are written: what only writing needs is given up. A later write needs it again. */
  public void written() {
    references.release();
    strings.release();
    doubles.release();
  }

  /**
   * Heap bytes of the values that its elements share: what it took from the budget. Grows while it
   * writes; whoever is charged for it gives it back.
   */
  public long tableBytes() {
    return tableRoom.takenBytes();
  }

  /** Why the last element was not written, or written as a blob; null if neither. */
  public String lastReason() {
    return refusal == null ? null : refusal.getMessage();
  }

  /**
   * Takes one element; a fresh object each time, with fresh arrays unless the source reuses them,
   * and strings that elements may share.
   *
   * @throws IllegalStateException if the bytes are not what a coder wrote
   */
  public Object read(ByteSource source) {
    source.startElement();
    int id = U.getShort(source.take(2)) & 0xFFFF;
    Object element;
    if (id >= ID_FIRST) element = codec(id, source).read(source, this);
    else if (id == ID_NULL) element = null;
    else element = fallbacks.read(id, source);
    // As after a constructor: whoever is handed the object sees its fields.
    U.storeFence();
    return element;
  }

  // ---- for codecs: writing

  /** What becomes of `value`; refuses the element if its class has no codec. */
  Entry entryOf(Object value) {
    if (value == null) return NULL;
    Class<?> type = value.getClass();
    Entry entry = entries.get(type);
    if (entry == null) entry = enter(type);
    if (entry.refusal != null) throw entry.refusal;
    return entry;
  }

  private Entry enter(Class<?> type) {
    ClassCodec codec = Codecs.of(type);
    Entry entry;
    if (codec instanceof ClassCodec.None) {
      ClassCodec.None none = (ClassCodec.None) codec;
      entry = new Entry(-1, null, new Refusal(none.reason, none.leftAlone));
    } else if (codecCount == CODECS_MAX) {
      entry = new Entry(-1, null, Refusal.CLASSES);
    } else {
      entry = new Entry(ID_FIRST + codecCount, codec, null);
      ClassCodec[] table = codecs;
      if (codecCount == table.length) table = Arrays.copyOf(table, Math.max(8, 2 * codecCount));
      table[codecCount++] = codec;
      codecs = table;
    }
    entries.put(type, entry);
    return entry;
  }

  /** Appends a reference to `value`: its id and, unless it is null, its payload. */
  void writeAny(Object value, ByteSink sink) {
    Entry entry = entryOf(value);
    U.putShort(sink.reserve(2), (short) entry.id);
    if (value != null) writeObject(entry, value, sink);
  }

  /** Appends the payload of an object whose id is written elsewhere. */
  void writeObject(Entry entry, Object value, ByteSink sink) {
    ClassCodec codec = entry.codec;
    if (codec.hasIdentity(value)) meet(value);
    if (++depth > DEPTH_MAX) throw Refusal.DEEP;
    codec.write(value, sink, this);
    depth--;
  }

  /** Notes an object that has identity; refuses the element if it was there before. */
  void meet(Object value) {
    if (!references.add(value)) throw Refusal.SHARED;
  }

  /** The number of an immutable object that this partition's elements share. */
  int constant(Object value) {
    Integer number = constantNumbers.get(value);
    if (number != null) return number;
    // Rows that came from elsewhere may each have a schema of their own, and all the same.
    number = value instanceof StructType ? schemaNumbers.get(value) : null;
    return number != null ? number : addConstant(value);
  }

  private int addConstant(Object value) {
    int next = constantCount;
    if (next == CONSTANTS_MAX) throw Refusal.CONSTANTS;
    Object[] table = constants;
    if (next == table.length) table = Arrays.copyOf(table, Math.max(4, 2 * next));
    table[next] = value;
    constants = table;
    constantCount++;
    constantNumbers.put(value, next);
    if (value instanceof StructType) schemaNumbers.put((StructType) value, next);
    return next;
  }

  // ---- for codecs: reading

  Object readAny(ByteSource source) {
    int id = U.getShort(source.take(2)) & 0xFFFF;
    if (id == ID_NULL) return null;
    source.enter();
    Object value = codec(id, source).read(source, this);
    source.leave();
    return value;
  }

  ClassCodec codec(int id, ByteSource source) {
    ClassCodec[] table = codecs;
    int index = id - ID_FIRST;
    if (index < 0 || index >= table.length || table[index] == null) {
      throw source.damaged("class " + id + " is none of this partition's");
    }
    return table[index];
  }

  Object constantAt(int number, ByteSource source) {
    Object[] known = constants;
    if (number < 0 || number >= known.length || known[number] == null) {
      throw source.damaged("constant " + number + " is none of this partition's");
    }
    return known[number];
  }

  /** Checks what a field or an array is about to refer to: a wrong class there kills the JVM. */
  static Object checked(Object value, Class<?> declared, ByteSource source) {
    if (!declared.isInstance(value)) {
      throw source.damaged("a " + value.getClass().getName() + " where a " + declared.getName()
          + " belongs");
    }
    return value;
  }

  /** An element that the codecs cannot take. Thrown for many elements, so without a stack trace. */
  static final class Refusal extends RuntimeException {
    static final Refusal SHARED = new Refusal("an object is referred to twice", false);
    static final Refusal DEEP =
        new Refusal("objects nest more than " + DEPTH_MAX + " deep", false);
    static final Refusal SECOND = new Refusal("a second instance of a Scala object", false);
    static final Refusal CLASSES =
        new Refusal("more than " + CODECS_MAX + " classes in one partition", false);
    static final Refusal CONSTANTS =
        new Refusal("more than " + CONSTANTS_MAX + " schemas or classes in one partition", false);

    final boolean leftAlone;

    Refusal(String message, boolean leftAlone) {
      super(message, null, false, false);
      this.leftAlone = leftAlone;
    }
  }
}
