package io.warmset.spark

import io.warmset.columns.{ColumnTypes, WarmVector}
import io.warmset.spark.cachedframes.{BatchEncoding, BatchStatistics, ColumnarReader, RowFilter}
import io.warmset.spark.cachedframes.{PartitionCount, SelectedBatch}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.catalyst.expressions.{Attribute, Expression, UnsafeProjection}
import org.apache.spark.sql.columnar.{CachedBatch, SimpleMetricsCachedBatchSerializer}
import org.apache.spark.sql.execution.SparkPlan
import org.apache.spark.sql.execution.adaptive.AdaptiveSparkPlanExec
import org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer
import org.apache.spark.sql.execution.columnar.warmset.{CachedBatches, TableStatistics}
import org.apache.spark.sql.internal.SQLConf
import org.apache.spark.sql.types.{DataType, StructType}
import org.apache.spark.sql.vectorized.ColumnarBatch
import org.apache.spark.storage.StorageLevel

/**
 * Spark's cached DataFrames in regions: the value of spark.sql.cache.serializer.
 *
 * Invariant: whether a relation is ours is decided by its whole schema, the same in every method;
 * a relation with a type that the column layer does not know is Spark's own serializer's, wholly.
 * It keeps no state, and works, on heap bytes, in a process that has no store.
 */
class WarmsetSerializer extends SimpleMetricsCachedBatchSerializer {
  import WarmsetSerializer._

  override def supportsColumnarInput(schema: Seq[Attribute]): Boolean = ours(schema)

  /**
   * Columns are taken in where the plan gives them by itself. An adaptive plan is asked for columns
   * only if its root is a scan of columns: of any other, Spark would make columns out of rows, a
   * detour that does not know all types.
   */
  override def convertToColumnarPlanIfPossible(plan: SparkPlan): SparkPlan = plan match {
    case adaptive: AdaptiveSparkPlanExec if !adaptive.inputPlan.supportsColumnar => adaptive
    case _ => super.convertToColumnarPlanIfPossible(plan)
  }

  override def supportsColumnarOutput(schema: StructType): Boolean =
    if (schema.forall(f => supported(f.dataType))) true
    else stock.supportsColumnarOutput(schema)

  /**
   * Asked for selected columns only. A relation that is not ours is columnar for Spark's own
   * serializer only if all its types are primitive, and then it would be ours.
   */
  override def vectorTypes(attributes: Seq[Attribute], conf: SQLConf): Option[Seq[String]] =
    if (ours(attributes)) Some(attributes.map(a => WarmVector.className(a.dataType)))
    else stock.vectorTypes(attributes, conf)

  override def convertInternalRowToCachedBatch(
      input: RDD[InternalRow],
      schema: Seq[Attribute],
      level: StorageLevel,
      conf: SQLConf): RDD[CachedBatch] =
    if (ours(schema)) {
      val types = schema.map(_.dataType).toArray
      val rowsPerBatch = conf.columnBatchSize
      val inMemory = level.useMemory
      val counting = Counting.of(input, types, conf)
      CachedBatches.rdd[InternalRow](input,
        (partition, rows) =>
          BatchEncoding.fromRows(rows, types, rowsPerBatch, inMemory, counting.map(_.begin(partition))),
        counting.map(_.statistics))
    } else {
      stock.convertInternalRowToCachedBatch(input, schema, level, conf)
    }

  override def convertColumnarBatchToCachedBatch(
      input: RDD[ColumnarBatch],
      schema: Seq[Attribute],
      level: StorageLevel,
      conf: SQLConf): RDD[CachedBatch] = {
    val types = schema.map(_.dataType).toArray
    val rowsPerBatch = conf.columnBatchSize
    val inMemory = level.useMemory
    val counting = Counting.of(input, types, conf)
    CachedBatches.rdd[ColumnarBatch](input,
      (partition, batches) =>
        BatchEncoding.fromColumns(batches, types, rowsPerBatch, inMemory, counting.map(_.begin(partition))),
      counting.map(_.statistics))
  }

