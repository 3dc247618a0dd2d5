package io.warmset.spark

import java.util.Locale

import org.scalatest.funsuite.AnyFunSuite

/** Numbers as people read them. */
class UnitsSuite extends AnyFunSuite {
  test("bytes") {
    val expected = Seq(0L -> "0 B", 1L -> "1 B", 1023L -> "1023 B", 1024L -> "1.0 KiB",
      1536L -> "1.5 KiB", (1L << 20) - 1 -> "1.0 MiB", (5L << 30) -> "5.0 GiB",
      Long.MaxValue -> "8.0 EiB")
    expected.foreach { case (value, text) => assert(Units.bytes(value) == text) }
    assert(Units.bytesShort(1280L << 20) == "1.25 GiB" && Units.bytesShort(0) == "0 B")
    assert(Units.bytesShort(100L << 20) == "100 MiB")
  }

  test("counts, shares and durations") {
    assert(Units.count(1234567) == "1,234,567")
    assert(Seq(0.0, 0.0001, 0.5, 0.99999, 1.0).map(Units.percent) ==
      Seq("0 %", "< 0.1 %", "50 %", "> 99.9 %", "100 %"))
    val expected = Seq(0L -> "0", 999L -> "999 ns", 1500L -> "1.5 µs", 35000000L -> "35 ms",
      2100000000L -> "2.1 s", 90L * 1000000000 -> "1.5 min", 7200L * 1000000000 -> "2.0 h")
    expected.foreach { case (value, text) => assert(Units.duration(value) == text) }
  }

  test("the same in every locale") {
    val before = Locale.getDefault
    try {
      Locale.setDefault(Locale.GERMANY)
      assert(Units.bytes(1536) == "1.5 KiB" && Units.count(1234) == "1,234")
    } finally Locale.setDefault(before)
  }
}
