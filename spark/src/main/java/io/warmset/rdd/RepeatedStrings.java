package io.warmset.rdd;

import java.util.Arrays;
import java.util.HashMap;
import java.util.Map;

/**
 * The short strings that come again and again in a partition: a word says which one it is, and no
 * bytes follow. Reading one allocates nothing, for all elements share it.
 *
 * <p>Invariant: an entry never changes, nor makes room for another. One thread writes, any number
 * read what is written.
 */
final class RepeatedStrings {
  private static final int CHARS_MAX = 64;
  private static final int ENTRIES_MAX = 1 << 13;
  /** No string is so long that {@link Strings#word} would give one of these words. */
  private static final int WORD_FIRST = Integer.MIN_VALUE;
  private static final int WORD_END = WORD_FIRST + ENTRIES_MAX;
  /** Of a string, its array and its place in the table, besides its characters. */
  private static final int ENTRY_BYTES = 56;

  private final TableBudget.Room room;
  private volatile String[] table = {};
  private int count;
  // Null while nothing is written.
  private Map<String, Integer> words;
  private SeenBefore seen;

  RepeatedStrings(TableBudget.Room room) {
    this.room = room;
  }

  /** The string's word; {@link #isWhole} says whether bytes are to follow. */
  int word(String s) {
    if (s == null || s.length() > CHARS_MAX || words == null && !beginWriting()
        || !seen.isWorthLooking()) {
      return Strings.word(s);
    }
    Integer known = words.get(s);
    if (known == null && seen.add(s.hashCode())) known = add(s);
    if (known == null) {
      seen.missed(1);
      return Strings.word(s);
    }
    seen.found(1);
    return known;
  }

  private boolean beginWriting() {
    if (!room.isOpen()) return false;
    words = new HashMap<>();
    seen = new SeenBefore();
    for (int i = 0; i < count; i++) words.put(table[i], WORD_FIRST + i);
    return true;
  }

  private Integer add(String s) {
    if (count == ENTRIES_MAX || !room.take(ENTRY_BYTES + 2L * s.length())) return null;
    String[] strings = table;
    if (count == strings.length) strings = Arrays.copyOf(strings, Math.max(16, 2 * count));
    // Many partitions of an RDD have the same ones.
    String one = s.intern();
    strings[count] = one;
    table = strings;
    Integer word = WORD_FIRST + count++;
    words.put(one, word);
    return word;
  }

  /** Whether a word is one of {@link Strings#word}. */
  static boolean isWhole(int word) {
    return word >= WORD_END;
  }

  /** The string of a word that has been read; not for null. */
  String read(int word, ByteSource source) {
    if (isWhole(word)) return Strings.read(word, source);
    String[] known = table;
    int number = word - WORD_FIRST;
    if (number >= known.length || known[number] == null) {
      throw source.damaged("string " + number + " is none of this partition's");
    }
    return known[number];
  }

  /** Gives up what only writing needs. */
  void release() {
    words = null;
    seen = null;
    table = Arrays.copyOf(table, count);
  }
}
