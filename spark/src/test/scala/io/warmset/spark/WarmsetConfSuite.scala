package io.warmset.spark

import java.io.File
import java.nio.charset.StandardCharsets.UTF_8
import java.nio.file.{Files, Path}

import org.apache.spark.SparkConf
import org.scalatest.funsuite.AnyFunSuite

/** The table of settings: defaults, every kind of bad value, and the generated reference. */
class WarmsetConfSuite extends AnyFunSuite {
  private def read(settings: (String, String)*): WarmsetConf = WarmsetConf.read(settings.toMap.get)

  test("every setting has a default") {
    val conf = read()
    assert(conf.enabled && !conf.required)
    assert(conf.memoryBytes.isEmpty && conf.totalMemoryBytes.isEmpty && conf.directories.isEmpty && conf.flashBytesMax.isEmpty)
    assert(conf.rowGroupBytes == (32L << 20) && conf.smallPartitionBytes == (128L << 10))
    assert(conf.statsIntervalMs == 3000)
  }

  test("with one budget RDDs stay on the heap while they fit, unless it is said otherwise") {
    val total = "spark.warmset.totalMemory" -> "2g"
    assert(!read().rddHeapFirst && read(total).rddHeapFirst)
    assert(!read(total, "spark.warmset.rdd.heapFirst" -> "false").rddHeapFirst)
    assert(read("spark.warmset.rdd.heapFirst" -> "true").rddHeapFirst)
  }

  test("settings are read with their units") {
    val conf = read("spark.warmset.memory" -> "2g", "spark.warmset.dir" -> "/tmp",
      "spark.warmset.flashMax" -> "10g", "spark.warmset.hugePages" -> "hugetlb",
      "spark.warmset.io" -> "threads", "spark.warmset.required" -> "TRUE",
      "spark.warmset.stats.interval" -> "500ms")
    assert(conf.memoryBytes.contains(2L << 30) && conf.directories == Seq(new File("/tmp")))
    assert(conf.flashBytesMax.contains(10L << 30) && conf.hugePages == "hugetlb")
    assert(conf.io == "threads" && conf.required && conf.statsIntervalMs == 500)
  }

  for ((key, value) <- Seq(
      "spark.warmset.memory" -> "0", "spark.warmset.memory" -> "-1g",
      "spark.warmset.memory" -> "lots", "spark.warmset.memory" -> "", "spark.warmset.memory" -> "5x",
      "spark.warmset.memory" -> "99999999999g",
      "spark.warmset.totalMemory" -> "1m", "spark.warmset.totalMemory" -> "all",
      "spark.warmset.flashMax" -> "-5", "spark.warmset.flashReserve" -> "half", "spark.warmset.dir" -> "relative/path",
      "spark.warmset.dir" -> "/tmp,relative", "spark.warmset.dir" -> "/tmp,,/var", "spark.warmset.dir" -> "",
      "spark.warmset.hugePages" -> "sometimes", "spark.warmset.io" -> "mmap",
      "spark.warmset.enabled" -> "yes", "spark.warmset.rowGroup" -> "1k",
      "spark.warmset.rowGroup" -> "4g", "spark.warmset.prefetch.max" -> "-1",
      "spark.warmset.rdd.enabled" -> "always", "spark.warmset.rdd.heapFirst" -> "2",
      "spark.warmset.smallPartition" -> "-1", "spark.warmset.stats.interval" -> "soon")) {
    test(s"$key=$value is refused with the key, the value and what is allowed") {
      val error = intercept[IllegalArgumentException](read(key -> value))
      assert(error.getMessage.startsWith(s"$key is '$value', but must be "), error.getMessage)
    }
  }

  test("misspelt settings are found") {
    val names = Seq("spark.warmset.memory", "spark.warmset.memroy", "spark.master")
    assert(WarmsetConf.unknown(names) == Seq("spark.warmset.memroy"))
    assert(WarmsetConf.nearest("spark.warmset.memroy").contains("spark.warmset.memory"))
    assert(WarmsetConf.nearest("spark.warmset.rdd.enable").contains("spark.warmset.rdd.enabled"))
    assert(WarmsetConf.nearest("spark.warmset.compression").isEmpty)
  }

  test("docs/reference/spark-keys.md is generated from the table and current") {
    val file = Iterator.iterate(Path.of("").toAbsolutePath)(_.getParent).takeWhile(_ != null)
      .map(_.resolve("docs/reference/spark-keys.md")).find(Files.exists(_))
    assert(file.isDefined, "docs/reference/spark-keys.md is missing")
    assert(new String(Files.readAllBytes(file.get), UTF_8) == ConfReference.markdown,
      s"write it again: run io.warmset.spark.ConfReference with ${file.get} as argument")
  }

  private val GiB = 1L << 30
  private val machine = MemoryRule.Machine(64 * GiB, 16, 8 * GiB, 0, None)

