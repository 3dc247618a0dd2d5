package io.warmset.spark.cachedframes

import java.util.function.LongUnaryOperator

import io.warmset.columns.{Selection, WarmVector}

/**
 * Thins out the batches of one scan by its filter, where that pays.
 *
 * Invariant: rows that the filter leaves in are shown in their order; a batch of which most rows
 * stay is shown whole, and after such batches the filter rests, for longer each time, so that an
 * unselective one costs next to nothing. The vectors are those that the batch is bound to.
 */
private[spark] final class RowSelector(
    filter: RowFilter,
    columns: Array[Int],
    vectors: Array[WarmVector]) {
  import RowSelector._

  private val selection = new Selection
  private val stages: Array[Stage] =
    if (vectors.forall(v => WarmVector.canCompact(v.dataType))) {
      filter.steps.flatMap { step =>
        val at = columns.indexOf(step.column)
        if (at < 0) None else Some(new Stage(step, vectors(at)))
      }
    } else {
      Array.empty
    }
  private var shown = 0
  private var toRest = 0
  private var restNext = 1

  /**
   * Leaves in the vectors the rows that may pass, of `rows` that they show in `bytes`; returns how
   * many. Large values are not copied: a few of them would be more than all the memory that
   * anybody has counted on.
   */
  def show(rows: Int, bytes: Long, allocate: LongUnaryOperator): Int =
    if (stages.isEmpty || bytes > rows * RowBytesMax) {
      rows
    } else if (toRest > 0) {
      toRest -= 1
      rows
    } else {
      select(rows)
      if (selection.count > rows * WholeFrom) {
        toRest = restNext
        restNext = math.min(restNext * 2, RestMax)
        rows
      } else {
        restNext = 1
        if (selection.count > 0) vectors.foreach(_.compact(selection, allocate))
        selection.count
      }
    }

  private def select(rows: Int): Unit = {
    selection.reset(rows)
    var i = 0
    while (i < stages.length && selection.count > 0) {
      stages(i).keep(selection)
      i += 1
    }
    shown += 1
    // The most selective first: the others then have less to look at.
    if (stages.length > 1 && (shown & (shown - 1)) == 0) {
      java.util.Arrays.sort(stages, Ordering.by[Stage, Double](_.passed))
    }
  }
}

private[spark] object RowSelector {
  /** Of a batch's rows; copying more of them costs more than it spares. */
  private val WholeFrom = 0.5
  private val RestMax = 64
  private val RowBytesMax = 64L << 10

  private final class Stage(step: RowFilter.Step, vector: WarmVector) {
    private var in = 0L
    private var out = 0L

    /** The share of rows that it let pass so far. */
    def passed: Double = if (in == 0) 1.0 else out.toDouble / in

    def keep(selection: Selection): Unit = {
      in += selection.count
      step.keep(vector, selection)
      out += selection.count
    }
  }
}
