package io.warmset.spark

import java.io.File

import org.apache.commons.text.similarity.LevenshteinDistance
import org.apache.spark.network.util.JavaUtils
import org.apache.spark.sql.internal.SQLConf

/**
 * One configuration key: its name, what it does, its default as the reference shows it, and how its
 * text becomes a value.
 *
 * Invariant: `read` of any text gives either a valid value or an IllegalArgumentException that
 * names the key, the text and what is allowed. It does not look at other keys.
 */
final case class ConfKey[T](
    name: String,
    default: String,
    allowed: String,
    doc: String,
    parse: String => T,
    ifAbsent: () => T) {

  def read(get: String => Option[String]): T = get(name) match {
    case None => ifAbsent()
    case Some(text) =>
      try parse(text.trim)
      catch {
        case _: IllegalArgumentException =>
          throw new IllegalArgumentException(s"$name is '$text', but must be $allowed")
      }
  }

  /** The value that a session has now: for keys that may be set per session. */
  def read(session: SQLConf): T = read(key => Option(session.getConfString(key, null)))
}

/**
 * The settings of one application, read from Spark's configuration.
 *
 * Invariant: every field holds a valid value; which keys exist, what they allow and what they
 * default to is said only in `WarmsetConf.keys`, from which docs/reference/spark-keys.md is
 * generated. It does not check the machine (see MemoryRule) or the directory (see StoreHolder).
 */
final case class WarmsetConf(
    enabled: Boolean,
    required: Boolean,
    memoryBytes: Option[Long],
    totalMemoryBytes: Option[Long],
    directories: Seq[File],
    flashBytesMax: Option[Long],
    flashReserveBytes: Option[Long],
    hugePages: String,
    io: String,
    rowGroupBytes: Long,
    smallPartitionBytes: Long,
    prefetchBytesMax: Long,
    rddEnabled: Boolean,
    heapFirst: Option[Boolean],
    statsIntervalMs: Long) {

  /** Whether RDDs stay on the heap as objects while Spark's memory has room for them. */
  def rddHeapFirst: Boolean = heapFirst.getOrElse(totalMemoryBytes.isDefined)
}

object WarmsetConf {
  val Prefix = "spark.warmset."

  /** A name with more wrong letters is no misspelt key. */
  private val MisspeltLettersMax = 3

  private val MiB = 1L << 20
  private val BooleanAllowed = "true or false"

  /** Nothing smaller holds the segments that one task writes and reads at a time. */
  val MemoryBytesMin: Long = 16 * MiB

  val Enabled: ConfKey[Boolean] = boolean("enabled", default = true,
    "Whether the plugin does anything. When false, Spark caches as it does without Warmset.")

  val Required: ConfKey[Boolean] = boolean("required", default = false,
    "What happens where Warmset cannot work (no native library for the platform, unwritable " +
      "directory, a size beyond the machine's, I/O encryption, Kryo that demands registration, unknown " +
      "Spark version): when true the application stops at start with the reason; when false it " +
      "logs one warning and Spark caches as it does without Warmset.")

  val Memory: ConfKey[Option[Long]] = optionalBytes("memory", "by rule", MemoryBytesMin,
    "DRAM for cached data, per executor, outside the Java heap; with `spark.warmset.totalMemory` " +
      "its size at first. When absent: " + MemoryRule.text + " With `spark.warmset.totalMemory` and " +
      "absent: what that leaves when the heap starts with 40 % of it (no less than -Xms, no more " +
      "than -Xmx; with all of -Xmx where the split does not move). In a container the pool shrinks while the " +
      "container is close to its memory limit, so that the kernel does not kill the process.")

  val TotalMemory: ConfKey[Option[Long]] = optionalBytes("totalMemory", "no common budget",
    MemoryBytesMin,
    "DRAM that the Java heap and the cached data share, per executor. Memory moves between them " +
      "while jobs run, to where it saves more time: collections on one side, waits for data that " +
      "is on disk on the other. What a JVM needs besides (metaspace, code, stacks, buffers) and " +
      "what else runs in its container (Python's workers) must fit as well: 512 MiB are kept, and " +
      "more where more is used. Do not set -Xms.")

