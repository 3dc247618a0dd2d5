package io.warmset.spark

import java.io.IOException
import java.util.{Collections, Map => JMap}
import java.util.concurrent.atomic.{AtomicBoolean, AtomicReference}

import scala.jdk.CollectionConverters._
import scala.util.control.NonFatal

import org.apache.spark.{SPARK_VERSION, SparkConf, SparkContext}
import org.apache.spark.api.plugin.{DriverPlugin, ExecutorPlugin, PluginContext, SparkPlugin}
import org.apache.spark.internal.Logging
import org.apache.spark.sql.execution.columnar.warmset.CachedBatches
import org.apache.spark.storage.memory.warmset.OwnedValues
import org.apache.spark.ui.warmset.{HistoryRecorder, TotalsGauges, WarmsetTab}
import org.apache.spark.warmset.SparkInternals

/**
 * The entry: `spark.plugins=io.warmset.spark.WarmsetPlugin`.
 *
 * Invariant: either everything is in place when the application starts, or Spark is as it would be
 * without us and one warning has said why; with spark.warmset.required the application does not
 * start instead. A setting that is malformed always stops it.
 */
class WarmsetPlugin extends SparkPlugin {
  override def driverPlugin(): DriverPlugin = new WarmsetDriver
  override def executorPlugin(): ExecutorPlugin = new WarmsetExecutor(SparkInternals.installMemoryStore)
}

private[spark] object WarmsetPlugin {
  /** Spark versions whose internals we know. */
  private val KnownVersions = Seq("4.1", "4.2", "4.3")

  /** In the plugin's own configuration, which the driver sends to executors: whether Warmset is used, and for RDDs, too. */
  val ActiveKey = "active"
  val RddsKey = "rdds"

  val CacheSerializerKey = "spark.sql.cache.serializer"
  val ExtensionsKey = "spark.sql.extensions"
  /**
   * Spark 4.2 feeds Python functions columns where their input has columns, and can then hang (also
   * over its own caches of plain numbers). Rows are as fast there: only Arrow's own vectors gain.
   */
  val ColumnarUdfInputKey = "spark.sql.execution.arrow.pythonUDF.columnarInput.enabled"
  val ExtensionsClass: String = classOf[WarmsetExtensions].getName

  /**
   * Why the executor within the driver cannot work, where Warmset is required. The driver's half says it: an
   * executor that fails to start in local mode leaves a heartbeat behind, which ends the JVM ten minutes later.
   */
  val refusedHere = new AtomicReference[IllegalStateException]

  /** Whether an application in this process has had our serializer for cached batches. */
  val serializerSet = new AtomicBoolean

  /** Makes Spark choose its serializer again, if it may hold ours. Nothing of Spark is touched that was not before. */
  def forgetSerializer(): Unit = if (serializerSet.get) CachedBatches.forgetSerializer()

  /** Before our serializer is set: Spark may hold that of an earlier application. */
  def replaceSerializer(): Unit = {
    serializerSet.set(true)
    CachedBatches.forgetSerializer()
  }

  /** What an application had in this process; nothing where it had nothing, or let go of it before. */
  def letGo(): Unit = {
    Eviction.lineage = None
    Option(pagesSet.getAndSet(null)).filter(_ == System.getProperty(PageRule.Key)).foreach(_ => System.clearProperty(PageRule.Key))
    StoreHolder.close()
  }

  private val pagesSet = new AtomicReference[String]

  /** For the driver also as a property: tables that it broadcasts it makes with a configuration of properties alone. */
  def setPages(spark: SparkConf, bytes: Long): Unit = {
    spark.set(PageRule.Key, bytes.toString)
    if (System.getProperty(PageRule.Key) == null) {
      pagesSet.set(bytes.toString)
      System.setProperty(PageRule.Key, bytes.toString)
    }
  }

  def knownVersion(version: String): Boolean =
    KnownVersions.exists(known => version == known || version.startsWith(known + "."))

  /** Whether the version is one of Apache's; a vendor adds a suffix to it and may have changed anything. */
  def apacheVersion(version: String): Boolean =
    version.matches("""\d+\.\d+(\.\d+)?(-SNAPSHOT|-preview\d*|-rc\d+)?""")

  /**
   * Why Warmset cannot work with this Spark: wholly, for cached DataFrames (nearly all of it public interfaces), or for
   * RDDs (a memory store of our own within Spark's). What breaks one part leaves the other working.
   */
  final case class Misfit(all: Option[String] = None, frames: Option[String] = None, rdds: Option[String] = None)

  /** @param missing what the plugin's classes name and this Spark lacks; looked up for vendors' builds */
  def misfit(version: String, missing: () => Linkage.Missing = () => Linkage.missing()): Misfit =
    if (!knownVersion(version)) {
      Misfit(all = Some(s"Spark $version is not one of the versions it knows (${KnownVersions.mkString(", ")}): use " +
        "one of those, or remove the plugin"))
    } else if (apacheVersion(version)) {
      Misfit()
    } else {
      val lacks = missing()
      def why(some: Seq[String]) = if (some.isEmpty) None else {
        Some(s"Spark $version is a vendor's build that lacks ${some.size} of the things it needs, among them " +
          some.take(3).mkString(", ") + ": use Apache's build")
      }
      Misfit(why(lacks.common), why(lacks.frames), why(lacks.rdds))
    }

  /** Kryo's list of classes is fixed before plugins start, so that only the user can add to it. */
  def kryoProblem(conf: SparkConf): Option[String] = {
    val batch = classOf[WarmBatch].getName
    val strict = conf.getBoolean("spark.kryo.registrationRequired", defaultValue = false) &&
      conf.get("spark.serializer", "").endsWith("KryoSerializer")
    if (strict && !listed(conf, "spark.kryo.classesToRegister").contains(batch)) {
      Some(s"spark.kryo.registrationRequired is true: add $batch to spark.kryo.classesToRegister")
    } else {
      None
    }
  }

  /** What a setting that is a list of names has. */
  def listed(conf: SparkConf, key: String): Array[String] =
    conf.get(key, "").split(',').map(_.trim).filter(_.nonEmpty)

  def machine(conf: SparkConf, alone: Boolean): MemoryRule.Machine = {
    val cores = if (alone) None else conf.getOption("spark.executor.cores").map(_.toInt)
    val container = if (alone) None else ContainerRule.of(conf)
    MemoryRule.thisMachine(SparkInternals.offHeapBytes(conf), cores).copy(container = container)
  }
}

