package io.warmset.spark

import java.io.{File, IOException}
import java.nio.file.Files
import java.util.concurrent.ConcurrentLinkedQueue

import scala.jdk.CollectionConverters._

import com.fasterxml.jackson.databind.ObjectMapper
import io.warmset.region.{NativeLibrary, NativeStore}
import org.apache.logging.log4j.{Level, LogManager}
import org.apache.logging.log4j.core.{LogEvent, Logger}
import org.apache.logging.log4j.core.appender.AbstractAppender
import org.apache.logging.log4j.core.config.Property
import org.apache.spark.SparkException
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin}
import org.apache.spark.sql.{SparkSession, SparkSessionExtensions}
import org.apache.spark.sql.columnar.CachedBatchSerializer
import org.apache.spark.sql.execution.columnar.{DefaultCachedBatchSerializer, InMemoryRelation}
import org.apache.spark.sql.execution.columnar.warmset.CachedBatches
import org.apache.spark.storage.StorageLevel
import org.scalatest.concurrent.Eventually
import org.scalatest.funsuite.AnyFunSuite
import org.scalatest.time.{Millis, Seconds, Span}

/** A Spark whose inside is not as Warmset knows it. */
class OtherInside extends WarmsetPlugin {
  override def executorPlugin(): ExecutorPlugin = new WarmsetExecutor(_ => throw OtherInside.failure)
}

class LaterSpark extends WarmsetPlugin {
  override def driverPlugin(): DriverPlugin = new WarmsetDriver(WarmsetPlugin.misfit("9.1.0"))
}

/** A vendor's build in which something is missing. */
class VendorsSpark extends WarmsetPlugin {
  override def driverPlugin(): DriverPlugin = new WarmsetDriver(WarmsetPlugin.misfit("4.2.0-vendor", () => VendorsSpark.missing))
}

object VendorsSpark {
  @volatile var missing: Linkage.Missing = _
}

class NowhereToGo(val id: Int)

class NoExtensions extends (SparkSessionExtensions => Unit) {
  override def apply(extensions: SparkSessionExtensions): Unit = ()
}

object OtherInside {
  @volatile var failure: Throwable = _
}

/** Where Warmset cannot work: stock Spark or a clear stop, and right answers in any case. */
class DegradeSuite extends AnyFunSuite with Eventually {
  implicit override val patienceConfig: PatienceConfig = PatienceConfig(Span(30, Seconds), Span(50, Millis))
  private val directory = Files.createTempDirectory("warmset-degrade").toFile

  private def withSession(settings: (String, String)*)(body: SparkSession => Unit): Unit = {
    SparkSession.getDefaultSession.foreach(_.stop())
    SparkSession.clearActiveSession()
    SparkSession.clearDefaultSession()
    val all = Map("spark.plugins" -> "io.warmset.spark.WarmsetPlugin",
      "spark.warmset.memory" -> "64m", "spark.warmset.dir" -> directory.getPath,
      "spark.warmset.smallPartition" -> "0", "spark.warmset.flashReserve" -> "1g",
      "spark.ui.enabled" -> "false") ++ settings
    val builder = SparkSession.builder().master("local[2]").appName("degrade")
    all.foreach { case (k, v) => builder.config(k, v) }
    val session = builder.getOrCreate()
    try body(session)
    finally {
      session.stop()
      SparkSession.clearActiveSession()
      SparkSession.clearDefaultSession()
    }
  }

  private def worksWithout(spark: SparkSession): Unit = {
    assert(StoreHolder.current.isEmpty)
    checkCache(spark)
    assert(!spark.conf.getOption("spark.sql.cache.serializer").exists(_.contains("Warmset")))
  }

  private def checkCache(spark: SparkSession): Unit = {
    val df = spark.range(0, 5000, 1, 2).selectExpr("id", "concat('s', id) s")
    df.persist(StorageLevel.MEMORY_AND_DISK_SER)
    assert(df.count() == 5000)
    assert(df.selectExpr("sum(id)", "max(s)").head().toSeq == Seq(5000L * 4999 / 2, "s999"))
    df.unpersist(blocking = true)
  }

