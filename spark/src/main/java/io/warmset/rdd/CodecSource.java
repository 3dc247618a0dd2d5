package io.warmset.rdd;

import io.warmset.rdd.ClassShape.Slot;

/**
 * Writes the Java source of one class's codec. User classes are not named in it: they come as
 * links, so that it compiles whatever their names, access and class loaders are.
 *
 * <p>Invariant: a reference is put into a field only if its class is known to fit, from the codec
 * that made it or by a check.
 */
final class CodecSource {
  private final ClassShape shape;
  private final Object[] links;
  private final StringBuilder out = new StringBuilder();

  private CodecSource(Class<?> type, ClassShape shape) {
    this.shape = shape;
    this.links = new Object[1 + shape.slots.size()];
    links[0] = type;
  }

  /** A source, and the objects it takes from {@link Raw#links}. */
  static final class Generated {
    final String source;
    final Object[] links;

    private Generated(String source, Object[] links) {
      this.source = source;
      this.links = links;
    }
  }

  static Generated of(Class<?> type, ClassShape shape, String name) {
    CodecSource source = new CodecSource(type, shape);
    source.body(name);
    return new Generated(source.out.toString(), source.links);
  }

  private void body(String name) {
    line("package io.warmset.rdd;");
    line("final class " + name + " extends ClassCodec {");
    line("private static final sun.misc.Unsafe U = Raw.U;");
    line("private static final Object[] L = Raw.links(java.lang.invoke.MethodHandles.lookup());");
    line("private static final Class TYPE = (Class) L[0];");
    for (int i = 0; i < shape.slots.size(); i++) link(i, shape.slots.get(i));
    line(name + "() {}");
    line("void write(Object o, ByteSink sink, ElementCoder coder) {");
    for (int i = 0; i < shape.slots.size(); i++) load(i, shape.slots.get(i));
    line("long start = sink.position();");
    line("long at = sink.reserve(" + shape.fixedBytes + "L);");
    for (int i = 0; i < shape.slots.size(); i++) writeSlot(i, shape.slots.get(i));
    for (int i = 0; i < shape.slots.size(); i++) writeBehind(i, shape.slots.get(i));
    line("}");
    line("Object read(ByteSource source, ElementCoder coder) {");
    line("long at = source.take(" + shape.fixedBytes + "L);");
    line("Object o = Raw.allocate(TYPE);");
    for (int i = 0; i < shape.slots.size(); i++) readSlot(i, shape.slots.get(i));
    line("return o;");
    line("}");
    line("}");
  }

  private void line(String text) {
    out.append(text).append('\n');
  }

  private void link(int i, Slot slot) {
    switch (slot.kind) {
      case ANY:
        links[1 + i] = slot.type;
        line("private static final Class T" + i + " = (Class) L[" + (1 + i) + "];");
        break;
      case INLINED:
        links[1 + i] = slot.inlined;
        line("private static final ClassCodec C" + i + " = (ClassCodec) L[" + (1 + i) + "];");
        break;
      default:
    }
  }

  /** Loads the references first: what they lead to decides about their slots. */
  private void load(int i, Slot slot) {
    String value = "U.getObject(o, " + slot.offset + "L);";
    switch (slot.kind) {
      case PRIMITIVE_ARRAY:
        String array = slot.type.getComponentType().getName() + "[]";
        line(array + " v" + i + " = (" + array + ") " + value);
        break;
      case STRING:
        line("String v" + i + " = (String) " + value);
        line("int w" + i + " = coder.strings.word(v" + i + ");");
        break;
      case ANY:
        line("Object v" + i + " = " + value);
        line("ElementCoder.Entry e" + i + " = coder.entryOf(v" + i + ");");
        break;
      case INLINED:
        line("Object v" + i + " = " + value);
        break;
      default:
    }
  }

  private void writeSlot(int i, Slot slot) {
    String at = "at + " + slot.at + "L";
    String v = "v" + i;
    switch (slot.kind) {
      case PRIMITIVE:
        String value = "U.get" + accessor(slot) + "(o, " + slot.offset + "L)";
        if (slot.type == boolean.class) {
          line("U.putByte(" + at + ", (byte) (" + value + " ? 1 : 0));");
        } else {
          line("U.put" + accessor(slot) + "(" + at + ", " + value + ");");
        }
        break;
      case PRIMITIVE_ARRAY:
        line("U.putInt(" + at + ", " + v + " == null ? -1 : " + v + ".length);");
        break;
      case STRING:
        line("U.putInt(" + at + ", w" + i + ");");
        break;
      case ANY:
        line("U.putShort(" + at + ", (short) e" + i + ".id);");
        break;
      default:
        line("U.putByte(" + at + ", (byte) (" + v + " == null ? 0 : 1));");
    }
  }

  private void writeBehind(int i, Slot slot) {
    String v = "v" + i;
    switch (slot.kind) {
      case PRIMITIVE_ARRAY:
        line("if (" + v + " != null && " + v + ".length > 0) {");
        line("coder.meet(" + v + ");");
        line(PrimitiveArrays.writing(slot.type, v, "start + " + slot.at + "L"));
        line("}");
        break;
      case STRING:
        line("if (" + v + " != null && RepeatedStrings.isWhole(w" + i + ")) Strings.write(" + v
            + ", sink);");
        break;
      case ANY:
        line("if (" + v + " != null) coder.writeObject(e" + i + ", " + v + ", sink);");
        break;
      case INLINED:
        line("if (" + v + " != null) {");
        line("if (C" + i + ".hasIdentity(" + v + ")) coder.meet(" + v + ");");
        line("C" + i + ".write(" + v + ", sink, coder);");
        line("}");
        break;
      default:
    }
  }

  private void readSlot(int i, Slot slot) {
    String at = "at + " + slot.at + "L";
    String n = "n" + i;
    String put = "U.putObject(o, " + slot.offset + "L, ";
    switch (slot.kind) {
      case PRIMITIVE:
        String value = slot.type == boolean.class
            ? "U.getByte(" + at + ") != 0" : "U.get" + accessor(slot) + "(" + at + ")";
        line("U.put" + accessor(slot) + "(o, " + slot.offset + "L, " + value + ");");
        break;
      case PRIMITIVE_ARRAY:
        line("int " + n + " = U.getInt(" + at + ");");
        line("if (" + n + " != -1) " + put + PrimitiveArrays.reading(slot.type, n) + ");");
        break;
      case STRING:
        line("int " + n + " = U.getInt(" + at + ");");
        line("if (" + n + " != " + Strings.NULL + ") " + put
            + "coder.strings.read(" + n + ", source));");
        break;
      case ANY:
        line("int " + n + " = U.getShort(" + at + ") & 0xFFFF;");
        line("if (" + n + " != 0) {");
        line("source.enter();");
        // A call site of this class's own, which the JIT can see through.
        line("Object x = coder.codec(" + n + ", source).read(source, coder);");
        line("source.leave();");
        if (slot.type == Object.class) line(put + "x);");
        else line(put + "ElementCoder.checked(x, T" + i + ", source));");
        line("}");
        break;
      default:
        line("if (U.getByte(" + at + ") != 0) " + put + "C" + i + ".read(source, coder));");
    }
  }

  /** The part of the names of Unsafe's methods that says the type. */
  private static String accessor(Slot slot) {
    String name = slot.type.getName();
    return Character.toUpperCase(name.charAt(0)) + name.substring(1);
  }
}
