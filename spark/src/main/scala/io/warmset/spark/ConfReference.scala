package io.warmset.spark

import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

/**
 * Prints docs/reference/spark-keys.md from the table of keys; with a path as argument, writes it.
 *
 * Invariant: the output depends on `WarmsetConf.keys` and nothing else, so that a test can say
 * whether the file is current.
 */
object ConfReference {
  def markdown: String = {
    val rows = WarmsetConf.keys.map { key =>
      s"| `${key.name}` | ${cell(key.default)} | ${cell(key.doc)} Must be ${cell(key.allowed)}. |"
    }
    (header ++ rows).mkString("", "\n", "\n")
  }

  private val header = Seq(
    "# Spark configuration keys",
    "",
    "Generated from the table in `WarmsetConf.scala` by `io.warmset.spark.ConfReference`; a test",
    "fails when this file is not current.",
    "",
    "`spark.plugins=io.warmset.spark.WarmsetPlugin` turns Warmset on; every key below has a default.",
    "All are read once, when the application starts, but for those that may be set per session. A",
    "value that is not allowed stops the application with a message that names the key; so does, in",
    "local mode, a size beyond the machine's, where an executor warns and works without Warmset.",
    "",
    "| key | default | meaning |",
    "|---|---|---|")

  def main(args: Array[String]): Unit = args match {
    case Array(path) => Files.write(Path.of(path), markdown.getBytes(UTF_8))
    case _ => print(markdown)
  }

  private def cell(text: String): String = text.replace("|", "\\|")
}
