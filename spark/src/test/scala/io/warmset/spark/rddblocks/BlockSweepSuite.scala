package io.warmset.spark.rddblocks

import org.scalatest.funsuite.AnyFunSuite

class BlockSweepSuite extends AnyFunSuite {
  private val everywhere = (split: Int) => Some(()).filter(_ => split < 10)

  private def next(sweep: BlockSweep, find: Int => Option[Unit] = everywhere): Option[Int] =
    sweep.next(find).map(_._1)

  private def opened(splits: Int*): BlockSweep = {
    val sweep = new BlockSweep
    splits.foreach(sweep.open)
    sweep
  }

  test("what follows the highest block that was opened or given, to the last one") {
    val sweep = opened(0, 1)
    assert((next(sweep), next(sweep)) == (Some(2), Some(3)))
    sweep.open(2)
    assert(next(sweep).contains(4))
    (3 to 9).foreach(sweep.open)
    assert(next(sweep).isEmpty)
  }

  test("tasks open their blocks a little out of order") {
    val sweep = opened(1, 0, 3, 2)
    assert(next(sweep).contains(4))
  }

  test("one block alone is no sweep, however often it is read") {
    assert(next(new BlockSweep).isEmpty)
    assert(next(opened(3)).isEmpty)
    assert(next(opened(3, 3, 3)).isEmpty)
  }

  test("a block that is opened again begins a new sweep, in whatever order its first tasks come") {
    val sweep = opened(0 to 9: _*)
    sweep.open(1)
    assert(next(sweep).isEmpty)
    sweep.open(0)
    assert(next(sweep).contains(2))
  }

  test("after two sweeps a third is likely: its first blocks follow the last ones, each once") {
    val sweep = opened(0 to 9: _*)
    assert(next(sweep).isEmpty)
    (0 to 9).foreach(sweep.open)
    assert((next(sweep), next(sweep)) == (Some(0), Some(1)))
    sweep.open(0)
    assert(next(sweep).isEmpty, "one block alone")
    sweep.open(1)
    assert(next(sweep).contains(2))
  }

  test("a block that was given and not opened: no more until the next sweep") {
    val sweep = opened(0, 1)
    assert(next(sweep).contains(2))
    sweep.mistake()
    sweep.open(5)
    assert(next(sweep).isEmpty)
    Seq(0, 1).foreach(sweep.open)
    assert(next(sweep).contains(2))
  }

  test("blocks of other executors are passed over, up to a distance") {
    val sweep = opened(0, 4)
    assert(next(sweep, split => Some(()).filter(_ => split == 8)).contains(8))
    assert(next(sweep, split => Some(()).filter(_ => split == 5000)).isEmpty)
    assert(next(sweep, split => Some(()).filter(_ => split % 4 == 0)).contains(12))
  }
}
