package io.warmset.region

import java.io.{File, IOException}
import java.lang.management.ManagementFactory
import java.lang.reflect.InvocationTargetException
import java.nio.file.Files

import scala.jdk.CollectionConverters._

import org.apache.spark.sql.SparkSession
import org.scalatest.funsuite.AnyFunSuite

/** A platform without a native library is told by name, and Spark goes on without us. */
class NativeLibrarySuite extends AnyFunSuite {
  private lazy val directory = Files.createTempDirectory("warmset-native").toFile

  /** Has not loaded anything yet, and finds no library among its resources. */
  private final class Fresh(parent: ClassLoader) extends ClassLoader(parent) {
    override protected def loadClass(name: String, resolve: Boolean): Class[_] =
      if (name.startsWith("io.warmset.region.")) {
        Option(findLoadedClass(name)).getOrElse {
          val in = getParent.getResourceAsStream(name.replace('.', '/') + ".class")
          val bytes = try in.readAllBytes() finally in.close()
          defineClass(name, bytes, 0, bytes.length)
        }
      } else {
        super.loadClass(name, resolve)
      }

    override def getResource(name: String): java.net.URL =
      if (name.startsWith("native/")) null else super.getResource(name)
  }

  private def loadElsewhere(os: String, arch: String): String = {
    // Loaded here first: a second class loader then cannot take it from java.library.path.
    NativeLibrary.load(directory)
    val load = new Fresh(getClass.getClassLoader).loadClass(classOf[NativeLibrary].getName)
      .getMethod("load", classOf[File])
    val before = Seq("os.name", "os.arch").map(k => k -> System.getProperty(k))
    System.setProperty("os.name", os)
    System.setProperty("os.arch", arch)
    try {
      val error = intercept[InvocationTargetException](load.invoke(null, directory)).getCause
      assert(error.isInstanceOf[IOException], error)
      error.getMessage
    } finally before.foreach { case (k, v) => System.setProperty(k, v) }
  }

  test("platforms and the places of their libraries") {
    assert(NativeLibrary.resourcePath("Linux", "amd64") == "/native/linux/x86_64/libwarmset_jni.so")
    assert(NativeLibrary.resourcePath("Linux", "x86_64") == "/native/linux/x86_64/libwarmset_jni.so")
    assert(NativeLibrary.resourcePath("Linux", "aarch64") == "/native/linux/aarch64/libwarmset_jni.so")
    for ((os, arch) <- Seq("Linux" -> "riscv64", "Linux" -> "", "Windows 11" -> "amd64", "Mac OS X" -> "aarch64")) {
      assert(NativeLibrary.resourcePath(os, arch) == null, s"$os/$arch")
    }
  }

  test("an unknown platform, and a jar without this platform's library") {
    val unknown = loadElsewhere("Linux", "made-up")
    assert(unknown.contains("no native library for Linux/made-up") && unknown.contains("x86_64 and aarch64"), unknown)
    val missing = loadElsewhere("Linux", "aarch64")
    assert(missing.contains("/native/linux/aarch64/libwarmset_jni.so") && missing.contains("java.library.path"), missing)
    assert(directory.list().isEmpty, "nothing is left where the library would have been unpacked")
  }

  private def runSpark(required: Boolean): String = {
    val flags = ManagementFactory.getRuntimeMXBean.getInputArguments.asScala.filter(_.startsWith("--add-"))
    val java = s"${System.getProperty("java.home")}/bin/java"
    val command = Seq(java, "-Xmx1g", "-Djava.library.path=/nowhere", "-Dos.arch=made-up") ++ flags ++
      Seq("-cp", System.getProperty("java.class.path"), "io.warmset.region.NoNativeLibrary", directory.getPath,
        required.toString)
    val process = new ProcessBuilder(command: _*).redirectErrorStream(true).start()
    try new String(process.getInputStream.readAllBytes())
    finally process.destroyForcibly()
  }

  test("the plugin says so, and stock Spark caches") {
    val output = runSpark(required = false)
    assert(output.contains("answer 499500 from DefaultCachedBatchSerializer"), output)
  }

  test("with spark.warmset.required Spark does not start, for this reason") {
    val output = runSpark(required = true)
    assert(output.contains("refused: ") && output.contains("no native library for Linux/made-up"), output)
    assert(output.contains("spark.warmset.required") && !output.contains("answer"), output)
  }
}

/** A Spark application in a process of its own, for a platform that is not this one. */
object NoNativeLibrary {
  def main(args: Array[String]): Unit =
    try {
      val spark = SparkSession.builder().master("local[1]").config("spark.ui.enabled", "false")
        .config("spark.plugins", "io.warmset.spark.WarmsetPlugin").config("spark.warmset.dir", args(0))
        .config("spark.warmset.required", args(1)).config("spark.driver.host", "localhost").getOrCreate()
      val cached = spark.range(0, 1000, 1, 1).cache()
      val sum = cached.collect().map(_.longValue).sum
      val serializer = spark.conf.get("spark.sql.cache.serializer").split('.').last
      println(s"answer $sum from $serializer")
      spark.stop()
    } catch {
      case error: Exception =>
        println("refused: " + Iterator.iterate[Throwable](error)(_.getCause).takeWhile(_ != null).mkString(" / "))
    }
}
