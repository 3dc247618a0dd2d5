package io.warmset.spark

import java.io.IOException
import java.util.concurrent.ConcurrentHashMap

import io.warmset.region.Region
import org.apache.spark.storage.BlockId

/**
 * A value of Spark's memory store whose bytes lie in a region.
 *
 * Invariant: it holds one reference on its region, if it has one, until `close`, which is O(1),
 * idempotent and never throws. Whoever has committed it (see TaskScope) closes it. Either its task
 * gives it back or a store owns it, never both.
 */
private[spark] trait RegionHandle extends AutoCloseable {
  // Both under this handle's lock.
  private var closed = false
  private var abandoned = false

  /** Null where the bytes are on the heap. */
  private[spark] def region: Region

  /** The block of Spark's memory store that owns this handle, if one does. */
  @volatile private[spark] var committedTo: Option[BlockId] = None

  /**
   * Marks it as the store's, which may have closed it by now. False if its task has given it back:
   * then the store must not keep it.
   */
  private[spark] def commitTo(block: BlockId): Boolean = synchronized {
    if (!abandoned) committedTo = Some(block)
    !abandoned
  }

  /** Closes it unless a store owns it. */
  private[spark] def abandon(): Unit = synchronized {
    if (committedTo.isEmpty && region != null && !closed) {
      abandoned = true
      close()
    }
  }

  override def close(): Unit = synchronized {
    if (region != null && !closed) {
      closed = true
      region.release()
      released()
    }
  }

  /** Gives up what it has besides its region; called once. */
  protected def released(): Unit = ()
}

private[spark] object RegionHandle {
  /** Blocks that a thread is taking away now. */
  private val leaving = ConcurrentHashMap.newKeySet[BlockId]()

  /**
   * Takes the block of a handle that cannot be read away from Spark, which then reads a replica or
   * computes it again. In the background: the block goes when its readers have ended. One that could
   * not be computed again stays, since the next read may succeed.
   */
  def lost(handle: RegionHandle, cause: Throwable): IOException = {
    StoreRoom.logWarnings()
    val block = handle.committedTo
    block.filter(leaving.add).foreach { id =>
      val remover = new Thread(
        () => try Eviction.removeUnreadable(id) finally leaving.remove(id), s"warmset-remove-$id")
      remover.setDaemon(true)
      remover.start()
    }
    val (what, next) = block match {
      case Some(id) =>
        (s"block $id", "the next task that needs it computes it again, or reads it again if it is of a local checkpoint")
      case None => ("a block on disk", "unpersist the data and cache it again")
    }
    new IOException(s"cached data of $what cannot be read: ${cause.getMessage}; $next", cause)
  }
}