  val Directories: ConfKey[Seq[File]] = ConfKey("spark.warmset.dir", "Spark's local directories",
    "absolute paths of directories, separated by commas",
    "Where cached data goes that the memory does not hold, on each executor's machine. Over several " +
      "directories, best one for each disk, it is spread evenly; those that are full are passed over, and those " +
      "that are missing or cannot be written to are left out with a warning. Files there " +
      "have no name and vanish with the process. When absent: all of Spark's local directories.",
    text => {
      val files = text.split(",", -1).toSeq.map(path => new File(path.trim))
      require(text.nonEmpty && files.forall(_.isAbsolute))
      files.distinct
    }, () => Nil)

  val FlashMax: ConfKey[Option[Long]] = optionalBytes("flashMax", "no limit", 0L,
    "Most bytes that cached data may take on disk, per executor. When they are taken, or the disk " +
      "is full, the cached partitions used longest ago are evicted, of DataFrames and of RDDs, " +
      "and Spark computes them again when they are read. Checkpointed RDDs at a level with disk " +
      "stay, and so do those computed from a local checkpoint. A DataFrame or RDD that does not " +
      "fit by itself keeps the rest on the Java heap, under Spark's own rules.")

  val FlashReserve: ConfKey[Option[Long]] = optionalBytes("flashReserve", "a twentieth, at most 16 GiB", 0L,
    "Bytes of each file system with cached data that stay free for others, such as Spark's shuffle " +
      "files: cached data takes no disk space that would leave less. When absent: a twentieth of " +
      "the largest of these file systems, at most 16 GiB.")

  val HugePages: ConfKey[String] = choice("hugePages", "auto", Seq("auto", "on", "off", "hugetlb"),
    "Page size of the memory pool: `auto` uses transparent huge pages where the kernel offers " +
      "them, `on` insists, `off` uses base pages, `hugetlb` takes reserved huge pages.")

  val Io: ConfKey[String] = choice("io", "auto", Seq("auto", "io_uring", "threads"),
    "How files are read and written: `auto` uses io_uring where the kernel allows it, else threads.")

  val RowGroup: ConfKey[Long] = bytes("rowGroup", "32m", MiB, 1024 * MiB,
    "Encoded bytes that a task gathers before it lays them out column by column. More of it lets " +
      "a query on few columns touch less memory and disk; each writing task needs it once, " +
      "outside the heap.")

  val SmallPartition: ConfKey[Long] = bytes("smallPartition", "128k", 0L, 1024 * MiB,
    "A partition whose encoded bytes are fewer stays on the Java heap, under Spark's own rules: " +
      "memory outside the heap is given out in huge pages of 2 MiB. An RDD's also has to be " +
      "smaller than a segment: a few MiB, by the size of the memory.")

  val PrefetchMax: ConfKey[Long] = bytes("prefetch.max", "64m", 0L, 4096 * MiB,
    "Most bytes that the scan of a cached partition brings in ahead of where it reads, to " +
      "within a batch; a quarter of the memory divided by the tasks that run at a time, if that " +
      "is less. It starts with one batch and doubles (RDDs: with one piece, and has all of it soon after). A " +
      "task that scans several partitions at a time, as in a zip or a join, has that much ahead " +
      "in each. What an RDD's partition leaves of it at its end, the next one gets (of levels that " +
      "keep objects).")

  val RddEnabled: ConfKey[Boolean] = boolean("rdd.enabled", default = false,
    "Whether `rdd.persist()` keeps its data in regions as well, and with it what MLlib's trainers " +
      "persist. Readers get deserialized copies, as from a serialised level (but see " +
      "`spark.warmset.rdd.heapFirst`). When false, only cached DataFrames do, and RDDs persisted " +
      "with `persistWarm()`.")

  val RddHeapFirst: ConfKey[Option[Boolean]] = ConfKey("spark.warmset.rdd.heapFirst",
    "true with `spark.warmset.totalMemory`, else false", BooleanAllowed,
    "Whether an RDD for which Spark's own storage memory has room stays on the Java heap as " +
      "objects, as without Warmset, where reading costs nothing and readers share the objects. " +
      "It goes to regions when it does not all fit, when Spark needs the memory, or when that " +
      "memory does more for other cached data. Of levels that keep objects; with " +
      "`spark.warmset.rdd.enabled`.",
    text => Some(truth(text)), () => None)

  val Statistics: ConfKey[Boolean] = boolean("statistics.enabled", default = true,
    "Whether cached DataFrames give Spark's optimiser the bytes of the columns that a query reads, and each " +
      "column's bounds, nulls and distinct values. They are counted while a DataFrame is being cached. May be " +
      "set per session.")

