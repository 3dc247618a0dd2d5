package io.warmset.region

import java.io.IOException

/** A region of which every second segment cannot be sealed, as if the disk had failed. */
final class FailingRegion(store: Store)
  extends Region(store, NativeStore.createRegion(store.handle())) {

  private var sealing = 0

  override def seal(segment: Long, usedBytes: Long): Unit = {
    sealing += 1
    if (sealing % 2 == 0) throw new IOException("this segment is lost, on purpose")
    super.seal(segment, usedBytes)
  }
}
