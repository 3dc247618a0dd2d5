package io.warmset.spark

import java.nio.charset.StandardCharsets.ISO_8859_1
import java.nio.file.Files

import org.apache.commons.io.FileUtils
import org.apache.spark.sql.execution.columnar.warmset.CachedBatches
import org.scalatest.funsuite.AnyFunSuite

/** What is asked of a Spark that is not Apache's build. */
class LinkageSuite extends AnyFunSuite {
  test("a vendor's build is used if it has all that the plugin's classes name") {
    val none = WarmsetPlugin.Misfit()
    assert(Linkage.missing() == Linkage.Missing())
    assert(WarmsetPlugin.misfit("4.2.0-amzn-1") == none)
    val lacks = WarmsetPlugin.misfit("4.2.0.vendor.3", () => Linkage.Missing(rdds = Seq("a.B.c()V", "a.D")))
    assert(lacks.rdds.exists(said => said.contains("4.2.0.vendor.3") && said.contains("lacks 2") && said.contains("a.B.c()V")))
    assert(lacks.copy(rdds = None) == none)
    assert(WarmsetPlugin.misfit("4.2.1-SNAPSHOT", () => fail("not asked of Apache's builds")) == none)
  }

  test("a method, a field and a class that are missing are found, by the part that needs them") {
    val whole = {
      val in = CachedBatches.getClass.getResourceAsStream("CachedBatches$.class")
      try new String(in.readAllBytes(), ISO_8859_1) finally in.close()
    }
    def missing(from: String, to: String, place: String = "io/warmset/spark"): Linkage.Missing = {
      assert(from.length == to.length && whole.contains(from))
      val root = Files.createTempDirectory("linkage")
      try {
        Files.write(Files.createDirectories(root.resolve(place)).resolve("Damaged.class"),
          whole.replace(from, to).getBytes(ISO_8859_1))
        Linkage.missing(root, getClass.getClassLoader)
      } finally FileUtils.deleteDirectory(root.toFile)
    }
    val gone = Seq("org.apache.spark.sql.execution.columnar.InMemoryRelation$.clearSerialized()V")
    assert(missing("clearSerializer", "clearSerializer") == Linkage.Missing())
    assert(missing("clearSerializer", "clearSerialized") == Linkage.Missing(common = gone))
    assert(missing("clearSerializer", "clearSerialized", "org/apache/spark/sql/any") == Linkage.Missing(frames = gone))
    assert(missing("clearSerializer", "clearSerialized", "org/apache/spark/storage/any") == Linkage.Missing(rdds = gone))
    assert(missing("MODULE$", "MODULE_").common.exists(_.contains("MODULE_")))
    assert(missing("columnar/InMemoryRelation$", "columnar/InMemoryRelatiom$").common
      .contains("org.apache.spark.sql.execution.columnar.InMemoryRelatiom$"))
  }
}
