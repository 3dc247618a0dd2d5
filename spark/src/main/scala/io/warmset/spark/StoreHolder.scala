package io.warmset.spark

import java.io.{File, IOException}
import java.nio.file.Files

import scala.annotation.tailrec
import scala.util.{Failure, Try}

import com.fasterxml.jackson.databind.ObjectMapper
import com.fasterxml.jackson.databind.node.ObjectNode
import io.warmset.rdd.TableBudget
import io.warmset.region.{NativeLibrary, NativeStore, Store}
import io.warmset.spark.memorysplit.{LimitGuard, MemorySplit}
import org.apache.spark.internal.Logging

/**
 * The region store of this process, if it has one: executors open it, batches are written to it.
 *
 * Invariant: at most one store is current; what was written through an earlier one stays with that
 * one. It does not decide whether Warmset is used (see WarmsetPlugin).
 */
object StoreHolder extends Logging {
  @volatile private var running: Option[Running] = None

  final case class Running(
      store: Store,
      conf: WarmsetConf,
      directories: Seq[File],
      budgetBytes: Long,
      split: Option[MemorySplit] = None,
      guard: Option[LimitGuard] = None) {

    /** What values that repeat may take of the heap: a sixteenth. */
    private[spark] val tables = new TableBudget(Runtime.getRuntime.maxMemory / 16)

    /** The pool's budget now; `budgetBytes` is the one at first. */
    def budgetNow: Long = split.map(_.poolBudgetBytes).orElse(guard.map(_.poolBudgetBytes)).getOrElse(budgetBytes)

    private[spark] def start(): Unit = {
      split.foreach(_.start())
      guard.foreach(_.start())
    }

    private[spark] def stop(): Unit = {
      split.foreach(_.stop())
      guard.foreach(_.stop())
    }

    def stats(): String = {
      val own = mapper.readTree(store.stats()).asInstanceOf[ObjectNode]
        .put("staging_bytes", TransientMemory.allocatedBytes).toString
      split.fold(own)(_.annotate(own))
    }
  }

  def current: Option[Running] = running.filter(_.store.isOpen)

  /**
   * Opens the store, or returns the one that is open.
   *
   * @param localDirs Spark's local directories, used for data where spark.warmset.dir is not set
   * @throws IOException or IllegalArgumentException whose message names the setting that is wrong
   */
  def open(conf: WarmsetConf, machine: MemoryRule.Machine, localDirs: Seq[File]): Running =
    synchronized {
      current.getOrElse {
        val directories = chooseDirectories(conf, localDirs)
        // A disk for data may well be mounted noexec.
        loadLibrary((localDirs ++ directories).distinct, NativeLibrary.load)
        val limited = machine.atMost(NativeStore.memoryLimit())
        val plan = MemorySplit.plan(conf, limited)
        val budget = plan.fold(budgetBytes(conf, limited))(_.poolStartBytes)
        val settings = json(conf, directories, budget, limited)
        StoreRoom.logWarnings()
        var again = false
        val store =
          try {
            val store = Store.open(settings)
            again = true
            store
          } finally StoreRoom.logWarnings(again)
        try {
          // The split sees to it itself; reserved pages are no help to anybody else.
          val isGuarded = plan.isEmpty && conf.hugePages != "hugetlb"
          val opened = Running(store, conf, directories, budget, plan.map(new MemorySplit(store, _)),
            Option.when(isGuarded)(new LimitGuard(store, budget,
              new LimitGuard.ThisProcess(() => TransientMemory.freeKept()))))
          running = Some(opened)
          opened.start()
          opened
        } catch {
          case cause: Throwable =>
            close()
            store.close()
            throw cause
        }
      }
    }

  def close(): Unit = synchronized {
    for (closing <- running)
      try closing.stop()
      finally {
        closing.store.close()
        StoreRoom.logWarnings(again = false)
      }
    running = None
    RegionBlocks.clear()
    TransientMemory.freeKept()
  }