/** The driver's half: decides whether Warmset is used, and turns it on in Spark's configuration. */
private[spark] final class WarmsetDriver(fits: => WarmsetPlugin.Misfit = WarmsetPlugin.misfit(SPARK_VERSION))
  extends DriverPlugin with Logging {
  import WarmsetPlugin._

  private var application: SparkContext = _
  private val stopping = new AtomicBoolean
  private var history: StatsHistory = _
  private var recorder: HistoryRecorder = _

  override def init(sc: SparkContext, context: PluginContext): JMap[String, String] = {
    application = sc
    // An application that failed to start may have left its store: Spark calls no plugin then.
    letGo()
    refusedHere.set(null)
    val spark = context.conf
    val conf = WarmsetConf.read(spark.getOption(_))
    val unknown = WarmsetConf.unknown(spark.getAll.map(_._1))
    if (unknown.nonEmpty) {
      val named = unknown.map(key => key + WarmsetConf.nearest(key).fold("")(near => s" (did you mean $near?)"))
      logWarning(s"Warmset does not know these settings, which have no effect: ${named.mkString(", ")}")
    }
    forgetSerializer()
    if (!conf.enabled) {
      logInfo(s"Warmset is off: ${WarmsetConf.Enabled.name} is false")
      turnOff(spark)
    } else {
      start(sc, context, conf)
    }
  }

  private def start(sc: SparkContext, context: PluginContext, conf: WarmsetConf) = {
    val spark = context.conf
    val misfit = fits
    problem(sc, spark, conf, misfit) match {
      case Some((why, _)) if !conf.required =>
        logWarning(s"Warmset is not used, and Spark caches as it does without it: $why")
        WarmsetTab.attachStock(sc, why)
        turnOff(spark)
      case Some((why, cause)) =>
        throw new IllegalStateException(
          s"Warmset cannot work, and ${WarmsetConf.Required.name} is true: $why", cause)
      case None =>
        val kept = misfit.frames.map(why => Option(leaveFrames(spark, why))).getOrElse {
          try turnOn(spark)
          catch { case cause: LinkageError if !conf.required => Some(leaveFrames(spark, s"this Spark lacks ${cause.getMessage}")) }
        }
        misfit.rdds.foreach(why => logWarning(s"Warmset leaves RDDs to Spark: $why"))
        observe(sc, context, kept, misfit.rdds.isEmpty)
        Map(ActiveKey -> "true", RddsKey -> misfit.rdds.isEmpty.toString).asJava
    }
  }

  /** Shows what the executors report: the tab, the event log, and their sums as metrics. */
  private def observe(sc: SparkContext, context: PluginContext, kept: Option[String], rdds: Boolean): Unit = {
    history = new StatsHistory(() => TotalsGauges.aliveIds(sc), rdds)
    recorder = HistoryRecorder.of(sc)
    StatsHistory.attach(sc, history)
    kept match {
      case Some(why) => WarmsetTab.attachStock(sc, why)
      case None => WarmsetTab.attach(sc, history)
    }
    val reports =
      if (SparkInternals.isLocal(sc)) () => Seq(Warmset.statsJson())
      else TotalsGauges.alive(sc, history)
    TotalsGauges.register(context.metricRegistry, StatsReporter.NumberKeys, reports)
  }

  /** Why Warmset cannot work here, if so; in local mode this opens the store. */
  private def problem(
      sc: SparkContext,
      spark: SparkConf,
      conf: WarmsetConf,
      misfit: Misfit): Option[(String, Throwable)] = {
    // Where it is required, so are both of its parts.
    val parts = if (conf.required) misfit.frames.orElse(misfit.rdds) else misfit.frames.filter(_ => misfit.rdds.isDefined)
    misfit.all.orElse(parts).orElse(kryoProblem(spark)).map((_, null)).orElse {
      if (SparkInternals.encryptionEnabled(spark)) {
        Some(("spark.io.encryption.enabled is true, and Warmset does not encrypt the cached data that it writes to disk: " +
          s"set it to false, and ${WarmsetConf.Directories.name} and spark.local.dir to an encrypted disk, or set " +
          s"${WarmsetConf.Enabled.name} to false", null))
      } else if (SparkInternals.isLocal(sc)) {
        try {
          StoreHolder.open(conf, machine(spark, alone = true), SparkInternals.localDirs)
          None
        } catch {
          case cause: IOException => Some((cause.getMessage, cause))
          case cause: LinkageError => Some((s"the native library does not fit: $cause; remove an older " +
            "libwarmset_jni.so from java.library.path, or build the jar again (make jar)", cause))
        }
      } else {
        containerProblem(spark, conf).map((_, null))
      }
    }
  }

  /** Executors are not started yet: what is said here can still be mended. Sizes that were asked for are taken at their word. */
  private def containerProblem(spark: SparkConf, conf: WarmsetConf): Option[String] = {
    val found = ContainerRule.of(spark).flatMap(ContainerRule.problem(conf, _))
    val asked = conf.memoryBytes.isDefined || conf.totalMemoryBytes.isDefined
    found.filter(_ => asked).foreach(why => logWarning(s"The cluster manager may kill executors: $why"))
    found.filterNot(_ => asked)
  }

  /** Gives the reason why cached DataFrames stay with Spark, if they do. */
  private def turnOn(spark: SparkConf): Option[String] = {
    val ours = classOf[WarmsetSerializer].getName
    spark.getOption(CacheSerializerKey) match {
      case Some(theirs) if theirs != ours =>
        val why = s"$CacheSerializerKey is set to $theirs and stays so: Warmset does not keep " +
          "cached DataFrames in this application"
        logWarning(why)
        Some(why)
      case _ =>
        replaceSerializer()
        spark.set(CacheSerializerKey, ours)
        append(spark, ExtensionsKey, ExtensionsClass)
        spark.setIfMissing(ColumnarUdfInputKey, "false")
        pageBytes(spark).foreach { bytes =>
          logInfo(s"${PageRule.Key} is set to $bytes bytes; set it yourself to have another")
          setPages(spark, bytes)
        }
        None
    }
  }

  private def pageBytes(spark: SparkConf): Option[Long] = {
    val isLocal = SparkInternals.isLocal(application)
    PageRule.bytes(spark, PageRule.heapBytes(spark, isLocal), Runtime.getRuntime.availableProcessors)
  }

  /** Cached DataFrames stay with Spark; RDDs need not. */
  private def leaveFrames(spark: SparkConf, why: String): String = {
    logWarning(s"Warmset leaves cached DataFrames to Spark: $why")
    turnOff(spark)
    s"cached DataFrames stay with Spark: $why"
  }

  /** A configuration that was taken from an application with Warmset has in it what was turned on there. */
  private def turnOff(spark: SparkConf): JMap[String, String] = {
    if (spark.get(CacheSerializerKey, "") == classOf[WarmsetSerializer].getName) {
      spark.remove(CacheSerializerKey)
      spark.remove(ColumnarUdfInputKey)
      val ours = pageBytes(spark.clone.remove(PageRule.Key)).map(_.toString)
      if (spark.getOption(PageRule.Key) == ours) spark.remove(PageRule.Key)
    }
    val others = listed(spark, ExtensionsKey).filterNot(_ == ExtensionsClass)
    if (others.isEmpty) spark.remove(ExtensionsKey) else spark.set(ExtensionsKey, others.mkString(","))
    Collections.singletonMap(ActiveKey, "false")
  }

  private def append(spark: SparkConf, key: String, value: String): Unit = {
    val present = listed(spark, key)
    if (!present.contains(value)) spark.set(key, (present :+ value).mkString(","))
  }

  /** The first that Spark calls once its executor has started, where that is within the driver. */
  override def registerMetrics(appId: String, context: PluginContext): Unit =
    Option(refusedHere.getAndSet(null)).foreach(refused => throw refused)

  override def receive(message: AnyRef): AnyRef = message match {
    case RecomputableAmong(rdds) => SparkInternals.recomputable(application, rdds).toArray
    case OfLocalCheckpoint(rdd) => Boolean.box(SparkInternals.ofLocalCheckpoint(application, rdd))
    case SpreadOf(rdd) => SparkInternals.spread(application, rdd)
    case report: StatsReport if history != null =>
      history.add(report)
      recorder.add(report)
      null
    case missing: LibraryMissing if history != null =>
      history.add(missing)
      null
    case refused: StoreRefused =>
      stop(refused)
      null
    case _ => null
  }

  /** Spark would start such an executor again for ever. Not in the caller's thread: it serves messages. */
  private def stop(refused: StoreRefused): Unit = if (stopping.compareAndSet(false, true)) {
    logError(s"The application stops: executor ${refused.executorId} says: ${refused.why}")
    val thread = new Thread(() => application.stop(1), "warmset-stop")
    thread.setDaemon(true)
    thread.start()
  }

  override def shutdown(): Unit = {
    if (recorder != null) recorder.flush()
    forgetSerializer()
    // In local mode, where the executor's half never started.
    letGo()
  }
}

