package io.warmset

import java.nio.file.{FileAlreadyExistsException, Files, Path}

import scala.jdk.CollectionConverters._
import scala.util.Using

import org.scalatest.{Reporter, Suite}
import org.scalatest.events.{Event, SuiteAborted, TestCanceled, TestFailed, TestIgnored, TestSucceeded}
import org.scalatest.tools.Runner

/**
 * Runs suites in several JVMs at a time, each of which takes the next suite that none has taken: a JVM has one Spark
 * application at a time, which keeps less than two cores busy.
 *
 * usage: SuiteRunner CLASSES WORK [SUITE,...]; without names, all suites among the classes, the longest first. WORK is empty
 * at first and the same directory for all JVMs. The exit code is 1 if a test failed.
 *
 * Invariant: a suite is run by the JVM that made its file in WORK/taken, and by no other.
 */
object SuiteRunner {
  /** Those that take longest: begun last, one of them would run alone. */
  private val Longest = Seq("spark.MllibSuite", "spark.GcStressSuite", "spark.FilterSuite", "spark.RddClusterSuite",
    "spark.ClusterSuite", "spark.CacheSuite", "spark.HandleEvictionSuite", "spark.DegradeSuite", "spark.RddSuite",
    "spark.FilterTypesSuite", "spark.EvictionSuite", "spark.HeapFirstSuite").map("io.warmset." + _) ++
    Seq("sql.warmset.WarmsetAggregateSuite", "sql.warmset.WarmsetCachedTableSuite", "sql.warmset.TpcdsSuite",
      "ml.warmset.TrainersArraysSuite", "ui.warmset.WarmsetTabSuite")
      .map("org.apache.spark." + _)


  def main(args: Array[String]): Unit = {
    val classes = Path.of(args(0))
    val work = Path.of(args(1))
    val chosen = args.lift(2).toSeq.flatMap(_.split(',')).map(_.trim).filter(_.nonEmpty)
    val suites = if (chosen.isEmpty) found(classes) else chosen
    Files.createDirectories(work.resolve("taken"))
    // One at a time: a suite that is taken is run at once.
    val passed = suites.iterator.filter(take(work, _)).map(run(work, _)).toVector
    if (passed.nonEmpty) println(SuiteCounts.summary(passed.size))
    // Not by returning: a thread that a test has left would keep the JVM.
    System.exit(if (passed.forall(identity) && SuiteCounts.aborted == 0) 0 else 1)
  }

  private def found(classes: Path): Seq[String] = {
    val files = Using.resource(Files.walk(classes))(_.iterator.asScala.map(classes.relativize(_).toString).toVector)
    val names = files.filter(_.endsWith("Suite.class")).map(_.stripSuffix(".class").replace('/', '.')).filter { name =>
      val suite = Class.forName(name, false, getClass.getClassLoader)
      classOf[Suite].isAssignableFrom(suite) && suite.getConstructors.exists(_.getParameterCount == 0)
    }
    val order = Longest.zipWithIndex.toMap.withDefaultValue(Longest.size)
    val unknown = Longest.filterNot(names.contains)
    require(unknown.isEmpty, s"no such suites: ${unknown.mkString(", ")}")
    names.sortBy(name => (order(name), name))
  }

  private def take(work: Path, suite: String): Boolean =
    try {
      Files.createFile(work.resolve("taken").resolve(suite))
      true
    } catch { case _: FileAlreadyExistsException => false }

  /** What the suite says is printed when it has ended, whole: other JVMs print to the same place. */
  private def run(work: Path, suite: String): Boolean = {
    val said = work.resolve(s"$suite.txt")
    val began = System.nanoTime
    val passed = Runner.run(Array("-s", suite, "-fWI", said.toString, "-u", work.toString, "-C", classOf[SuiteCounts].getName))
    val seconds = (System.nanoTime - began) / 1e9
    print(f"${Files.readString(said)}$suite took $seconds%.1f s\n")
    System.out.flush()
    passed
  }
}

/** Counts the tests of this JVM, over all its suites. */
class SuiteCounts extends Reporter {
  override def apply(event: Event): Unit = SuiteCounts.add(event)
}

private object SuiteCounts {
  private var counts = Map.empty[String, Int].withDefaultValue(0)

  def add(event: Event): Unit = synchronized {
    val kind = event match {
      case _: TestSucceeded => "succeeded"
      case _: TestFailed => "failed"
      case _: TestCanceled => "canceled"
      case _: TestIgnored => "ignored"
      case _: SuiteAborted => "aborted"
      case _ => ""
    }
    counts = counts.updated(kind, counts(kind) + 1)
  }

  def aborted: Int = synchronized(counts("aborted"))

  def summary(suites: Int): String = synchronized {
    val each = Seq("succeeded", "failed", "canceled", "ignored").map(kind => s"$kind ${counts(kind)}").mkString(", ")
    s"Tests: $each, in $suites suites, ${counts("aborted")} of them aborted"
  }
}