  test("the pool is a part of what the heap leaves") {
    assert(MemoryRule.budgetBytes(machine) == ((64 - 8.5) * 0.6 * GiB).toLong / (2L << 20) * (2L << 20))
    assert(MemoryRule.budgetBytes(machine.copy(sparkOffHeapBytes = 8 * GiB)) <
      MemoryRule.budgetBytes(machine))
  }

  test("executors that share a machine share its memory") {
    val quarter = MemoryRule.budgetBytes(machine.copy(executorCores = Some(4)))
    assert(quarter == ((16 - 8.5) * 0.6 * GiB).toLong / (2L << 20) * (2L << 20))
  }

  test("the pool is small, not negative, where the heap leaves nothing") {
    assert(MemoryRule.budgetBytes(machine.copy(totalBytes = 8 * GiB)) == (64L << 20))
  }

  test("a limit that the JVM does not see binds the rule") {
    assert(MemoryRule.budgetBytes(machine.atMost(16 * GiB)) ==
      MemoryRule.budgetBytes(machine.copy(totalBytes = 16 * GiB)))
    assert(machine.atMost(Long.MaxValue) == machine)
  }

  test("a budget beyond the machine is refused by name") {
    val conf = read("spark.warmset.memory" -> "65g")
    val error = intercept[IllegalArgumentException](StoreHolder.budgetBytes(conf, machine))
    assert(error.getMessage.startsWith("spark.warmset.memory is "), error.getMessage)
  }

  test("the store's configuration is JSON, whatever the directory is called") {
    val dir = new File("/tmp/a \"quoted\"\\ name\n")
    val json = StoreHolder.json(read(), Seq(dir, new File("/other")), 1L << 30, machine)
    val parsed = new com.fasterxml.jackson.databind.ObjectMapper().readTree(json)
    assert(parsed.path("dir").path(0).asText == dir.getAbsolutePath && parsed.path("dir").path(1).asText == "/other")
    assert(parsed.path("budget_bytes").asLong == (1L << 30))
    assert(parsed.path("flash_bytes_max").isNull)
  }

  test("directories are separated by commas, and those that cannot be used are left out") {
    val good = Seq("warmset-one", "warmset-other").map(java.nio.file.Files.createTempDirectory(_).toFile)
    def conf(dirs: String*): WarmsetConf = read("spark.warmset.dir" -> dirs.mkString(" , "))
    val Seq(one, other) = good.map(_.getPath)
    assert(conf(one, other, one).directories == good)
    assert(StoreHolder.chooseDirectories(conf(one, "/nowhere/at/all", "/proc/self", other), Nil) == good)
    assert(StoreHolder.chooseDirectories(read(), good) == good, "Spark's own, all of them")
    val refused = intercept[java.io.IOException](
      StoreHolder.chooseDirectories(conf("/nowhere/at/all", "/proc/self"), good)).getMessage
    assert(refused.startsWith("spark.warmset.dir: ") && refused.contains("/nowhere/at/all") && refused.contains("/proc/self"))
    val none = intercept[java.io.IOException](StoreHolder.chooseDirectories(read(), Nil)).getMessage
    assert(none.contains("spark.warmset.dir"))
    good.foreach(_.delete())
  }

  test("a part of the disk stays free for others, unless it is said how much") {
    val dir = new File("/tmp")
    val default = StoreHolder.flashReserveBytes(read(), Seq(dir))
    assert(default == math.min(dir.getTotalSpace / 20, 16L << 30) && default > 0)
    assert(StoreHolder.flashReserveBytes(read("spark.warmset.flashReserve" -> "0"), Seq(dir)) == 0)
    val json = StoreHolder.json(read("spark.warmset.flashReserve" -> "3g"), Seq(dir), 1L << 30, machine)
    assert(json.contains(s""""flash_reserve_bytes":${3L << 30}""") && json.contains("spark.warmset.flashReserve"))
  }

  test("task slots of a process") {
    def slots(settings: (String, String)*): Int =
      TaskSlots.of(new SparkConf(false).setAll(settings), cpus = 6)
    assert(slots("spark.master" -> "local") == 1)
    assert(slots("spark.master" -> "local[8]") == 8)
    assert(slots("spark.master" -> "local[*, 3]") == 6)
    assert(slots("spark.master" -> "local[8]", "spark.task.cpus" -> "3") == 2)
    assert(slots("spark.master" -> "spark://host:7077", "spark.executor.cores" -> "4") == 4)
    assert(slots("spark.master" -> "local-cluster[2,1,768]") == 6)
    assert(slots("spark.master" -> "yarn") == 1 && slots("spark.master" -> "k8s://https://host") == 1)
    assert(slots("spark.executor.cores" -> "2", "spark.task.cpus" -> "4") == 1)
    assert(slots("spark.executor.cores" -> "2", "spark.task.cpus" -> "0.5") == 4)
  }
}