/**
 * An executor's half: opens its store and takes the place of its memory store.
 *
 * @param install throws, with nothing changed, where Spark is not as expected
 */
private[spark] final class WarmsetExecutor(install: OwnedValues => Unit)
  extends ExecutorPlugin with Logging {
  import WarmsetPlugin._

  private var reporter: StatsReporter = _
  private var installed = false

  override def init(context: PluginContext, extra: JMap[String, String]): Unit =
    if (extra.asScala.get(ActiveKey).contains("true")) {
      val spark = context.conf
      val conf = WarmsetConf.read(spark.getOption(_))
      try start(context, spark, conf, rdds = extra.asScala.get(RddsKey).contains("true"))
      catch {
        case NonFatal(cause) => giveUp(context, conf, cause)
        case cause: LinkageError => giveUp(context, conf, cause)
      }
    }

  private def start(context: PluginContext, spark: SparkConf, conf: WarmsetConf, rdds: Boolean): Unit = {
    val alone = context.executorID == SparkInternals.DriverId
    val holder = StoreHolder.open(conf, machine(spark, alone), SparkInternals.localDirs)
    installed = rdds && replaceMemoryStore(context, conf)
    // Before the first task.
    TaskScope.storeCommits = installed
    Eviction.lineage = Some(new Lineage(context.ask))
    reporter = new StatsReporter(holder, context)
    reporter.start()
    logInfo(s"Warmset keeps cached data in ${Units.bytesShort(holder.budgetBytes)} of memory and in " +
      holder.directories.mkString(", "))
  }

  /** Whether our memory store is in the place of Spark's; if it cannot be, cached DataFrames are in regions all the same. */
  private def replaceMemoryStore(context: PluginContext, conf: WarmsetConf): Boolean =
    try {
      install(new BlockOwnership(conf.rddEnabled, conf.rddHeapFirst, Some(new RddSpread(context.ask))))
      true
    } catch {
      case cause @ (_: LinkageError | NonFatal(_)) if !conf.required =>
        logWarning(s"Warmset leaves RDDs to Spark on this executor: ${cause.getMessage}", cause)
        false
    }

  /** The driver has chosen our serializer: without a store its batches stay on the heap. */
  private def giveUp(context: PluginContext, conf: WarmsetConf, cause: Throwable): Unit = {
    letGo()
    if (conf.required) {
      val why = s"Warmset cannot work on this executor, and ${WarmsetConf.Required.name} is true: " +
        cause.getMessage
      val refused = new IllegalStateException(why, cause)
      if (context.executorID == SparkInternals.DriverId) refusedHere.set(refused)
      else {
        StatsReporter.sendRefusal(context, why)
        throw refused
      }
    } else {
      logWarning("Warmset has no store on this executor; its cached data stays on the Java heap, " +
        s"under Spark's own rules: ${cause.getMessage}", cause)
      StatsReporter.sendProblem(context, cause)
      if (!installed) keepWarmLevelOnHeap()
    }
  }

  /** Spark itself would charge the objects of `persistWarm()` as off-heap memory, or write them to disk. */
  private def keepWarmLevelOnHeap(): Unit =
    try install(new BlockOwnership(everyRdd = false))
    catch {
      case cause @ (_: LinkageError | NonFatal(_)) =>
        logDebug("The memory store stays Spark's own", cause)
    }

  override def shutdown(): Unit = {
    if (reporter != null) reporter.stop()
    letGo()
  }
}
