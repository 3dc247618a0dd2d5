package io.warmset.region

import java.io.IOException
import java.nio.file.Files

import org.scalatest.BeforeAndAfterAll
import org.scalatest.funsuite.AnyFunSuite

import org.apache.spark.unsafe.Platform

/** Whatever numbers cross the JNI boundary, the answer is an exception and the store works on. */
class StoreMisuseSuite extends AnyFunSuite with BeforeAndAfterAll {
  private val directory = Files.createTempDirectory("warmset-misuse").toFile
  private val Wrong = Seq(0L, -1L, 12345L, Long.MaxValue, Long.MinValue)
  private var store = 0L

  private def config = s"""{"dir":"${directory.getPath}","budget_bytes":16777216}"""

  override def beforeAll(): Unit = {
    super.beforeAll()
    NativeLibrary.load(directory)
    store = NativeStore.open(config)
  }

  override def afterAll(): Unit = {
    NativeStore.close(store)
    super.afterAll()
  }

  /** The kinds of exception that NativeStore promises. */
  private def refused(what: String)(body: => Any): Unit = {
    val error = withClue(what)(intercept[Exception](body))
    assert(error.isInstanceOf[IllegalArgumentException] || error.isInstanceOf[IOException], s"$what: $error")
    assert(error.getMessage != null && error.getMessage.nonEmpty, what)
  }

  private def reserved(region: Long): (Long, Long) = {
    val out = new Array[Long](1)
    val segment = NativeStore.reserve(store, region, 4096, out)
    (segment, out(0))
  }

  private def sealedSegment(region: Long): Long = {
    val (segment, address) = reserved(region)
    Platform.setMemory(address, 7.toByte, 4096)
    NativeStore.seal(store, region, segment, 4096)
    segment
  }

  test("a store that is closed, or never was") {
    val closed = NativeStore.open(config)
    val region = NativeStore.createRegion(closed)
    NativeStore.close(closed)
    NativeStore.close(closed)
    for (handle <- closed +: Wrong) {
      refused("createRegion")(NativeStore.createRegion(handle))
      refused("reserve")(NativeStore.reserve(handle, region, 64, new Array[Long](1)))
      refused("seal")(NativeStore.seal(handle, region, 0, 64))
      refused("pinStart")(NativeStore.pinStart(handle, region, 0))
      refused("pinWait")(NativeStore.pinWait(handle, region, 0))
      refused("pin")(NativeStore.pin(handle, region, 0))
      refused("unpin")(NativeStore.unpin(handle, region, 0))
      refused("setBudget")(NativeStore.setBudget(handle, 1 << 24))
      refused("stats")(NativeStore.stats(handle))
      refused("regions")(NativeStore.regions(handle))
      refused("coldestRegions")(NativeStore.coldestRegions(handle))
      refused("countEvictions")(NativeStore.countEvictions(handle, 1))
      NativeStore.release(handle, region)
    }
  }

  test("regions and segments that do not exist") {
    val region = NativeStore.createRegion(store)
    val segment = sealedSegment(region)
    for (wrong <- Wrong) {
      refused("reserve")(NativeStore.reserve(store, wrong, 64, new Array[Long](1)))
      refused(s"pin in region $wrong")(NativeStore.pin(store, wrong, segment))
      if (wrong != segment) {
        refused(s"pin of $wrong")(NativeStore.pin(store, region, wrong))
        refused(s"pinStart of $wrong")(NativeStore.pinStart(store, region, wrong))
        refused(s"pinWait of $wrong")(NativeStore.pinWait(store, region, wrong))
        refused("unpin")(NativeStore.unpin(store, region, wrong))
        refused("seal")(NativeStore.seal(store, region, wrong, 64))
      }
      NativeStore.release(store, wrong)
    }
    NativeStore.release(store, region)
    NativeStore.release(store, region)
  }

  test("sizes that cannot be, and places to answer to that are missing") {
    val region = NativeStore.createRegion(store)
    for (bytes <- Seq(0L, -1L, Long.MinValue, Long.MaxValue)) {
      refused(s"reserve of $bytes")(NativeStore.reserve(store, region, bytes, new Array[Long](1)))
    }
    refused("no place")(NativeStore.reserve(store, region, 64, null))
    refused("no room")(NativeStore.reserve(store, region, 64, new Array[Long](0)))
    val (segment, _) = reserved(region)
    for (used <- Seq(-1L, Long.MinValue, Long.MaxValue, 1L << 40)) {
      refused(s"seal of $used")(NativeStore.seal(store, region, segment, used))
    }
    refused("evictions")(NativeStore.countEvictions(store, -1))
    for (budget <- Seq(-1L, Long.MaxValue)) refused("budget")(NativeStore.setBudget(store, budget))
    NativeStore.release(store, region)
  }

  test("a segment that the pool can never hold is the disk's kind of error, but evicts nothing") {
    val region = NativeStore.createRegion(store)
    val error = intercept[IOException](NativeStore.reserve(store, region, 20 << 20, new Array[Long](1)))
    assert(!error.isInstanceOf[NoSpaceException] && error.getMessage.contains("budget_bytes_max"))
    NativeStore.release(store, region)
  }

  test("steps out of turn") {
    val region = NativeStore.createRegion(store)
    val (open, _) = reserved(region)
    refused("pin before seal")(NativeStore.pin(store, region, open))
    refused("unpin before seal")(NativeStore.unpin(store, region, open))
    NativeStore.seal(store, region, open, 64)
    refused("seal twice")(NativeStore.seal(store, region, open, 64))
    refused("pinWait without pinStart")(NativeStore.pinWait(store, region, open))
    refused("unpin without pin")(NativeStore.unpin(store, region, open))
    NativeStore.pin(store, region, open)
    NativeStore.unpin(store, region, open)
    refused("unpin twice")(NativeStore.unpin(store, region, open))
    NativeStore.release(store, region)
  }

  test("configurations that are none") {
    for (json <- Seq("", "{", "[]", "null", """{"dir":"/nowhere/at/all","budget_bytes":16777216}""",
        s"""{"dir":"${directory.getPath}","budget_bytes":-1}""", s"""{"dir":"${directory.getPath}"}""")) {
      refused(json)(NativeStore.open(json))
    }
    // Not a number but a reference: any exception will do.
    intercept[Exception](NativeStore.open(null))
  }

  test("what a store warns of comes once, to whoever asks, and to stderr where nobody does") {
    def warn(): Unit = NativeStore.close(NativeStore.open(
      s"""{"dir":["${directory.getPath}","/nowhere/at/all"],"budget_bytes":16777216}"""))
    NativeStore.takeWarnings(true)
    warn()
    // A directory without O_DIRECT is warned of, too.
    val lines = NativeStore.takeWarnings(true).split('\n').filter(_.contains("/nowhere/at/all"))
    assert(lines.length == 1 && lines.head.contains("goes to the other directories"), lines.mkString("; "))
    assert(NativeStore.takeWarnings(false) == null)
    warn()
    assert(NativeStore.takeWarnings(false) == null)
  }

  test("after all this the store still works") {
    val region = NativeStore.createRegion(store)
    val segment = sealedSegment(region)
    val address = NativeStore.pin(store, region, segment)
    assert(Platform.getByte(null, address + 4095) == 7)
    NativeStore.unpin(store, region, segment)
    NativeStore.release(store, region)
  }
}
