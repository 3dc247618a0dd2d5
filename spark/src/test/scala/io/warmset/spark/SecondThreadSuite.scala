package io.warmset.spark

import java.nio.file.{Files, Path}
import java.util.concurrent.TimeUnit

import scala.util.Try

import org.apache.spark.TaskKilledException
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{DataFrame, Row}
import org.apache.spark.sql.catalyst.InternalRow
import org.apache.spark.sql.functions.{col, udf}
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