  override def convertCachedBatchToColumnarBatch(
      input: RDD[CachedBatch],
      cached: Seq[Attribute],
      selected: Seq[Attribute],
      conf: SQLConf): RDD[ColumnarBatch] =
    if (ours(cached)) {
      val columns = indices(cached, selected)
      val types = selected.map(_.dataType).toArray
      input.mapPartitions(ColumnarReader.inTask(_, columns, types))
    } else {
      stock.convertCachedBatchToColumnarBatch(input, cached, selected, conf)
    }

  override def convertCachedBatchToInternalRow(
      input: RDD[CachedBatch],
      cached: Seq[Attribute],
      selected: Seq[Attribute],
      conf: SQLConf): RDD[InternalRow] =
    if (ours(cached)) {
      val columns = indices(cached, selected)
      val types = selected.map(_.dataType).toArray
      input.mapPartitions { batches =>
        new RowReader(ColumnarReader.inTask(batches, columns, types), types)
      }
    } else {
      stock.convertCachedBatchToInternalRow(input, cached, selected, conf)
    }

  override def buildFilter(
      predicates: Seq[Expression],
      cached: Seq[Attribute]): (Int, Iterator[CachedBatch]) => Iterator[CachedBatch] =
    if (ours(cached)) {
      val (whole, others) = predicates.partition(_.isInstanceOf[WholeBatches])
      val sound = RowFilter.beforeChance(others)
      val prune = super.buildFilter(sound.filter(BatchStatistics.canPrune), cached)
      (if (whole.isEmpty) RowFilter.of(sound, cached) else None) match {
        case Some(filter) => (index, batches) => prune(index, batches).map {
          case batch: WarmBatch => SelectedBatch(batch, filter)
          case other => other
        }
        case None => prune
      }
    } else {
      stock.buildFilter(predicates, cached)
    }
}

object WarmsetSerializer {
  private lazy val stock = new DefaultCachedBatchSerializer

  def supported(dataType: DataType): Boolean = ColumnTypes.supports(dataType)

  private[spark] def ours(schema: Seq[Attribute]): Boolean =
    schema.forall(a => supported(a.dataType))

  /** How the partitions of a relation are counted for the optimiser. */
  private final case class Counting(types: Array[DataType], sketchesMax: Int, statistics: TableStatistics) {
    def begin(partition: Int): PartitionCount =
      new PartitionCount(partition, types, sketchesMax, statistics)
  }

  private object Counting {
    def of(input: RDD[_], types: Array[DataType], conf: SQLConf): Option[Counting] =
      if (WarmsetConf.Statistics.read(conf)) {
        TableStatistics.sketchesMax(input.sparkContext, types.length, input.getNumPartitions)
          .map(Counting(types, _, TableStatistics.registered(input.sparkContext)))
      } else {
        None
      }
  }

  private def indices(cached: Seq[Attribute], selected: Seq[Attribute]): Array[Int] = {
    val byId = cached.iterator.map(_.exprId).zipWithIndex.toMap
    selected.map(a => byId(a.exprId)).toArray
  }
}

/** Cached rows in Spark's row format; the row object is used again for the next row. */
private[spark] final class RowReader(batches: Iterator[ColumnarBatch], types: Array[DataType])
  extends Iterator[InternalRow] {
  private val projection = UnsafeProjection.create(types)
  private var rows: java.util.Iterator[InternalRow] = java.util.Collections.emptyIterator()

  override def hasNext: Boolean = {
    while (!rows.hasNext && batches.hasNext) {
      rows = batches.next().rowIterator()
    }
    rows.hasNext
  }

  override def next(): InternalRow = {
    if (!hasNext) throw new NoSuchElementException("no more cached rows")
    projection(rows.next())
  }
}
