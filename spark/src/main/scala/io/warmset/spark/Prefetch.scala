package io.warmset.spark

/** How far ahead a reader of one block in this process brings segments in. */
private[spark] object Prefetch {
  /**
   * The setting, or one task's part of a quarter of the memory. A task with several readers at a
   * time has that much in each: nothing adds them up.
   */
  def bytesMax: Long = StoreHolder.current match {
    case Some(holder) =>
      math.min(holder.conf.prefetchBytesMax, holder.budgetNow / 4 / TaskSlots.ofThisProcess)
    case None => 0L
  }
}
