package io.warmset.spark

import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.Files

import org.apache.commons.io.FileUtils
import org.apache.spark.sql.execution.columnar.warmset.CachedBatches
import org.scalatest.funsuite.AnyFunSuite

/** What is asked of a Spark that is not Apache's build. */
class LinkageSuite extends AnyFunSuite {
  test("a vendor's build is used if it has all that the plugin's classes name") {
    assert(Linkage.missing() == Nil)
    assert(WarmsetPlugin.versionProblem("4.2.0-amzn-1").isEmpty)
    val lacks = WarmsetPlugin.versionProblem("4.2.0.vendor.3", () => Seq("a.B.c()V", "a.D"))
    assert(lacks.exists(said => said.contains("4.2.0.vendor.3") && said.contains("lacks 2") && said.contains("a.B.c()V")))
    assert(WarmsetPlugin.versionProblem("4.2.1-SNAPSHOT", () => fail("not asked of Apache's builds")).isEmpty)
  }

  test("a method, a field and a class that are missing are found") {
    val root = Files.createTempDirectory("linkage")
    val place = root.resolve("io/warmset/spark/Damaged.class")
    val whole = {
      val in = CachedBatches.getClass.getResourceAsStream("CachedBatches$.class")
      try new String(in.readAllBytes(), ISO_8859_1) finally in.close()
    }
    def missing(from: String, to: String): Seq[String] = {
      assert(from.length == to.length && whole.contains(from))
      Files.createDirectories(place.getParent)
      Files.write(place, whole.replace(from, to).getBytes(ISO_8859_1))
      Linkage.missing(root, getClass.getClassLoader)
    }
    try {
      assert(missing("clearSerializer", "clearSerializer") == Nil)
      assert(missing("clearSerializer", "clearSerialized").exists(_.contains("InMemoryRelation$.clearSerialized()V")))
      assert(missing("MODULE$", "MODULE_").exists(_.contains("MODULE_")))
      assert(missing("columnar/InMemoryRelation$", "columnar/InMemoryRelatiom$")
        .contains("org.apache.spark.sql.execution.columnar.InMemoryRelatiom$"))
    } finally FileUtils.deleteDirectory(root.toFile)
  }
}
