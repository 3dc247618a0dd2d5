package io.warmset.spark

import java.io.File
import java.lang.management.ManagementFactory
import java.nio.file.Files
import java.util.concurrent.TimeUnit

import scala.jdk.CollectionConverters._

import org.scalatest.funsuite.AnyFunSuite

/** Cached data under collections all the time, in small heaps of their own: see GcStress. */
class GcStressSuite extends AnyFunSuite {
  private val Seconds = 4

  /** Runs it in a JVM of its own, and gives what it said. */
  private def stress(first: Int, flags: Seq[String], heapFirst: Boolean): String = {
    val directory = Files.createTempDirectory("warmset-gc")
    val said = directory.resolve("said").toFile
    val opened = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala
      .filter(flag => flag.startsWith("--add-") || flag.startsWith("-D"))
    val command = Seq(new File(System.getProperty("java.home"), "bin/java").getPath, "-ea",
      "-Xmx112m", s"-XX:ErrorFile=$directory/error", "-XX:+IgnoreUnrecognizedVMOptions") ++ opened ++ flags ++
      Seq("-cp", System.getProperty("java.class.path"), GcStress.getClass.getName.stripSuffix("$"),
        directory.toString, Seconds.toString, first.toString, heapFirst.toString)
    val process = new ProcessBuilder(command: _*).redirectErrorStream(true).redirectOutput(said).start()
    val ended = process.waitFor(90, TimeUnit.SECONDS)
    process.destroyForcibly().waitFor()
    val text = Files.readString(said.toPath)
    assert(ended && process.exitValue == 0, text.linesIterator.toSeq.takeRight(60).mkString("\n"))
    text
  }

  for (((name, flags, heapFirst), first) <- Seq(
      // Arrays of half a megabyte are humongous; some cycles run while elements are made.
      ("G1, small regions", Seq("-XX:+UseG1GC", "-XX:G1HeapRegionSize=1m",
        "-XX:+ExplicitGCInvokesConcurrent"), false),
      ("Parallel", Seq("-XX:+UseParallelGC"), false),
      ("ZGC, which moves objects all the while", Seq("-XX:+UseZGC", "-Xmx256m"), false),
      ("blocks that leave the heap", Seq("-XX:+UseG1GC", "-Xmx256m"), true)).zipWithIndex) {
    test(s"every value is right and all is given back: $name") {
      val Done = """(?s).*stress: (\d+) rounds, (\d+) collections, (\d+) elements kept.*""".r
      stress(first, flags, heapFirst) match {
        case Done(rounds, collections, kept) =>
          info(s"$rounds rounds, $collections collections")
          assert(rounds.toInt >= 2 && collections.toInt >= 20 && kept.toInt > 0)
        case said => fail(said)
      }
    }
  }
}