  private def refused(settings: (String, String)*): String = {
    val error = intercept[Exception](withSession(settings: _*)(_ => ()))
    Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).map(_.getMessage).mkString(" / ")
  }

  /** The warnings that speak of it meanwhile. */
  private def warnings(body: => Unit, about: String = "Warmset"): Seq[String] = {
    val seen = new ConcurrentLinkedQueue[String]
    val appender = new AbstractAppender("warnings", null, null, false, Property.EMPTY_ARRAY) {
      override def append(event: LogEvent): Unit =
        if (event.getLevel == Level.WARN) seen.add(event.getMessage.getFormattedMessage)
    }
    appender.start()
    val logger = LogManager.getRootLogger.asInstanceOf[Logger]
    logger.addAppender(appender)
    try body finally logger.removeAppender(appender)
    seen.asScala.toSeq.filter(_.contains(about))
  }

  private def regions = new ObjectMapper().readTree(StoreHolder.current.get.store.regions()).size

  private def levelOf(spark: SparkSession): StorageLevel = {
    val level = spark.sparkContext.range(0, 10).persistWarm().getStorageLevel
    spark.sparkContext.getPersistentRDDs.values.foreach(_.unpersist(blocking = true))
    level
  }

  /** Cached DataFrames are in regions, RDDs are where Spark puts them, and nothing stays of what failed. */
  private def framesOnly(spark: SparkSession): Unit = {
    checkCache(spark)
    val rdd = spark.sparkContext.range(0, 5000, 1, 2).persist(StorageLevel.MEMORY_ONLY)
    assert(rdd.sum() == rdd.sum() && rdd.count() == 5000)
    assert(BlockAccess.stored(spark.sparkContext).find(_.id == rdd.id).get.numCachedPartitions == 2)
    assert(regions == 0, "RDDs are left to Spark")
    val df = spark.range(0, 5000, 1, 2).selectExpr("id", "concat('s', id) s").cache()
    assert(df.filter("s = 's77'").count() == 1 && regions == 2)
    df.unpersist(blocking = true)
    eventually(assert(regions == 0))
    // Some row groups of each partition have been written when the last row of one fails.
    val failing = spark.range(0, 400000, 1, 2).selectExpr("xxhash64(id) h", "assert_true(id < 399999) a").cache()
    assert(intercept[Exception](failing.count()).getMessage.contains("399999"))
    failing.unpersist(blocking = true)
    eventually {
      System.gc()
      assert(regions == 0, "what a failed task had made stays")
    }
  }

  for (failure <- Seq(new NoSuchFieldException("memoryStore"), new NoSuchMethodError("reportBlockStatus"))) {
    test(s"a memory store that cannot be replaced (${failure.getMessage}): RDDs are left to Spark, with one warning") {
      OtherInside.failure = failure
      val said = warnings(withSession("spark.plugins" -> classOf[OtherInside].getName,
        "spark.warmset.rdd.enabled" -> "true", "spark.warmset.rowGroup" -> "1m")(framesOnly))
      assert(said.length == 1 && said.head.contains(failure.getMessage), said)
      val why = refused("spark.plugins" -> classOf[OtherInside].getName, "spark.warmset.required" -> "true")
      assert(why.contains(failure.getMessage) && why.contains("spark.warmset.required"), why)
      // One without a driver ends the JVM when sixty of its heartbeats have failed.
      val left = Thread.getAllStackTraces.keySet.asScala.map(_.getName)
      assert(!left.exists(_.contains("executor-heartbeater")), left)
    }
  }

  test("a vendor's build that lacks what one part needs: the other part works, and one warning says so") {
    val vendors = Seq("spark.plugins" -> classOf[VendorsSpark].getName, "spark.warmset.rdd.enabled" -> "true",
      "spark.warmset.rowGroup" -> "1m")
    def warned(missing: Linkage.Missing)(body: SparkSession => Unit): Unit = {
      VendorsSpark.missing = missing
      val said = warnings(withSession(vendors: _*)(body))
      assert(said.length == 1 && said.head.contains("4.2.0-vendor") && said.head.contains("a.B.c()V"), said)
      assert(refused(vendors :+ ("spark.warmset.required" -> "true"): _*).contains("a.B.c()V"))
    }
    warned(Linkage.Missing(rdds = Seq("a.B.c()V"))) { spark =>
      framesOnly(spark)
      assert(levelOf(spark) == StorageLevel.MEMORY_AND_DISK)
    }
    warned(Linkage.Missing(frames = Seq("a.B.c()V"))) { spark =>
      checkCache(spark)
      assert(!spark.sparkContext.getConf.contains("spark.sql.cache.serializer"))
      spark.range(100).cache().count()
      assert(regions == 0, "cached DataFrames are left to Spark")
      assert(levelOf(spark) == WarmLevel)
      val rdd = spark.sparkContext.range(0, 5000, 1, 2).persistWarm()
      assert(rdd.sum() == rdd.sum() && regions == 2)
      rdd.unpersist(blocking = true)
      eventually(assert(regions == 0))
    }
    for (missing <- Seq(Linkage.Missing(common = Seq("a.B.c()V")), Linkage.Missing(Seq("a.B.c()V"), Seq("a.D")))) {
      warned(missing)(worksWithout)
    }
  }

  test("spark.io.encryption.enabled: stock Spark") {
    withSession("spark.io.encryption.enabled" -> "true")(worksWithout)
  }

  test("persistWarm() without the plugin's store is persist(MEMORY_AND_DISK)") {
    withSession("spark.warmset.enabled" -> "false") { spark =>
      val rdd = spark.sparkContext.range(0, 5000, 1, 2).persistWarm()
      assert(rdd.getStorageLevel == StorageLevel.MEMORY_AND_DISK)
      assert(rdd.sum() == rdd.sum() && rdd.count() == 5000)
      assert(BlockAccess.stored(spark.sparkContext).head.numCachedPartitions == 2)
    }
  }

  test("spark.io.encryption.enabled with spark.warmset.required: does not start") {
    val why = refused("spark.io.encryption.enabled" -> "true", "spark.warmset.required" -> "true")
    assert(why.contains("spark.io.encryption.enabled") && why.contains("spark.warmset.required"), why)
    assert(why.contains("set it to false, and spark.warmset.dir") && why.contains("spark.warmset.enabled to false"), why)
  }

  test("a missing directory: stock Spark") {
    withSession("spark.warmset.dir" -> "/nowhere/at/all")(worksWithout)
  }

  test("of several directories, those that cannot be used are warned of and left out") {
    val said = warnings({
      withSession("spark.warmset.dir" -> s"/nowhere/at/all,${directory.getPath},/proc/self") { spark =>
        assert(StoreHolder.current.exists(_.directories == Seq(directory)))
        checkCache(spark)
      }
    }, "spark.warmset.dir")
    assert(said.count(_.contains("/nowhere/at/all")) == 1 && said.count(_.contains("/proc/self")) == 1, said)
  }

  test("a missing directory with spark.warmset.required: does not start and names the setting") {
    val why = refused("spark.warmset.dir" -> "/nowhere/at/all", "spark.warmset.required" -> "true")
    assert(why.contains("spark.warmset.dir") && why.contains("/nowhere/at/all"), why)
  }

  test("a directory that is a file, and one that cannot be written to") {
    val file = Files.createTempFile("warmset", "").toFile
    withSession("spark.warmset.dir" -> file.getPath)(worksWithout)
    // Not even root may make files there.
    withSession("spark.warmset.dir" -> "/proc/self")(worksWithout)
  }

  test("the library comes from the first directory that allows it; of several failures the last is told") {
    val Seq(noexec, full, good) = Seq("noexec", "full", "good").map(new File(_))
    var tried = Seq.empty[File]
    def load(directory: File): Unit = {
      tried :+= directory
      if (directory ne good) throw new IOException(s"cannot load from $directory")
    }
    StoreHolder.loadLibrary(Seq(noexec, good, full), load)
    assert(tried == Seq(noexec, good))
    val told = intercept[IOException](StoreHolder.loadLibrary(Seq(noexec, full), load))
    assert(told.getMessage.contains("from full"))
  }

  test("a malformed setting stops the start and is named, required or not") {
    val why = refused("spark.warmset.memory" -> "-3g")
    assert(why.contains("spark.warmset.memory is '-3g'"), why)
    val more = refused("spark.warmset.memory" -> "900000g")
    assert(more.contains("spark.warmset.memory is 878.91 TiB") && more.contains("set it lower") && !more.contains(" bytes"), more)
  }

  test("reserved huge pages that are not there: the setting is named") {
    val free = new File("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages")
    assume(!free.exists || new String(Files.readAllBytes(free.toPath)).trim == "0",
      "SKIPPED: this machine has reserved huge pages")
    val why = refused("spark.warmset.hugePages" -> "hugetlb", "spark.warmset.required" -> "true")
    assert(why.contains("spark.warmset.hugePages: `hugetlb` needs 32 reserved"), why)
    assert(why.contains("vm.nr_hugepages") && !why.contains("huge_pages:"), why)
  }

  test("a machine that the JVM takes for larger than it is") {
    NativeLibrary.load(directory)
    val limit = NativeStore.memoryLimit()
    val jvm = MemoryRule.Machine(limit * 2, 2, limit / 4, 0, None)
    def conf(settings: (String, String)*) = WarmsetConf.read(Map(settings: _*).get)
    val dir = "spark.warmset.dir" -> directory.getPath
    try {
      assert(StoreHolder.open(conf(dir), jvm, Nil).budgetBytes ==
        MemoryRule.budgetBytes(jvm.copy(totalBytes = limit)))
      StoreHolder.close()
      val store = StoreHolder.open(conf(dir, "spark.warmset.memory" -> "64m"), jvm, Nil).store
      val budget = () => new ObjectMapper().readTree(store.stats()).path("budget_bytes").asLong
      assert(budget() == (64L << 20))
      store.setBudget(128L << 20)
      assert(budget() == (128L << 20))
      val error = intercept[IllegalArgumentException](store.setBudget(limit * 2))
      assert(error.getMessage.startsWith("spark.warmset.memory: "), error.getMessage)
      assert(intercept[IllegalArgumentException](store.setBudget(-1)).getMessage.contains("-1 bytes"))
      assert(budget() == (128L << 20))
    } finally StoreHolder.close()
    val more = intercept[IllegalArgumentException](
      StoreHolder.open(conf(dir, "spark.warmset.memory" -> (limit + 1).toString), jvm, Nil))
    assert(more.getMessage.startsWith("spark.warmset.memory is "), more.getMessage)
  }

  test("an application that failed to start leaves nothing to the next one") {
    def fails() = assert(refused("spark.shuffle.manager" -> "nowhere.at.all", "spark.warmset.memory" -> "32m")
      .contains("nowhere.at.all"))
    fails()
    withSession("spark.warmset.memory" -> "48m") { spark =>
      assert(StoreHolder.current.get.budgetBytes == (48L << 20))
      checkCache(spark)
    }
    fails()
    withSession("spark.warmset.enabled" -> "false")(worksWithout)
  }

  test("a configuration taken from an application with Warmset turns nothing on where it is off") {
    val ofOne = Set("spark.app.id", "spark.app.startTime", "spark.app.submitTime", "spark.driver.port")
    var taken = Seq.empty[(String, String)]
    withSession("spark.sql.extensions" -> classOf[NoExtensions].getName) { spark =>
      taken = spark.sparkContext.getConf.getAll.toSeq.filterNot { case (key, _) => ofOne(key) }
    }
    assert(taken.exists(_._2.contains("WarmsetSerializer")) && taken.exists(_._1.endsWith("WarmsetPlugin.active")))
    assert(taken.exists(_._1 == PageRule.Key))
    for (off <- Seq("spark.warmset.enabled" -> "false", "spark.io.encryption.enabled" -> "true")) {
      withSession(taken :+ off: _*) { spark =>
        assert(StoreHolder.current.isEmpty)
        val conf = spark.sparkContext.getConf
        assert(!conf.contains("spark.sql.cache.serializer"))
        assert(!conf.contains("spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"))
        assert(!conf.contains(PageRule.Key) && System.getProperty(PageRule.Key) == null)
        assert(conf.get("spark.sql.extensions") == classOf[NoExtensions].getName)
        checkCache(spark)
      }
    }
  }

  test("spark.warmset.enabled=false: stock Spark") {
    withSession("spark.warmset.enabled" -> "false")(worksWithout)
  }

  test("where Warmset is off, Spark's cached batches have the very serializer that Spark chose before") {
    def serializer(spark: SparkSession) = {
      val cached = spark.range(100).cache()
      try {
        assert(cached.count() == 100)
        cached.asInstanceOf[org.apache.spark.sql.classic.DataFrame].queryExecution.withCachedData.collectFirst {
          case relation: InMemoryRelation => relation.cacheBuilder.serializer
        }.get
      } finally cached.unpersist(blocking = true)
    }
    val before = WarmsetPlugin.serializerSet.getAndSet(false)
    try {
      CachedBatches.forgetSerializer()
      var sparks: CachedBatchSerializer = null
      withSession("spark.plugins" -> "")(spark => sparks = serializer(spark))
      assert(sparks.getClass == classOf[DefaultCachedBatchSerializer])
      for (off <- Seq("spark.warmset.enabled" -> "false", "spark.plugins" -> classOf[LaterSpark].getName)) {
        withSession(off)(spark => assert(serializer(spark) eq sparks, off))
      }
    } finally WarmsetPlugin.serializerSet.set(before)
  }

  test("a cache serialiser of the user's own stays") {
    withSession("spark.sql.cache.serializer" ->
        "org.apache.spark.sql.execution.columnar.DefaultCachedBatchSerializer") { spark =>
      checkCache(spark)
      assert(spark.conf.get("spark.sql.cache.serializer").endsWith("DefaultCachedBatchSerializer"))
      val df = spark.range(100).cache()
      df.count()
      assert(StoreHolder.current.get.store.regions() == "[]")
    }
  }

  test("extensions of the user's own stay beside ours") {
    withSession("spark.sql.extensions" -> classOf[NoExtension].getName) { spark =>
      assert(spark.sparkContext.getConf.get("spark.sql.extensions") ==
        s"${classOf[NoExtension].getName},io.warmset.spark.WarmsetExtensions")
      checkCache(spark)
      val df = spark.range(100).cache()
      val query = df.filter("id > 50")
      query.collect()
      assert(query.asInstanceOf[org.apache.spark.sql.classic.DataFrame].queryExecution.executedPlan
        .toString.contains("ColumnarToRow"))
    }
  }

  test("an executor without a store keeps batches on the heap") {
    withSession() { spark =>
      StoreHolder.close()
      checkCache(spark)
      val df = spark.range(0, 3000, 1, 2).selectExpr("id", "array(id) a").persist(StorageLevel.MEMORY_AND_DISK)
      assert(df.selectExpr("sum(a[0])").head().getLong(0) == 3000L * 2999 / 2)
      assert(df.filter("id = 7").count() == 1)
    }
  }

  test("a full flash limit: the rest stays on the heap and is right") {
    withSession("spark.warmset.memory" -> "16m", "spark.warmset.flashMax" -> "0",
        "spark.warmset.rowGroup" -> "4m") { spark =>
      val df = spark.range(0, 3000000, 1, 2).selectExpr("id", "xxhash64(id) h", "xxhash64(id + 1) g").cache()
      assert(df.count() == 3000000)
      assert(df.selectExpr("sum(id)", "count(distinct h)").head().toSeq ==
        Seq(3000000L * 2999999 / 2, 3000000L))
      df.unpersist(blocking = true)
    }
  }

  test("more than the memory goes to disk and comes back right") {
    withSession("spark.warmset.memory" -> "16m", "spark.warmset.rowGroup" -> "4m") { spark =>
      val df = spark.range(0, 3000000, 1, 4).selectExpr("id", "xxhash64(id) h", "xxhash64(id + 1) g").cache()
      assert(df.count() == 3000000)
      for (_ <- 1 to 2) {
        assert(df.selectExpr("sum(id)", "bit_xor(h)", "bit_xor(g)").head().toSeq ==
          spark.range(0, 3000000).selectExpr("sum(id)", "bit_xor(xxhash64(id))", "bit_xor(xxhash64(id + 1))").head().toSeq)
      }
      assert(directory.listFiles().isEmpty, "region files have no name")
      df.unpersist(blocking = true)
    }
  }

  test("a Spark version that it does not know: stock Spark, and one warning") {
    val later = "spark.plugins" -> classOf[LaterSpark].getName
    val said = warnings(withSession(later, "spark.warmset.rdd.enabled" -> "true") { spark =>
      worksWithout(spark)
      val rdd = spark.sparkContext.range(0, 5000, 1, 2).persist(StorageLevel.MEMORY_ONLY)
      assert(rdd.sum() == rdd.sum() && rdd.count() == 5000)
    })
    assert(said.length == 1 && said.head.contains("Spark 9.1.0"), said)
    assert(refused(later, "spark.warmset.required" -> "true").contains("Spark 9.1.0"))
  }

  test("a class that nothing can serialise: one warning, however many there are of it") {
    val said = warnings(withSession("spark.warmset.rdd.enabled" -> "true") { spark =>
      val rdd = spark.sparkContext.parallelize(0 until 1000, 4).map(new NowhereToGo(_))
        .persist(StorageLevel.MEMORY_ONLY)
      assert(rdd.count() == 1000 && rdd.map(_.id).sum() == 499500)
    }, about = "cannot be kept in regions")
    assert(said.length == 1 && said.head.contains(classOf[NowhereToGo].getName), said)
  }

  test("unknown Spark versions are told from known ones") {
    assert(Seq("4.1.4", "4.2.0", "4.3.1-SNAPSHOT", "4.2").forall(WarmsetPlugin.knownVersion))
    assert(Seq("3.5.1", "4.0.0", "4.10.0", "4.20.0", "5.0.0").forall(v => !WarmsetPlugin.knownVersion(v)))
    assert(WarmsetPlugin.misfit("5.0.0").all.exists(_.contains("Spark 5.0.0")))
  }

  for (serializer <- Seq("JavaSerializer", "KryoSerializer")) {
    test(s"blocks go to disk and come back with $serializer") {
      withSession("spark.serializer" -> s"org.apache.spark.serializer.$serializer",
          "spark.kryo.registrationRequired" -> "true",
          "spark.kryo.classesToRegister" -> "io.warmset.spark.WarmBatch") { spark =>
        val df = spark.range(0, 5000, 1, 2).selectExpr("id", "concat('s', id) s", "array(id) a")
          .persist(StorageLevel.DISK_ONLY)
        assert(df.selectExpr("sum(id)", "max(s)", "sum(a[0])").head().toSeq ==
          Seq(5000L * 4999 / 2, "s999", 5000L * 4999 / 2))
        df.unpersist(blocking = true)
      }
    }
  }

  test("Kryo that insists on registration, without our class: stock Spark") {
    withSession("spark.serializer" -> "org.apache.spark.serializer.KryoSerializer",
      "spark.kryo.registrationRequired" -> "true")(spark =>
        assert(spark.range(100).cache().count() == 100 && StoreHolder.current.isEmpty))
  }
}

/** An extension that does nothing. */
class NoExtension extends (org.apache.spark.sql.SparkSessionExtensions => Unit) {
  override def apply(extensions: org.apache.spark.sql.SparkSessionExtensions): Unit = ()
}
