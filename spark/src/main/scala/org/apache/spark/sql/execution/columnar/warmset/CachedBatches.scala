package org.apache.spark.sql.execution.columnar.warmset

import scala.reflect.ClassTag

import org.apache.spark.{Partition, Partitioner, TaskContext}
import org.apache.spark.rdd.{DeterministicLevel, RDD}
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatch}
import org.apache.spark.sql.execution.columnar.InMemoryRelation
import org.apache.spark.storage.StorageLevel
import org.apache.spark.util.KnownSizeEstimation

/** A cached batch that tells Spark its heap size itself. Here because the trait is Spark's own. */
abstract class SizedCachedBatch extends SimpleMetricsCachedBatch with KnownSizeEstimation

/**
 * The parent's partitions, each through a function, as Spark's MapPartitionsRDD: that one is not the
 * base, since its constructor differs between versions. The parent is held as a dependency only, so
 * that a checkpoint lets go of it.
 */
private[warmset] abstract class PartitionwiseRDD[U: ClassTag, T: ClassTag](
    parent: RDD[T],
    preservesPartitioning: Boolean,
    isOrderSensitive: Boolean)
  extends RDD[U](parent) {

  protected def convert(index: Int, values: Iterator[T]): Iterator[U]

  override val partitioner: Option[Partitioner] =
    if (preservesPartitioning) parent.partitioner else None

  override protected def getPartitions: Array[Partition] = firstParent[T].partitions

  override def compute(split: Partition, context: TaskContext): Iterator[U] =
    convert(split.index, firstParent[T].iterator(split, context))

  override protected def getOutputDeterministicLevel: DeterministicLevel.Value =
    super.getOutputDeterministicLevel match {
      case DeterministicLevel.UNORDERED if isOrderSensitive => DeterministicLevel.INDETERMINATE
      case level => level
    }
}

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
    toBatches: (Int, Iterator[T]) => Iterator[CachedBatch],
    @transient statistics: Option[TableStatistics])
  extends PartitionwiseRDD[CachedBatch, T](
    input, preservesPartitioning = false, isOrderSensitive = false) {

  override protected def convert(index: Int, values: Iterator[T]): Iterator[CachedBatch] =
    toBatches(index, values)

  private[spark] override def mapPartitionsInternal[U: ClassTag](
      f: Iterator[CachedBatch] => Iterator[U],
      preservesPartitioning: Boolean): RDD[U] = withScope {
    new PersistedBatchRDD[U](this, (_, values) => f(values), preservesPartitioning, false, statistics)
  }

  private[spark] override def mapPartitionsWithIndexInternal[U: ClassTag](
      f: (Int, Iterator[CachedBatch]) => Iterator[U],
      preservesPartitioning: Boolean,
      isOrderSensitive: Boolean,
      preservesPartitionSizes: Boolean): RDD[U] = withScope {
    new PersistedBatchRDD[U](this, f, preservesPartitioning, isOrderSensitive, statistics)
  }
}

/** What Spark persists: the batches after Spark's own bookkeeping, kept as objects in memory. */
final class PersistedBatchRDD[U: ClassTag](
    input: RDD[CachedBatch],
    f: (Int, Iterator[CachedBatch]) => Iterator[U],
    preservesPartitioning: Boolean,
    isOrderSensitive: Boolean,
    @transient private[warmset] val statistics: Option[TableStatistics])
  extends PartitionwiseRDD[U, CachedBatch](input, preservesPartitioning, isOrderSensitive) {

  override protected def convert(index: Int, values: Iterator[CachedBatch]): Iterator[U] =
    f(index, values)

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

  /**
   * @param convert makes the batches of the partition of that number
   * @param statistics where `convert` says what it made, if it does
   */
  def rdd[T: ClassTag](
      input: RDD[T],
      convert: (Int, Iterator[T]) => Iterator[CachedBatch],
      statistics: Option[TableStatistics]): RDD[CachedBatch] =
    new CachedBatchRDD(input, input.sparkContext.clean(convert), statistics)

  /** What is known of a relation of which all partitions have been made. */
  def totals(relation: InMemoryRelation): Option[TableTotals] = made(relation).flatMap { of =>
    of.statistics.flatMap(_.totals(of.getNumPartitions)).filter(_.columns.length == relation.output.length)
  }

  /** The runs of a column in the partitions of a relation whose rows are the same whenever they are computed. */
  def runs(relation: InMemoryRelation, column: Int): Option[IndexedSeq[Seq[(Long, Long)]]] = made(relation)
    .filter(of => totals(relation).isDefined && of.outputDeterministicLevel == DeterministicLevel.DETERMINATE)
    .flatMap(of => of.statistics.flatMap(_.runs(column, of.getNumPartitions)))

  private def made(relation: InMemoryRelation): Option[PersistedBatchRDD[_]] =
    if (!relation.cacheBuilder.isCachedColumnBuffersLoaded) None
    else relation.cacheBuilder.cachedColumnBuffers match {
      case made: PersistedBatchRDD[_] if made.statistics != null => Some(made)
      case _ => None
    }

  /**
   * Makes Spark choose its serializer again at the next cache: it keeps the first one per JVM, which
   * may be that of an earlier application. Caches that exist keep theirs.
   */
  def forgetSerializer(): Unit = InMemoryRelation.clearSerializer()
}
