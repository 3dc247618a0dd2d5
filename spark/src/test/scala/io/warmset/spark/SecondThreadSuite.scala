package io.warmset.spark

import java.io.{InputStream, OutputStream}
import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.util.Try

import org.apache.spark.{SparkEnv, TaskKilledException}
import org.apache.spark.rdd.RDD
import org.apache.spark.serializer.SerializationStream
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions.{col, udf}
import org.apache.spark.storage.{BlockId, RDDBlockId}
import org.apache.spark.storage.memory.warmset.{OwnedValues, TestBlocks}
import org.apache.spark.warmset.{TaskEnd, TaskThreads}
import org.scalatest.funsuite.AnyFunSuite

/**
 * Tasks that end while a thread of theirs still reads or makes a cache, as one does that feeds a
 * process: what it looks at stays until it looks no more.
 */
class SecondThreadSuite extends AnyFunSuite with WarmsetSession {
  override protected def settings: Map[String, String] = Map(
    "spark.sql.inMemoryColumnarStorage.batchSize" -> "200", "spark.warmset.rowGroup" -> "1m")

  private def rows(n: Long, partitions: Int = 2): DataFrame =
    spark.range(0, n, 1, partitions).selectExpr("id", "concat(if(id % 3 = 0, 'x', 'y'), repeat('z', 50), id) s")

  /** Nobody reaches the readers any more: that is found out by a collection. */
  private def assertGivenBack(regionsLeft: Int): Unit = eventually {
    System.gc()
    assert(pins == 0 && regions.length == regionsLeft)
  }

  test("what another thread of an ended task is shown stays pinned until it lets go") {
    val df = rows(4000, 1).cache()
    df.count()
    Signals.reset()
    SecondThread.readOn(df.filter("s like 'x%'").select("s").queryExecution.toRdd)
    assert(Signals.reached.getCount == 0)
    System.gc()
    Thread.sleep(200)
    assert(pins > 0, "the thread is inside a row")
    df.unpersist(blocking = true)
    assert(regions.nonEmpty, "a region that is read must stay")
    Signals.goOn.countDown()
    assertGivenBack(regionsLeft = 0)
    eventually(assert(SecondThread.ended.isInstanceOf[TaskKilledException], "no part must pass for the whole"))
  }

  test("a task that ends while another thread fills the cache: all is given back, and filled again") {
    Signals.reset()
    val signal = Files.createTempDirectory("warmset-signal").resolve("here").toString
    val slow = udf { (id: Long) =>
      if (id == 300 && Signals.attempts.getAndIncrement() == 0) {
        Files.createFile(Path.of(signal))
        SecondThread.stopHere()
      }
      id
    }
    val df = rows(4000, 1).select(slow(col("id")).as("id"), col("s")).cache()
    val wait = s"until test -e $signal; do sleep 0.05; done"
    assert(df.rdd.pipe(Seq("sh", "-c", wait)).collect().isEmpty)
    assert(Signals.reached.await(30, TimeUnit.SECONDS))
    Signals.goOn.countDown()
    assertGivenBack(regionsLeft = 0)
    // Spark finds out by failing once that the block was never stored.
    eventually(assert(df.selectExpr("sum(id)", "count(s)").head() == Row(4000L * 3999 / 2, 4000L)))
    assert(regions.length == 1)
    df.unpersist(blocking = true)
  }

  test("a task that ends after its block was made and before it is stored: the store does not keep it") {
    val elements = Seq.tabulate(1000)(i => Array.fill(100)(i.toDouble))
    for ((ends, kept) <- Seq(false -> true, true -> false); heapFirst <- Seq(false, true)) {
      val results = spark.sparkContext.parallelize(Seq(1), 1).map { _ =>
        val (stored, put) = TestBlocks.put(SparkEnv.get, new EndingTask(ends, heapFirst), RDDBlockId(1000000, 0), elements)
        (stored, put.failed.map(_.getClass.getSimpleName).getOrElse(""))
      }.collect().toSeq
      assert(results == Seq((kept, if (kept) "" else "TaskKilledException")))
      assertNothingLeft()
    }
  }

