package io.warmset.spark

import java.util.concurrent.atomic.AtomicBoolean

import io.warmset.region.Region
import org.apache.spark.storage.BlockId

/**
 * A value of Spark's memory store whose bytes lie in a region.
 *
 * Invariant: it holds one reference on its region, if it has one, until `close`, which is O(1),
 * idempotent and never throws. Whoever has committed it (see TaskScope) closes it.
 */
private[spark] trait RegionHandle extends AutoCloseable {
  private val closed = new AtomicBoolean

  /** Null where the bytes are on the heap. */
  private[spark] def region: Region

  /** The block of Spark's memory store that owns this handle, if one does. */
  @volatile private[spark] var committedTo: Option[BlockId] = None

  override def close(): Unit =
    if (region != null && closed.compareAndSet(false, true)) {
      region.release()
    }
}
