package io.warmset.spark.ui

import scala.xml.{Node, Text}

import io.warmset.spark.Units
import io.warmset.spark.ui.Html.{number, words, Column}

/**
 * The tab's two tables: the executors with their totals, and what is cached.
 *
 * Invariant: at most `ExecutorsMax` and `CachesMax` rows are shown; where there are more, a line
 * says so, and the totals include them.
 */
object Tables {
  val ExecutorsMax = 200
  val CachesMax = 100
  private val NameCharsMax = 240

  private val statColumns: Seq[Column[StoreStats]] = Seq(
    number("Budget", "The most memory outside the Java heap that this executor may use for cached " +
      "data: spark.warmset.memory, or what spark.warmset.totalMemory or its container leaves it now.", _.budgetBytes, Units.bytes),
    number("Faulted in", "The part of the budget that the kernel has already given to the process. " +
      "It grows ahead of need and is reused; it is given back when the budget falls.",
      _.poolBytes, Units.bytes),
    number("In use", "Memory that holds segments at the moment, in whole huge pages of 2 MiB.",
      _.usedBytes, Units.bytes),
    number("Window", "Memory beside the pool into which segments are read while readers and writers hold " +
      "all of the pool. It counts against the budget.", _.windowBytes, Units.bytes),
    number("Staging", "Memory beside the budget through which tasks write cached data. What no task takes is given " +
      "back.", _.stagingBytes, Units.bytes),
    Column("Huge pages", "The share of the faulted memory that the kernel keeps on huge pages, " +
      "from smaps. Less than all of it makes random access slower: `warmset doctor` says why.",
      (s: StoreStats) => Text(s.hugeShare.map(Units.percent).getOrElse("–")),
      Some(s => s.hugeShare.getOrElse(-1.0).toString)),
    number("Resident", "Cached bytes that are in memory, readable in place.", _.residentBytes,
      Units.bytes),
    number("Disk space", "Disk space of the region files, allotted ahead of need. A segment on disk may " +
      "be in memory as well: it was written once and costs no write when it leaves again.",
      _.flashBytes, Units.bytes),
    number("Regions", "Cached partitions: a region is what one partition's cached data lies in.",
      _.regions, Units.count),
    number("Segments", "The units in which regions move between memory and disk, 2 MiB or a " +
      "multiple.", _.segments, Units.count),
    number("Promoted", "Segments that were read from disk into memory.", _.promotions, Units.count),
    number("Read", "Bytes read from the region files.", _.readBytes, Units.bytes),
    number("Demoted", "Segments that gave their memory to others; they stay on disk.", _.demotions,
      Units.count),
    number("Written", "Bytes written to the region files; each segment at most once.",
      _.writtenBytes, Units.bytes),
    number("Waits", "How often a task had to wait for an absent segment.", _.waits, Units.count),
    number("Wait time", "The time that tasks waited for absent segments, over all tasks: two tasks " +
      "that wait together count twice.", _.waitNs, Units.duration),
    number("Streamed", "Segments that were read without displacing what is in memory, because " +
      "that is used more often.", _.streamed, Units.count),
    number("Bounces", "Segments written through a buffer beside the pool, because readers and writers " +
      "held all of it.", _.bounces, Units.count),
    number("Mapped", "Segments read into the window, because readers and writers held all of " +
      "the pool.", _.mapped, Units.count),
    number("Evicted", "Cached partitions that were given up because memory and disk were full " +
      "(spark.warmset.flashMax), the least recently used first. They are computed again when read.",
      _.evictions, Units.count),
    words("I/O", "How the files are read and written.", _.ioBackend),
    words("Pages", "The page size of the memory (spark.warmset.hugePages): `huge` is transparent huge pages, " +
      "`hugetlb` reserved ones, `base` none.", _.pagePolicy))