  test("threads of one task that read a block at the same time: what they leave open ends with it") {
    val elements = spark.sparkContext.parallelize(0 until 2000, 1).persistWarm()
    elements.count()
    val block = BlockAccess.onlyRddBlock(SparkEnv.get)
    val sums = spark.sparkContext.parallelize(Seq(1), 1).flatMap { _ =>
      TaskThreads.run(4) { thread =>
        (1 to 500).map { read =>
          val found = TestBlocks.values(SparkEnv.get, block).map(_.asInstanceOf[Int])
          if ((thread + read) % 2 == 0) found.sum else found.next()
        }.sum
      }
    }.collect().toSeq
    assert(sums == Seq.fill(4)(250 * (2000 * 1999 / 2)))
    assert(TaskReaders.taskCount == 0 && pins == 0)
    elements.unpersist(blocking = true)
  }

  test("processes that read a line of a filtered cache and end") {
    val df = rows(20000).cache()
    df.count()
    df.createOrReplaceTempView("piped")
    val filtered = df.filter("s like 'x%'").select("s")
    for (_ <- 1 to 15) {
      val lines = filtered.rdd.pipe("head -1").collect()
      assert(lines.length == 2 && lines.forall(_.startsWith("[xzz")), lines.mkString(", "))
      // Spark fails the query if its writer saw the process end first.
      Try(spark.sql("select transform(s) using 'head -1' as (t) from piped where s like 'x%'").collect())
        .foreach(found => assert(found.forall(_.getString(0).startsWith("xzz"))))
    }
    assertGivenBack(regionsLeft = 2)
    assert(filtered.count() == 6667)
    df.unpersist(blocking = true)
  }
}

/** Values as ours are, whose task ends when the last of them has been asked for. */
private class EndingTask(ends: Boolean, heapFirst: Boolean) extends OwnedValues {
  private val ours = new BlockOwnership(everyRdd = true, heapFirst)

  override def putting[T](block: BlockId)(put: => T): T = ours.putting(block)(put)
  override def adopt(values: Iterator[Any], warm: Boolean): Iterator[Any] = ending(ours.adopt(values, warm))

  private def ending(values: Iterator[Any]): Iterator[Any] = new Iterator[Any] {
    override def hasNext: Boolean = values.hasNext || {
      if (ends) TaskEnd.now()
      false
    }
    override def next(): Any = values.next()
  }
  override def adoptBytes(
      values: Iterator[Any],
      open: OutputStream => SerializationStream): Option[Iterator[Any]] = ours.adoptBytes(values, open)
  override def keptAsObjects(first: Any): Boolean = ours.keptAsObjects(first)
  override def blocksHere(rdd: Int): Option[Double] = ours.blocksHere(rdd)
  override def guarded(values: Iterator[Any]): Iterator[Any] = ours.guarded(ending(values))
  override def isRegionHandle(first: Any): Boolean = ours.isRegionHandle(first)
  override def packing[T](values: Iterator[Any])(use: Array[Any] => T): Option[T] =
    ours.packing(values)(use)
  override def packed(first: Any): Boolean = ours.packed(first)
  override def present(values: Iterator[Any]): Iterator[Any] = ours.present(values)
  override def stream(values: Iterator[Any]): InputStream = ours.stream(values)
  override def bytes(values: Iterator[Any]): Long = ours.bytes(values)
  override def commit(value: AutoCloseable, block: BlockId): Unit = ours.commit(value, block)
}

object SecondThread {
  /** What ended the thread; null while it runs. */
  @volatile var ended: Throwable = _

  /** Spark interrupts the thread, which may then be anywhere; this one is where it was. */
  def stopHere(): Unit =
    while (Signals.goOn.getCount > 0) {
      try Signals.stopHere()
      catch { case _: InterruptedException => }
    }

  /** A task that starts a thread which reads its rows, and ends when that is inside the first. */
  def readOn(rows: RDD[InternalRow]): Unit = rows.mapPartitions { values =>
    ended = null
    val thread = new Thread(() =>
      try {
        if (values.hasNext) values.next()
        Signals.stopHere()
        values.foreach(_ => ())
      } catch {
        case cause: Throwable => ended = cause
      })
    thread.setDaemon(true)
    thread.start()
    Signals.reached.await(30, TimeUnit.SECONDS)
    Iterator.empty[InternalRow]
  }.count()
}
