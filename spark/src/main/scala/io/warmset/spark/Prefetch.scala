package io.warmset.spark

/** How far ahead a scanning task of this process brings segments in. */
private[spark] object Prefetch {
  /** The setting, or this task's part of half the memory. */
  def bytesMax: Long = StoreHolder.current match {
    case Some(holder) =>
      math.min(holder.conf.prefetchBytesMax, holder.budgetNow / 2 / TaskSlots.ofThisProcess)
    case None => 0L
  }
}
