package io.warmset.spark

import java.io.IOException
import java.util.concurrent.atomic.AtomicLong

import io.warmset.region.{NativeLibrary, NativeStore}
import org.apache.spark.internal.Logging

/** What the store gives its writers, and what is said when it gives them nothing, or warns of something. */
private[spark] object StoreRoom extends Logging {
  /** The store gives memory out in whole huge pages. */
  val FrameBytes: Long = 2L << 20

  private val warnedAtNs = new AtomicLong(Long.MinValue)

  /** Says once a minute at most that there is no room: it concerns every batch of every task. */
  def warnOnHeap(cause: IOException): Unit = {
    logWarnings()
    val now = System.nanoTime
    val last = warnedAtNs.get
    if ((last == Long.MinValue || now - last > 60e9.toLong) && warnedAtNs.compareAndSet(last, now)) {
      logWarning(s"Cached data stays on the Java heap, under Spark's own rules: ${cause.getMessage}" +
        " (said once a minute at most)", cause)
    }
  }

  /**
   * Logs what the native store has warned of since the last time.
   *
   * @param again false where nobody asks any more: from then on it writes warnings to stderr itself
   */
  def logWarnings(again: Boolean = true): Unit = if (NativeLibrary.isLoaded) {
    for (lines <- Option(NativeStore.takeWarnings(again)); line <- lines.split('\n'))
      logWarning(s"Warmset's region store: $line")
  }
}
