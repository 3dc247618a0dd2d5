package io.warmset.spark.ui

import java.time.{Instant, ZoneId}
import java.util.Locale

import scala.xml.Node

import io.warmset.spark.Units

/**
 * The budget over time, drawn as SVG on the server: memory allowed, in use and resident, and disk
 * space; the Java heap beside it where both share a budget.
 *
 * Invariant: every point lies within the frame, for any numbers; values hold until the next report,
 * so lines are steps. No script: the numbers at a time are shown by the browser on pointing at it.
 */
object BudgetChart {
  private val Width = 1000
  private val Height = 300
  private val Left = 92
  private val Right = 34
  private val Top = 14
  private val Bottom = 46
  private val SlicesMax = 120
  private val PlotWidth = Width - Left - Right
  private val PlotHeight = Height - Top - Bottom

  private final case class Line(
      style: String,
      name: String,
      explain: String,
      value: BudgetPoint => Long)

  private val poolLines = Seq(
    Line("flash", "disk space", "Disk space of the region files.", _.flashBytes),
    Line("resident", "resident", "Cached bytes in memory.", _.residentBytes),
    Line("used", "in use", "Memory that holds segments, in whole huge pages.", _.usedBytes),
    Line("budget", "budget", "The most memory that may be used.", _.budgetBytes))

  /** Where the Java heap and the pool share a budget. */
  private val splitLines = Seq(
    Line("heap", "Java heap", "Memory that the Java heap has taken from the system.", _.heapBytes),
    Line("total", "heap and pool", "What the Java heap and the pool have taken together.",
      p => p.heapBytes + p.poolBytes),
    Line("total-budget", "total budget", "The most that both may have together.", _.totalBytes))

  private def linesOf(points: Seq[BudgetPoint]): Seq[Line] =
    if (points.exists(_.totalBytes > 0)) poolLines ++ splitLines else poolLines

  /** Where values and times lie in the picture. */
  private final class Frame(points: Seq[BudgetPoint]) {
    val lines: Seq[Line] = linesOf(points)
    private val highest = math.max(1L, points.iterator.flatMap(p => lines.map(_.value(p))).max)
    val firstMs: Long = points.head.timeMs
    val lastMs: Long = math.max(points.last.timeMs, firstMs + 1000)
    val stepBytes: Long = BudgetChart.stepBytes(highest)
    // With a step of 2^61 and more, the top would not be a Long.
    val top: Double = math.ceil(highest.toDouble / stepBytes) * stepBytes

    def x(timeMs: Long): Double =
      Left + PlotWidth * (timeMs - firstMs).toDouble / (lastMs - firstMs).toDouble
    def y(bytes: Double): Double = Top + PlotHeight * (1 - math.max(0.0, bytes) / top)
    def marks: Seq[Double] = (0 to (top / stepBytes).toInt).map(_ * stepBytes.toDouble)
  }

  def render(points: Seq[BudgetPoint], zone: ZoneId = ZoneId.systemDefault()): Seq[Node] =
    if (points.isEmpty) Html.note("No executor has reported yet.")
    else {
      val frame = new Frame(points)
      <div class="warmset-legend">{frame.lines.reverse.map(legend(_, points.last))}</div> ++
        <div class="warmset-scroll"><svg class="warmset-chart" role="img"
          viewBox={s"0 0 $Width $Height"} aria-label={said(points, zone)}>
          {valueAxis(frame)}
          {timeAxis(frame, zone)}
          <path class="area" d={area(points, frame)}></path>
          {frame.lines.map(l => <path class={l.style} d={path(points, l, frame)}></path>)}
          {slices(points, frame, zone)}
        </svg></div>
    }

  private def legend(line: Line, now: BudgetPoint): Node =
    <span title={line.explain}><svg width="26" height="10" aria-hidden="true"><path
      class={line.style} d="M0 5H26"></path></svg>{line.name} {Units.bytes(line.value(now))}</span>

  private def valueAxis(frame: Frame): Seq[Node] =
    frame.marks.flatMap { value =>
      val y = frame.y(value)
      <line class="grid" x1={show(Left)} x2={show(Width - Right)} y1={show(y)} y2={show(y)}></line>
      <text x={show(Left - 8)} y={show(y + 4)} text-anchor="end">{Units.bytesShort(toLong(value))}</text>
    } ++
      <text transform={s"translate(13 ${Top + PlotHeight / 2}) rotate(-90)"} text-anchor="middle">bytes</text>