  val JoinFilters: ConfKey[Boolean] = boolean("joinFilters.enabled", default = true,
    "Whether join keys reach cached scans, which then give no rows that the join would drop: with adaptive execution " +
      "those of a broadcast join's small side, and of joins of two large sides, as a set or a Bloom filter, the keys of the side " +
      "that has few of the other's by its statistics (`spark.warmset.statistics.enabled`). May be set per session.")

  val Kernels: ConfKey[Boolean] = boolean("kernels.enabled", default = true,
    "Whether partial aggregates directly above the filters and projections of a cached scan are computed in native code, " +
      "on the encoded columns. `EXPLAIN` shows `WarmsetAggregate` where they are, and below other aggregates why they " +
      "are not. May be set per session.")

  val StatsInterval: ConfKey[Long] = ConfKey("spark.warmset.stats.interval", "3s",
    "a duration of at least 100ms, such as 3s",
    "How often executors send their statistics to the driver, if they changed.",
    text => {
      val ms = JavaUtils.timeStringAsMs(text)
      require(ms >= 100)
      ms
    }, () => 3000L)

  /** What each query reads from its session. The application's configuration has the first values. */
  private val perSession: Seq[ConfKey[_]] = Seq(Statistics, JoinFilters, Kernels)

  /** Every key, in the order of the reference. */
  val keys: Seq[ConfKey[_]] = Seq(Enabled, Required, Memory, TotalMemory, Directories, FlashMax, FlashReserve, HugePages,
    Io, RowGroup, SmallPartition, PrefetchMax, RddEnabled, RddHeapFirst, Statistics, JoinFilters,
    Kernels, StatsInterval)

  /** Reads all settings; throws IllegalArgumentException naming the first key that is wrong. */
  def read(get: String => Option[String]): WarmsetConf = {
    perSession.foreach(_.read(get))
    WarmsetConf(
      Enabled.read(get), Required.read(get), Memory.read(get), TotalMemory.read(get),
      Directories.read(get), FlashMax.read(get), FlashReserve.read(get), HugePages.read(get),
      Io.read(get), RowGroup.read(get), SmallPartition.read(get), PrefetchMax.read(get), RddEnabled.read(get),
      RddHeapFirst.read(get), StatsInterval.read(get))
  }

  /** The names under our prefix that no key has: most likely misspelt. */
  def unknown(names: Iterable[String]): Seq[String] =
    names.filter(_.startsWith(Prefix)).toSeq.diff(keys.map(_.name)).sorted

  /** The key that a misspelt one is meant to be, if one is close. */
  def nearest(name: String): Option[String] = {
    val distance = LevenshteinDistance.getDefaultInstance
    val (found, edits) = keys.map(key => key.name -> distance(key.name, name).intValue).minBy(_._2)
    if (edits <= MisspeltLettersMax) Some(found) else None
  }

  private def boolean(name: String, default: Boolean, doc: String): ConfKey[Boolean] =
    ConfKey(Prefix + name, default.toString, BooleanAllowed, doc, truth, () => default)

  private def truth(text: String): Boolean = text.toLowerCase(java.util.Locale.ROOT) match {
    case "true" => true
    case "false" => false
    case _ => throw new IllegalArgumentException
  }

  private def choice(name: String, default: String, of: Seq[String], doc: String) =
    ConfKey[String](Prefix + name, default, of.mkString("one of ", ", ", ""), doc,
      text => { require(of.contains(text)); text }, () => default)

  private def bytes(name: String, default: String, least: Long, most: Long, doc: String) =
    ConfKey[Long](Prefix + name, default, sizeAllowed(least, Some(most)), doc,
      size(_, least, most), () => JavaUtils.byteStringAsBytes(default))

  private def optionalBytes(name: String, default: String, least: Long, doc: String) =
    ConfKey[Option[Long]](Prefix + name, default, sizeAllowed(least, None), doc,
      text => Some(size(text, least, Long.MaxValue)), () => None)

  private def sizeAllowed(least: Long, most: Option[Long]): String =
    s"a size in bytes, or with a unit such as 512m or 4g, of at least ${show(least)}" +
      most.map(m => s" and at most ${show(m)}").getOrElse("")

  private def size(text: String, least: Long, most: Long): Long = {
    val value = JavaUtils.byteStringAsBytes(text)
    require(value >= least && value <= most)
    value
  }

  private def show(bytes: Long): String =
    if (bytes >= MiB && bytes % MiB == 0) s"${bytes / MiB}m" else bytes.toString
}
