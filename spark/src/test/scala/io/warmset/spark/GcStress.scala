package io.warmset.spark

import java.lang.management.ManagementFactory
import java.util.concurrent.ConcurrentLinkedQueue
import java.util.concurrent.atomic.{AtomicInteger, AtomicReference}

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import org.apache.spark.{SparkContext, SparkEnv}
import org.apache.spark.rdd.RDD
import org.apache.spark.sql.{Row, SparkSession}
import org.apache.spark.storage.StorageLevel
import org.apache.spark.warmset.SparkInternals

/**
 * Reads, evicts, makes again and keeps elements and rows of cached data while a thread collects
 * garbage all the time; a program of its own, so that the heap is small. Ends with 0 if every value
 * was what it should be, nothing that was kept has changed, and all was given back.
 */
object GcStress {
  private val Elements = 800
  private val Partitions = 3
  private val Rows = 20000L

  private val failure = new AtomicReference[Throwable]
  private val kept = new ConcurrentLinkedQueue[(Int, Any)]
  private val rounds = new AtomicInteger
  @volatile private var scanned: RDD[_] = _

  def main(args: Array[String]): Unit = {
    val spark = SparkSession.builder().master("local[2]").appName("stress")
      .config("spark.plugins", "io.warmset.spark.WarmsetPlugin")
      .config("spark.warmset.required", "true").config("spark.warmset.rdd.enabled", "true")
      .config("spark.warmset.memory", "16m").config("spark.warmset.dir", args(0))
      .config("spark.warmset.smallPartition", "0").config("spark.warmset.rowGroup", "1m")
      .config("spark.warmset.flashReserve", "1g")
      .config("spark.warmset.rdd.heapFirst", args(3))
      .config("spark.sql.inMemoryColumnarStorage.batchSize", "500")
      .config("spark.sql.shuffle.partitions", "2").config("spark.ui.enabled", "false")
      .getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    val until = System.nanoTime + args(1).toLong * 1000000000L
    val collector = new Thread(() => collect())
    collector.setDaemon(true)
    collector.start()
    if (args(3).toBoolean) {
      val packer = new Thread(() => pack())
      packer.setDaemon(true)
      packer.start()
    }
    val readers = Seq(inLoop(until)(round => elements(spark.sparkContext, args(2).toInt + round)),
      inLoop(until)(rows(spark, _)))
    readers.foreach(_.join())
    if (failure.get == null) note(checkKept())
    if (failure.get == null) note(checkGivenBack(spark))
    if (failure.get != null) {
      failure.get.printStackTrace()
      Runtime.getRuntime.halt(1)
    }
    val collections = ManagementFactory.getGarbageCollectorMXBeans.asScala.map(_.getCollectionCount).sum
    println(s"stress: $rounds rounds, $collections collections, ${kept.size} elements kept")
    spark.stop()
  }

  /** Half of the time; what tasks allocate makes more collections. */
  private def collect(): Unit = while (true) {
    val start = System.nanoTime
    System.gc()
    Thread.sleep(1 + (System.nanoTime - start) / 1000000)
  }

  /** Takes blocks off the heap while they are put, read and evicted. */
  private def pack(): Unit = while (true) {
    SparkInternals.packIdle(1L << 20)
    Thread.sleep(1)
  }

  private def note(body: => Unit): Unit =
    try body catch { case cause: Throwable => failure.compareAndSet(null, cause) }

  private def inLoop(until: Long)(body: Int => Unit): Thread = {
    val thread = new Thread(() => {
      var round = 0
      while (failure.get == null && (round == 0 || System.nanoTime < until)) {
        note(body(round))
        round += 1
        rounds.incrementAndGet()
      }
    })
    thread.start()
    thread
  }

  /** The element at an index: flat ones, a large array, what Fory takes, and what nothing takes. */
  def element(i: Int): Any = i % 100 match {
    case 0 => Array.tabulate(70000)(j => i + j / 8.0)
    case 1 => new java.util.ArrayList[Any](java.util.List.of(s"list $i", Int.box(i)))
    case 2 => new Unserialisable(i)
    case k if k % 3 == 0 => Reading(i, s"n$i", Array.tabulate(k)(j => i * 3.0 + j))
    case k if k % 3 == 1 => (i, s"s$i", List(i, i + 1), Array(s"a$i", null))
    case _ => Some(Left((i.toLong, i / 2.0)))
  }