  private def timeAxis(frame: Frame, zone: ZoneId): Seq[Node] = {
    val step = stepMs(frame.lastMs - frame.firstMs)
    val days = frame.lastMs - frame.firstMs > 24 * 3600000L
    val offset = zone.getRules.getOffset(Instant.ofEpochMilli(frame.firstMs)).getTotalSeconds * 1000L
    val start = Math.floorDiv(frame.firstMs + offset + step - 1, step) * step - offset
    val base = Top + PlotHeight
    val marks = Iterator.iterate(start)(_ + step).takeWhile(_ <= frame.lastMs).take(20).toSeq
    <line class="axis" x1={show(Left)} x2={show(Width - Right)} y1={show(base)} y2={show(base)}></line> ++
      marks.flatMap { t =>
        val x = frame.x(t)
        <line class="axis" x1={show(x)} x2={show(x)} y1={show(base)} y2={show(base + 5)}></line>
        <text x={show(x)} y={show(base + 19)} text-anchor="middle">{Units.time(t, zone, days)}</text>
      } ++
      <text x={show(Left + PlotWidth / 2)} y={show(Height - 6)} text-anchor="middle">
        {s"time of day (${zone.getId})"}
      </text>
  }

  /** Steps: a value holds until the next one, and the last one to the edge. */
  private def path(points: Seq[BudgetPoint], line: Line, frame: Frame): String = {
    val d = new StringBuilder
    points.foreach { p =>
      val y = show(frame.y(line.value(p).toDouble))
      if (d.isEmpty) d ++= s"M${show(frame.x(p.timeMs))} $y"
      else d ++= s"H${show(frame.x(p.timeMs))}V$y"
    }
    d ++= s"H${show(Width - Right)}"
    d.toString
  }

  private def area(points: Seq[BudgetPoint], frame: Frame): String = {
    val base = show(Top + PlotHeight)
    val resident = poolLines.find(_.style == "resident").get
    s"${path(points, resident, frame)}V${base}H${show(Left)}Z"
  }

  /** Invisible stripes that carry the numbers at their time. */
  private def slices(points: Seq[BudgetPoint], frame: Frame, zone: ZoneId): Seq[Node] = {
    val every = math.max(1, (points.length + SlicesMax - 1) / SlicesMax)
    val chosen = points.indices.by(every).map(points)
    chosen.zip(chosen.tail.map(p => frame.x(p.timeMs)) :+ (Width - Right).toDouble).map {
      case (p, end) =>
        val x = frame.x(p.timeMs)
        <rect class="slice" x={show(x)} y={show(Top)} width={show(math.max(0.0, end - x))}
          height={show(PlotHeight)}><title>{at(p, frame, zone)}</title></rect>
    }
  }

  private def at(p: BudgetPoint, frame: Frame, zone: ZoneId): String =
    (Units.time(p.timeMs, zone) +: frame.lines.reverse.map(l => s"${l.name} ${Units.bytes(l.value(p))}"))
      .mkString("\n")

  private def said(points: Seq[BudgetPoint], zone: ZoneId): String =
    s"Memory budget and use from ${Units.time(points.head.timeMs, zone)} to " +
      s"${Units.time(points.last.timeMs, zone)}; at the end " +
      linesOf(points).reverse.map(l => s"${l.name} ${Units.bytes(l.value(points.last))}").mkString(", ")

  /** The distance of the marks: a power of two, so that there are at most six marks. */
  def stepBytes(highest: Long): Long = {
    var step = 1L
    while (highest / 5.0 > step && step < (1L << 61)) step <<= 1
    step
  }

  private val timeSteps: Seq[Long] =
    Seq(1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 10800, 21600, 43200, 86400)
      .map(_ * 1000L)

  def stepMs(spanMs: Long): Long =
    timeSteps.find(spanMs / 8.0 <= _).getOrElse {
      val days = math.ceil(spanMs / 8.0 / timeSteps.last).toLong
      days * timeSteps.last
    }

  private def toLong(value: Double): Long =
    if (value >= Long.MaxValue.toDouble) Long.MaxValue else value.toLong

  private def show(value: Double): String = "%.1f".formatLocal(Locale.US, value).stripSuffix(".0")
}
