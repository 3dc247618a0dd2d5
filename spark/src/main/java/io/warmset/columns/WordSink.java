package io.warmset.columns;

import java.util.Arrays;

/** Collects the words of a batch's description. */
final class WordSink {
  private long[] words = new long[64];
  private int length;

  void add(long word) {
    if (length == words.length) words = Arrays.copyOf(words, length * 2);
    words[length++] = word;
  }

  void set(int index, long word) {
    words[index] = word;
  }

  int length() {
    return length;
  }

  void clear() {
    length = 0;
  }

  long[] toArray() {
    return Arrays.copyOf(words, length);
  }
}
