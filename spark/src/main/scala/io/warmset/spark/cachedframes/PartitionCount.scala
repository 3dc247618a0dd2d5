package io.warmset.spark.cachedframes

import io.warmset.columns.{BatchEncoder, BatchMeta, DistinctSketch}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.execution.columnar.warmset.{ColumnTotals, TableStatistics, TableTotals}
import org.apache.spark.sql.types.DataType

/**
 * Sums up the batches of one partition while they are encoded, for the optimiser.
 *
 * Invariant: it says what it found once, when the partition has ended; of a partition that is cut
 * short it says nothing.
 *
 * @param sketchesMax how many columns, from the first on, may have their distinct values counted
 */
private[spark] final class PartitionCount(
    partition: Int,
    types: Array[DataType],
    sketchesMax: Int,
    statistics: TableStatistics) {
  private val sketches = newSketches()
  /** Those of the batch. */
  private val ofBatch = newSketches()
  private var columns = Array.fill(types.length)(ColumnTotals.Nothing)
  private val runs = Array.fill(types.length)(new Runs)
  private var rows = 0L
  private var ended = false

  private def newSketches(): Array[DistinctSketch] = types.zipWithIndex.map { case (t, c) =>
    if (c < sketchesMax && TableStatistics.sketched(t)) new DistinctSketch else null
  }

  /** Takes the batch that the encoder has finished. */
  def add(encoder: BatchEncoder, meta: BatchMeta, stats: InternalRow): Unit = {
    ofBatch.filter(_ != null).foreach(_.clear())
    encoder.sketch(ofBatch)
    sketches.zip(ofBatch).foreach { case (all, batch) =>
      if (all != null) DistinctSketch.merge(all.registers, batch.registers)
    }
    rows += meta.numRows
    columns = columns.indices.map { c =>
      val batch = totals(c, meta, stats)
      runs(c).add(batch, meta.numRows, encoder.halves(c))
      columns(c).and(batch)
    }.toArray
  }

  private def totals(c: Int, meta: BatchMeta, stats: InternalRow): ColumnTotals = {
    val nulls = stats.getInt(5 * c + 2)
    val bounded = nulls < meta.numRows && TableStatistics.bounded(types(c))
    def bound(at: Int): Any = if (bounded) stats.get(at, types(c)) else null
    val values = if (ofBatch(c) == null) 0 else ofBatch(c).estimate()
    new ColumnTotals(meta.bytes(c), stats.getLong(5 * c + 4), nulls, values, 0, bound(5 * c), bound(5 * c + 1), null)
  }

  def end(): Unit = if (!ended) {
    ended = true
    val counted = columns.lazyZip(sketches).lazyZip(runs).map { case (of, sketch, own) =>
      val values = if (sketch == null) 0.0 else sketch.estimate()
      of.and(new ColumnTotals(0, 0, 0, 0, values, null, null, if (sketch == null) null else sketch.registers)).in(own.found)
    }
    statistics.add(partition -> new TableTotals(rows, counted))
  }
}