  /** Loads from the first directory that allows it; of several failures the last one is told. */
  @tailrec
  private[spark] def loadLibrary(directories: Seq[File], load: File => Unit): Unit =
    Try(load(directories.head)) match {
      case Failure(_: IOException) if directories.tail.nonEmpty => loadLibrary(directories.tail, load)
      case outcome => outcome.get
    }

  private[spark] def budgetBytes(conf: WarmsetConf, machine: MemoryRule.Machine): Long =
    conf.memoryBytes match {
      case Some(asked) if asked > machine.totalBytes =>
        throw new IllegalArgumentException(
          s"${WarmsetConf.Memory.name} is ${Units.bytesShort(asked)}, more than the ${Units.bytesShort(machine.totalBytes)} " +
            "of this machine or container (`warmset doctor` shows the limit); set it lower, so that the Java heap " +
            s"(${Units.bytesShort(machine.heapBytesMax)} at most) has room as well")
      case Some(asked) => asked
      case None => MemoryRule.budgetBytes(machine)
    }

  /** Those that can be used; of the others there is a warning, or an error if none can. */
  private[spark] def chooseDirectories(conf: WarmsetConf, localDirs: Seq[File]): Seq[File] = {
    val (asked, setting) =
      if (conf.directories.nonEmpty) (conf.directories, WarmsetConf.Directories.name)
      else (localDirs, "spark.local.dir")
    if (asked.isEmpty)
      throw new IOException(s"Spark has no local directory; set ${WarmsetConf.Directories.name}")
    val (refused, usable) = asked.partitionMap(directory => whyNot(directory).toLeft(directory))
    if (usable.isEmpty)
      throw new IOException(s"$setting: " + refused.map(_.why).mkString("; "), refused.head.cause)
    for (refusal <- refused)
      logWarning(s"$setting: ${refusal.why}; cached data goes to ${usable.mkString(", ")} only")
    usable
  }

  private final case class Refusal(why: String, cause: Throwable = null)

  /** Why no file can be made there, if so. */
  private def whyNot(directory: File): Option[Refusal] =
    if (!directory.isDirectory) Some(Refusal(s"$directory is not an existing directory"))
    else
      // Asking by doing: permission bits do not tell about read-only mounts, and root passes them all.
      try {
        Files.delete(Files.createTempFile(directory.toPath, "warmset-", ".probe"))
        None
      } catch { case cause: IOException => Some(Refusal(s"$directory cannot be written to", cause)) }

  private[spark] def flashReserveBytes(conf: WarmsetConf, directories: Seq[File]): Long =
    conf.flashReserveBytes.getOrElse(math.min(directories.map(_.getTotalSpace).max / 20, 16L << 30))

  private[spark] def json(
      conf: WarmsetConf,
      directories: Seq[File],
      budgetBytes: Long,
      machine: MemoryRule.Machine): String = {
    val settings = mapper.createObjectNode().put("budget_bytes", budgetBytes)
      .put("budget_bytes_max", math.max(budgetBytes, machine.totalBytes))
      .put("flash_bytes_max", conf.flashBytesMax.map(Long.box).orNull)
      .put("flash_reserve_bytes", flashReserveBytes(conf, directories))
      .put("huge_pages", conf.hugePages).put("io", conf.io)
    val paths = settings.putArray("dir")
    directories.foreach(directory => paths.add(directory.getAbsolutePath))
    val named = settings.putObject("names")
    names.foreach { case (key, setting) => named.put(key, setting.name) }
    settings.toString
  }

  private val mapper = new ObjectMapper

  /** What the store's errors call its settings. */
  private val names = Seq(
    "dir" -> WarmsetConf.Directories, "budget_bytes" -> WarmsetConf.Memory,
    "budget_bytes_max" -> WarmsetConf.Memory, "flash_bytes_max" -> WarmsetConf.FlashMax,
    "flash_reserve_bytes" -> WarmsetConf.FlashReserve,
    "huge_pages" -> WarmsetConf.HugePages, "io" -> WarmsetConf.Io)
}
