package io.warmset.spark

import java.time.{Instant, ZoneId}
import java.time.format.DateTimeFormatter
import java.util.Locale

/**
 * Numbers as people read them: binary multiples for bytes, thousands grouped, times with a unit.
 *
 * Invariant: the same text for the same value in every locale; every Long has one.
 */
object Units {
  private val Names = Array("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")
  private val Clock = DateTimeFormatter.ofPattern("HH:mm:ss", Locale.US)
  private val Day = DateTimeFormatter.ofPattern("MM-dd HH:mm", Locale.US)

  /** Three digits or more, such as `1.5 GiB`, `12.0 MiB`, `512 B`. */
  def bytes(value: Long): String = {
    val (scaled, name) = scale(value)
    if (name == "B") s"$value B" else "%.1f %s".formatLocal(Locale.US, scaled, name)
  }

  /** Without superfluous zeros, such as `1.25 GiB`, `12 MiB`: for the marks of an axis. */
  def bytesShort(value: Long): String = {
    val (scaled, name) = scale(value)
    val digits = "%.2f".formatLocal(Locale.US, scaled).replaceAll("\\.?0+$", "")
    s"${if (digits.isEmpty) "0" else digits} $name"
  }

  def count(value: Long): String = "%,d".formatLocal(Locale.US, value)

  def percent(share: Double): String = {
    val text = "%.1f".formatLocal(Locale.US, share * 100)
    // Neither all nor nothing unless it is exactly that.
    if (share < 1 && text == "100.0") "> 99.9 %"
    else if (share > 0 && text == "0.0") "< 0.1 %"
    else text.stripSuffix(".0") + " %"
  }

  def duration(ns: Long): String = {
    def show(value: Double, unit: String) =
      (if (value < 10) "%.1f %s" else "%.0f %s").formatLocal(Locale.US, value, unit)
    if (ns == 0) "0"
    else if (ns < 1000L) s"$ns ns"
    else if (ns < 1000000L) show(ns / 1e3, "µs")
    else if (ns < 1000000000L) show(ns / 1e6, "ms")
    else if (ns < 60000000000L) show(ns / 1e9, "s")
    else if (ns < 3600000000000L) show(ns / 60e9, "min")
    else show(ns / 3600e9, "h")
  }

  /** The time of day; with `day`, the date and the minute. */
  def time(ms: Long, zone: ZoneId, day: Boolean = false): String =
    (if (day) Day else Clock).withZone(zone).format(Instant.ofEpochMilli(ms))

  private def scale(value: Long): (Double, String) = {
    var scaled = value.toDouble
    var unit = 0
    // 1023.95 would be shown as 1024.0.
    while (math.abs(scaled) >= 1023.95 && unit < Names.length - 1) {
      scaled /= 1024
      unit += 1
    }
    if (unit == 1 && math.abs(value) < 1024) (value.toDouble, "B") else (scaled, Names(unit))
  }
}