  private def same(a: Any, b: Any): Boolean = (a, b) match {
    case (x: Array[Double], y: Array[Double]) => java.util.Arrays.equals(x, y)
    case (x: Reading, y: Reading) => x.id == y.id && x.name == y.name && same(x.values, y.values)
    case ((i, s, l, x: Array[String]), (j, t, m, y: Array[String])) =>
      i == j && s == t && l == m && x.toSeq == y.toSeq
    case (x: Unserialisable, y: Unserialisable) => x.id == y.id
    case _ => a == b
  }

  private def levels = Seq(StorageLevel.MEMORY_ONLY, StorageLevel.MEMORY_ONLY_SER,
    StorageLevel.MEMORY_AND_DISK, WarmLevel, StorageLevel.MEMORY_AND_DISK_SER)

  private def elements(sc: SparkContext, round: Int): Unit = {
    val level = levels(round % levels.length)
    // What has to be serialised for a level or for a file must be serialisable.
    val indices = (0 until Elements).filter(i => i % 100 != 2 || level == StorageLevel.MEMORY_ONLY)
    val rdd = sc.parallelize(indices, Partitions).map(i => (i, element(i))).persist(level)
    def check(keepEvery: Int): Unit = {
      val wrong = rdd.filter { case (i, found) =>
        if (i % keepEvery == 0) kept.add((i, found))
        !same(found, element(i))
      }.map(_._1).collect()
      require(wrong.isEmpty, s"$level: elements ${wrong.toSeq} are not what was cached")
    }
    for (_ <- 1 to 2) check(keepEvery = 97)
    evictSome(rdd, round)
    check(keepEvery = 193)
    // A scan that goes on when its block is taken away.
    scanned = rdd
    val scan = rdd.mapPartitions { found =>
      found.next()
      scanned.unpersist(blocking = false)
      found.filterNot { case (i, e) => same(e, element(i)) }
    }
    require(sc.runJob(scan, (found: Iterator[_]) => found.size).sum == 0, s"$level: after unpersist")
    rdd.unpersist(blocking = true)
    if (round % 3 == 2) forgetSome()
  }

  private def evictSome(rdd: RDD[_], round: Int): Unit = {
    val env = SparkEnv.get
    BlockAccess.rddBlocks(env).filter(_.asRDDId.exists(b => b.rddId == rdd.id && b.splitIndex != round % Partitions))
      .filter(BlockAccess.inMemory).foreach(BlockAccess.evict(env, _))
  }

  private def rows(spark: SparkSession, round: Int): Unit = {
    val made = spark.range(0, Rows, 1, Partitions).selectExpr("id", "concat('s', id) s", "id / 8D d",
      "array(id, -id) pair", "if(id % 7 = 0, null, cast(id as decimal(20,2))) price")
    def answer() = made.selectExpr("sum(id)", "sum(hash(s))", "sum(d)", "sum(pair[1])", "sum(price)").head()
    val expected = answer()
    made.persist(levels(round % 2 * 2))
    for (_ <- 1 to 2) require(answer() == expected, "rows are not what was cached")
    made.filter(s"id % 1000 = ${round % 10}").collect().foreach(row => kept.add((-1, row)))
    require(made.filter("s = 's77'").select("d").head() == Row(77 / 8.0))
    made.unpersist(blocking = round % 2 == 0)
  }

  private def forgetSome(): Unit = kept.iterator.asScala.zipWithIndex.filter(_._2 % 2 == 0)
    .map(_._1).toSeq.foreach(kept.remove(_))

  private def checkKept(): Unit = kept.asScala.foreach {
    case (_, row: Row) =>
      val id = row.getLong(0)
      require(row.getString(1) == s"s$id" && row.getDouble(2) == id / 8.0 &&
        row.getSeq[Long](3) == Seq(id, -id) && row.isNullAt(4) == (id % 7 == 0), s"$row has changed")
    case (i, found) => require(same(found, element(i)), s"element $i, which was kept, has changed")
  }

  private def checkGivenBack(spark: SparkSession): Unit = {
    val env = SparkEnv.get
    def left = new ObjectMapper().readTree(StoreHolder.current.get.store.regions())
    val until = System.nanoTime + 10000000000L
    while (!left.isEmpty && System.nanoTime < until) Thread.sleep(20)
    require(left.isEmpty, s"regions are left: $left")
    require(BlockAccess.rddBlocks(env).isEmpty && BlockAccess.unrollMemory == 0)
  }
}
