package io.warmset.spark.ui

import scala.xml.{Node, Text}

/**
 * The pieces that the tab's parts share: tables whose columns explain themselves, and the style.
 *
 * Invariant: every text goes through scala.xml, which escapes it in elements and attributes alike;
 * nothing here is Unparsed but the style sheet, which is constant. No scripts of ours.
 */
object Html {
  /**
   * A column of a table.
   *
   * @param explain what the column means, shown on pointing at its head
   * @param key what rows are sorted by, where it is not the text
   */
  final case class Column[T](
      head: String,
      explain: String,
      cell: T => Seq[Node],
      key: Option[T => String] = None,
      numeric: Boolean = true)

  def number[T](head: String, explain: String, value: T => Long, show: Long => String): Column[T] =
    Column(head, explain, row => Text(show(value(row))), Some(row => value(row).toString))

  def words[T](head: String, explain: String, value: T => String): Column[T] =
    Column(head, explain, row => Text(value(row)), None, numeric = false)

  /** @param foot a last line that sorting leaves in its place, cell by cell */
  def table[T](
      id: String,
      columns: Seq[Column[T]],
      rows: Seq[T],
      foot: Option[Seq[Seq[Node]]] = None): Seq[Node] =
    <div class="table-responsive">
      <table id={id} class="table table-bordered table-hover table-sm table-striped sortable">
        <thead><tr>{columns.map(c =>
          <th class={align(c)} scope="col">{explained(c.head, c.explain)}</th>)}</tr></thead>
        <tbody>{rows.map(row => <tr>{columns.map(c => cell(c, row))}</tr>)}</tbody>
        {foot.toSeq.map(cells =>
          <tfoot><tr>{cells.zip(columns).map { case (content, c) =>
            <td class={align(c)}><strong>{content}</strong></td>
          }}</tr></tfoot>)}
      </table>
    </div>

  def explained(word: String, explain: String): Seq[Node] =
    <span data-bs-toggle="tooltip" class="warmset-word" title={explain}>{word}</span>

  def section(id: String, title: String, explain: String, content: Seq[Node]): Seq[Node] =
    <section id={id}><h4>{explained(title, explain)}</h4>{content}</section>

  def note(text: String): Seq[Node] = <p class="warmset-note">{text}</p>

  private def align(c: Column[_]): String = if (c.numeric) "text-end" else "text-start"

  private def cell[T](c: Column[T], row: T): Node = {
    val key = c.key.map(k => Text(k(row)))
    <td class={align(c)} sorttable_customkey={key}>{c.cell(row)}</td>
  }

  /** Colours for Spark's light and dark theme; one pair per meaning, used by bars and chart alike. */
  private val css =
    """.warmset { --w-resident: #1f77b4; --w-disk: #8a5fb0; --w-used: #d9730d; --w-free: #dfe3e6; --w-heap: #2e8b57;
      |  --w-text: var(--bs-body-color, #212529); --w-faint: var(--bs-secondary-color, #6c757d);
      |  --w-line: var(--bs-border-color, #dee2e6); }
      |[data-bs-theme="dark"] .warmset { --w-resident: #5aa9e6; --w-disk: #b48fe0; --w-used: #ff9f45;
      |  --w-free: #3a4046; --w-heap: #63c98f; }
      |.warmset section { margin-bottom: 1.75rem; }
      |.warmset-word { cursor: help; text-decoration: underline dotted var(--w-faint);
      |  text-underline-offset: 3px; }
      |.warmset th { vertical-align: bottom; }
      |.warmset td.text-start { min-width: 5.5rem; }
      |#warmset-executors { font-size: .8rem; }
      |#warmset-executors td.text-start { min-width: 0; white-space: nowrap; }
      |.warmset td.text-end { white-space: nowrap; font-variant-numeric: tabular-nums; }
      |.warmset-name { min-width: 11rem; max-width: 40rem; overflow-wrap: anywhere; }
      |.warmset-note { color: var(--w-faint); margin: .25rem 0; }
      |.warmset-legend { display: flex; flex-wrap: wrap; gap: .25rem 1.5rem; margin: .25rem 0 .5rem; }
      |.warmset-legend svg { margin-right: .4rem; vertical-align: middle; }
      |.warmset-bar { display: flex; height: 1.6rem; border: 1px solid var(--w-line);
      |  border-radius: 3px; overflow: hidden; }
      |.warmset-bar > div { height: 100%; min-width: 0; }
      |.warmset-bars { display: grid; grid-template-columns: max-content minmax(8rem, 760px) 1fr;
      |  gap: .4rem .75rem; align-items: center; }
      |@media (max-width: 900px) { .warmset-bars { grid-template-columns: max-content 1fr; }
      |  .warmset-bars .warmset-note { grid-column: 1 / -1; margin: -.2rem 0 .4rem; } }
      |.warmset-scroll { overflow-x: auto; }
      |.warmset-chart { width: 100%; min-width: 760px; max-width: 1100px; height: auto; display: block; }
      |.warmset-chart text { fill: var(--w-text); font-size: 13px; }
      |.warmset-chart .grid { stroke: var(--w-line); stroke-width: 1; }
      |.warmset-chart .axis { stroke: var(--w-faint); stroke-width: 1; }
      |.warmset-chart .slice { fill: transparent; }
      |.warmset-chart .slice:hover { fill: var(--w-faint); fill-opacity: .12; }
      |.warmset .budget { stroke: var(--w-text); stroke-dasharray: 6 4; stroke-width: 1.5; fill: none; }
      |.warmset .used { stroke: var(--w-used); stroke-width: 2; fill: none; }
      |.warmset .resident { stroke: var(--w-resident); stroke-width: 2; fill: none; }
      |.warmset .flash { stroke: var(--w-disk); stroke-width: 2; fill: none; }
      |.warmset .heap { stroke: var(--w-heap); stroke-width: 2; fill: none; }
      |.warmset .total { stroke: var(--w-faint); stroke-width: 2; fill: none; }
      |.warmset .total-budget { stroke: var(--w-faint); stroke-dasharray: 2 4; stroke-width: 1.5;
      |  fill: none; }
      |.warmset .area { fill: var(--w-resident); fill-opacity: .18; stroke: none; }
      |""".stripMargin

  /** Style only: Spark's content security policy allows inline styles and no inline scripts. */
  val style: Seq[Node] = <style>{scala.xml.Unparsed(css)}</style>
}