  def executors(view: WarmsetView): Seq[Node] = {
    val columns = Seq(
      Column[ExecutorRow]("Executor", "Spark's identifier of the executor; `driver` in local mode.",
        e => <span title={e.host.map(Text(_))}>{e.id}</span>, None, numeric = false),
      words[ExecutorRow]("Status", "Whether the executor is alive and has a region store.", status)
    ) ++ statColumns.map(ofExecutor)
    val foot = Seq[Seq[Node]](Text("Total"), Text(alive(view.reportingExecutors))) ++
      statColumns.map(_.cell(view.totals))
    val shown = view.executors.sortBy(e => !e.active).take(ExecutorsMax)
    Html.table("warmset-executors", columns, shown, Some(foot)) ++
      more(view.executors.length, shown.length, "executors")
  }

  /** @param link the address of the storage page of an RDD */
  def caches(view: WarmsetView, link: Int => Option[String]): Seq[Node] = {
    val columns = Seq(
      Column[CacheRow]("Name", "The table or RDD, as Spark's Storage tab calls it.", name(_, link),
        Some(nameText), numeric = false),
      Column[CacheRow]("Partitions", "Partitions that are cached in regions, of all it has. The rest " +
        "is on the Java heap, or not cached.", c => Text(partitions(c)),
        Some(_.partitions.toString)),
      number[CacheRow]("Segments", "The units in which it moves between memory and disk.",
        _.segments, Units.count),
      number[CacheRow]("Cached", "Its bytes in all, encoded, wherever they lie.", _.bytes,
        Units.bytes),
      number[CacheRow]("Resident", "Its bytes that are in memory.", _.residentBytes, Units.bytes),
      Column[CacheRow]("In memory", "The share of its bytes that is in memory.",
        c => Text(share(c.residentBytes, c.bytes)),
        Some(c => if (c.bytes > 0) (c.residentBytes.toDouble / c.bytes).toString else "0")),
      number[CacheRow]("Disk space", "Disk space of its region files, allotted ahead of need, whether or " +
        "not the bytes are in memory too.", _.diskBytes, Units.bytes))
    val all = view.caches
    val foot = Seq[Seq[Node]](Text("Total"), Nil, Text(Units.count(all.map(_.segments).sum)),
      Text(Units.bytes(view.cachedBytes)), Text(Units.bytes(all.map(_.residentBytes).sum)),
      Text(share(all.map(_.residentBytes).sum, view.cachedBytes)),
      Text(Units.bytes(all.map(_.diskBytes).sum)))
    val shown = all.take(CachesMax)
    Html.table("warmset-caches", columns, shown, Some(foot)) ++
      more(all.length, shown.length, "tables and RDDs; the largest are shown")
  }

  private def ofExecutor(c: Column[StoreStats]): Column[ExecutorRow] = Column(
    c.head, c.explain, e => e.stats.map(c.cell).getOrElse(Text("–")),
    c.key.map(k => (e: ExecutorRow) => e.stats.map(k).getOrElse("-1")), c.numeric)

  private def status(e: ExecutorRow): String =
    if (!e.active) "gone"
    else if (e.problem.isDefined) "no store"
    else if (e.stats.isEmpty) "no report yet"
    else "active"

  private def alive(n: Int): String = if (n == 1) "1 reporting" else s"$n reporting"

  private def partitions(c: CacheRow): String =
    c.partitionsAll.map(all => s"${Units.count(c.partitions)} / ${Units.count(all)}")
      .getOrElse(Units.count(c.partitions))

  def share(part: Long, whole: Long): String =
    if (whole > 0) Units.percent(math.min(1.0, part.toDouble / whole)) else "–"

  private def nameText(c: CacheRow): String =
    if (c.rddId.isDefined) c.name else "Not of a cached block (being written, or about to go)"

  private def name(c: CacheRow, link: Int => Option[String]): Seq[Node] = {
    val full = nameText(c)
    val text = if (full.length > NameCharsMax) full.take(NameCharsMax) + " …" else full
    val content = c.rddId.flatMap(link) match {
      case Some(address) => <a href={address}>{text}</a>
      case None => Text(text)
    }
    <div class="warmset-name">{content}</div>
  }

  private def more(all: Int, shown: Int, what: String): Seq[Node] =
    if (all > shown) Html.note(s"… and ${Units.count(all - shown)} more $what") else Nil
}
