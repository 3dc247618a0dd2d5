package io.warmset.rdd;

import java.io.IOException;
import java.io.ObjectInputStream;
import java.io.ObjectOutputStream;
import java.io.Serializable;
import java.util.ArrayList;

/** Elements as Java has them. */
public final class JavaElements {
  private JavaElements() {}

  public enum Plain { A, B, C }

  public enum WithBodies {
    ONE {
      @Override
      int value() {
        return 1;
      }
    },
    TWO {
      @Override
      int value() {
        return 2;
      }
    };

    abstract int value();
  }

  /** A field of every kind. */
  public static class Fields implements Serializable {
    public boolean z;
    public byte b;
    public short s;
    public char c;
    public int i;
    public long l;
    public float f;
    public double d;
    public String text;
    public boolean[] zs;
    public byte[] bs;
    public short[] ss;
    public char[] cs;
    public int[] is;
    public long[] ls;
    public float[] fs;
    public double[] ds;
    public Object any;
    public Comparable<?> comparable;
    public Number[] numbers;
    public Plain plain;
    public WithBodies bodies;
    public Leaf leaf;
    public transient int forgotten = 7;
    public transient Object forgottenToo = new Object();
  }

  /** Adds to its superclass a field of the same name. */
  public static class MoreFields extends Fields {
    private final long l2 = 5;
    private String text = "mine";

    @Override
    public String toString() {
      return text + l2;
    }
  }

  /** Final, so that it needs no id; private fields, no access. */
  public static final class Leaf implements Serializable {
    private final long hidden;
    private final String name;

    public Leaf(long hidden, String name) {
      this.hidden = hidden;
      this.name = name;
    }
  }

  /** Final and of itself. */
  public static final class Node implements Serializable {
    public final int value;
    public Node next;

    public Node(int value, Node next) {
      this.value = value;
      this.next = next;
    }
  }

  /** Two final classes of each other. */
  public static final class Left implements Serializable {
    public Right right;
    public int value;
  }

  public static final class Right implements Serializable {
    public Left left;
    public double value;
  }

  /** Java runs the constructor of what it extends. */
  public static class Base {
    protected int counted = 41;
    public transient ArrayList<Integer> seen = new ArrayList<>();
  }

  /** Java makes its Base again. */
  public static final class Derived extends Base implements Serializable {
    public int own = 1;

    public Derived(int counted) {
      this.counted = counted;
      seen.add(counted);
    }
  }

  /** Its constructor must not run when it is read. */
  public static final class Bean implements Serializable {
    public final ArrayList<Object> list = new ArrayList<>();
    public transient String said = "by the constructor";
  }

  /** Java writes fewer fields of it than there are. */
  public static final class Picky implements Serializable {
    private static final java.io.ObjectStreamField[] serialPersistentFields = {
      new java.io.ObjectStreamField("kept", int.class)
    };
    public int kept;
    public int left;

    public Picky(int value) {
      kept = value;
      left = value;
    }
  }

  /** Serialises itself. */
  public static final class Custom implements Serializable {
    public transient int doubled;

    public Custom(int doubled) {
      this.doubled = doubled;
    }

    private void writeObject(ObjectOutputStream out) throws IOException {
      out.defaultWriteObject();
      out.writeInt(doubled / 2);
    }

    private void readObject(ObjectInputStream in) throws IOException, ClassNotFoundException {
      in.defaultReadObject();
      doubled = in.readInt() * 2;
    }

    @Override
    public boolean equals(Object other) {
      return other instanceof Custom && ((Custom) other).doubled == doubled;
    }

    @Override
    public int hashCode() {
      return doubled;
    }
  }

  /** Is to be closed. */
  public static final class Closed implements AutoCloseable, Serializable {
    @Override
    public void close() {}
  }

  /** Nothing serialises a thread. */
  public static final class Unserializable {
    public final Thread thread = Thread.currentThread();
  }

  /** Serializable by its word alone. */
  public static final class Pretender implements Serializable {
    public final Object inside = new Unserializable();
  }
}
