package org.apache.spark.sql.execution.columnar.warmset

import scala.reflect.ClassTag

import org.apache.spark.TaskContext
import org.apache.spark.rdd.{MapPartitionsRDD, RDD}
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatch}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.storage.StorageLevel
import org.apache.spark.util.KnownSizeEstimation

/** A cached batch that tells Spark its heap size itself. Here because the trait is Spark's own. */
abstract class SizedCachedBatch extends SimpleMetricsCachedBatch with KnownSizeEstimation

/**
 * The batches that a cache is built from, as the RDD that Spark maps once and then persists.
 *
 * Invariant: what Spark persists keeps its batches as objects wherever it keeps them in memory.
 * A handle on a region must not be stored serialised, since that would copy the region's bytes to
 * the heap; and PySpark's MEMORY_AND_DISK, MEMORY_ONLY_SER and OFF_HEAP are serialised levels. The
 * DataFrame still reports the level the user asked for. If a Spark version builds its cache by
 * another way than these methods, the level stays serialised: slower, and still right.
 */
final class CachedBatchRDD[T: ClassTag](
    input: RDD[T],
    convert: Iterator[T] => Iterator[CachedBatch])
  extends MapPartitionsRDD[CachedBatch, T](
    input, (_: TaskContext, _: Int, values: Iterator[T]) => convert(values)) {

  private[spark] override def mapPartitionsInternal[U: ClassTag](
      f: Iterator[CachedBatch] => Iterator[U],
      preservesPartitioning: Boolean): RDD[U] = withScope {
    new PersistedBatchRDD[U](this, (_, values) => f(values), preservesPartitioning, false)
  }

  private[spark] override def mapPartitionsWithIndexInternal[U: ClassTag](
      f: (Int, Iterator[CachedBatch]) => Iterator[U],
      preservesPartitioning: Boolean,
      isOrderSensitive: Boolean,
      preservesPartitionSizes: Boolean): RDD[U] = withScope {
    new PersistedBatchRDD[U](this, f, preservesPartitioning, isOrderSensitive)
  }
}

/** What Spark persists: the batches after Spark's own bookkeeping, kept as objects in memory. */
final class PersistedBatchRDD[U: ClassTag](
    input: RDD[CachedBatch],
    f: (Int, Iterator[CachedBatch]) => Iterator[U],
    preservesPartitioning: Boolean,
    isOrderSensitive: Boolean)
  extends MapPartitionsRDD[U, CachedBatch](
    input,
    (_: TaskContext, index: Int, values: Iterator[CachedBatch]) => f(index, values),
    preservesPartitioning,
    isOrderSensitive = isOrderSensitive) {

  override def persist(level: StorageLevel): this.type = {
    super.persist(CachedBatches.objectLevel(level))
  }
}

object CachedBatches {
  /** The level that keeps objects where `level` keeps serialised bytes; DISK_ONLY stays itself. */
  def objectLevel(level: StorageLevel): StorageLevel =
    if (level.useMemory && !level.deserialized) {
      StorageLevel(level.useDisk, useMemory = true, useOffHeap = false, deserialized = true,
        level.replication)
    } else {
      level
    }

  def rdd[T: ClassTag](
      input: RDD[T],
      convert: Iterator[T] => Iterator[CachedBatch]): RDD[CachedBatch] =
    new CachedBatchRDD(input, input.sparkContext.clean(convert))

  /**
   * Makes Spark choose its serializer anew at the next cache: it keeps the first one per JVM, which
   * may be that of an earlier application. Caches that exist keep theirs.
   */
  def forgetSerializer(): Unit = InMemoryRelation.clearSerializer()
}
