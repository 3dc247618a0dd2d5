//! The terminal view: stores, the regions of the selected one, tiering and prefetching.
//!
//! Invariant: the terminal is given back however this ends.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::{Line, Text};
use ratatui::widgets::{Block, Cell, Paragraph, Row, StatefulWidget, Table, TableState, Widget};

use super::machine::{Of, StoreStatus};
use super::sections::{Choice, Section, prefetch_section, regions_section, stores_section, tiers_section};
use super::{Looks, nothing};
use crate::command::printable;
use crate::terminal::{self, Happened};

/// How long a signal that asks to end waits for an answer at most.
const STEP: Duration = Duration::from_millis(100);
/// A table's frame and head.
const AROUND: u16 = 3;
/// Lines for what could not be read.
const PROBLEMS_MAX: usize = 3;
const KEYS: &str = "q quit   s sort   r reverse   / filter   up, down: select a store";

/// The terminal while it is ours.
pub struct Live {
    terminal: DefaultTerminal,
    screen: Screen,
}

impl Live {
    /// Takes the terminal over; a panic gives it back.
    pub fn start(choice: Choice) -> io::Result<Self> {
        Ok(Self { terminal: ratatui::try_init()?, screen: Screen::new(choice) })
    }

    /// Shows what was seen, and obeys keys until then. Whether that is all.
    pub fn show_until(&mut self, looks: &Looks, until: Instant, stop: &AtomicBool) -> io::Result<bool> {
        loop {
            let screen = &mut self.screen;
            self.terminal.draw(|frame| screen.draw(looks, frame.area(), frame.buffer_mut()))?;
            let happened = loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                match terminal::wait(left.min(STEP))? {
                    Happened::Nothing => {}
                    Happened::Closed => return Ok(true),
                    Happened::Event(event) => break event,
                }
            };
            if let Event::Key(key) = happened {
                if key.kind != KeyEventKind::Release && self.screen.press(key) {
                    return Ok(true);
                }
            }
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        ratatui::restore();
    }
}

/// What is on the screen, and what keys have changed of it.
struct Screen {
    choice: Choice,
    /// The filter as it is being typed, and what it was before.
    typing: Option<String>,
    selected: usize,
    /// Process and number of the selected store: it keeps its selection when the order changes.
    store: Option<(String, u64)>,
}

impl Screen {
    fn new(choice: Choice) -> Self {
        Self { choice, typing: None, selected: 0, store: None }
    }

    /// Whether the key ends the view.
    fn press(&mut self, key: KeyEvent) -> bool {
        if key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL) {
            return true;
        }
        if let Some(before) = &self.typing {
            match key.code {
                KeyCode::Enter => self.typing = None,
                KeyCode::Esc => {
                    self.choice.filter = before.clone();
                    self.typing = None;
                }
                KeyCode::Backspace => drop(self.choice.filter.pop()),
                KeyCode::Char(letter) => self.choice.filter.push(letter),
                _ => {}
            }
            return false;
        }
        match key.code {
            KeyCode::Char('q') => return true,
            KeyCode::Esc => self.choice.filter.clear(),
            KeyCode::Char('s') => self.choice.sort = self.choice.sort.next(),
            KeyCode::Char('r') => self.choice.reversed = !self.choice.reversed,
            KeyCode::Char('/') => self.typing = Some(std::mem::take(&mut self.choice.filter)),
            KeyCode::Up | KeyCode::Char('k') => self.select(self.selected.saturating_sub(1)),
            KeyCode::Down | KeyCode::Char('j') => self.select(self.selected.saturating_add(1)),
            _ => {}
        }
        false
    }

    fn select(&mut self, row: usize) {
        self.selected = row;
        self.store = None;
    }

    /// Finds the selected store again.
    fn find(&mut self, stores: &[&Of<StoreStatus>]) {
        let name = |store: &Of<StoreStatus>| (store.process.key.clone(), store.status.store);
        if let Some(wanted) = &self.store {
            let found = stores.iter().position(|store| name(store) == *wanted);
            self.selected = found.unwrap_or(self.selected);
        }
        self.selected = self.selected.min(stores.len().saturating_sub(1));
        self.store = stores.get(self.selected).map(|store| name(store));
    }

    fn draw(&mut self, looks: &Looks, area: Rect, buffer: &mut Buffer) {
        let machine = &looks.machine;
        let stores = self.choice.stores(machine, &looks.history);
        self.find(&stores);
        let shown = stores_section(&stores, machine, &looks.history);
        let below =
            [tiers_section(&self.choice.tiers(machine)), prefetch_section(&self.choice.prefetches(machine))];
        let below: Vec<Section> = below.into_iter().filter(|section| !section.rows.is_empty()).collect();
        let problems = machine.problems.len().min(PROBLEMS_MAX) as u16;

        let [head, middle, complaints, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(problems),
            Constraint::Length(1),
        ])
        .areas(area);
        Paragraph::new(self.headline(stores.len(), machine.stores.len())).style(BOLD).render(head, buffer);
        Paragraph::new(complaint_lines(&machine.problems)).render(complaints, buffer);
        Paragraph::new(self.footline()).render(foot, buffer);
        if stores.is_empty() && below.is_empty() {
            Paragraph::new(nothing(&self.choice)).render(middle, buffer);
            return;
        }
        let rows: Vec<usize> = below.iter().map(|section| section.rows.len()).collect();
        let (first, rows, rest) = heights(stores.len(), &rows, middle.height);
        let all = [first, rest].into_iter().chain(rows).map(Constraint::Length);
        let areas = Layout::vertical(all).split(middle);
        draw_table(&shown, Some(self.selected), areas[0], buffer);
        if let Some(store) = stores.get(self.selected) {
            let regions = regions_section(store, usize::from(rest.saturating_sub(AROUND)));
            draw_table(&regions, None, areas[1], buffer);
        }
        for (section, area) in below.iter().zip(&areas[2..]) {
            draw_table(section, None, *area, buffer);
        }
    }

    fn headline(&self, shown: usize, all: usize) -> String {
        let (sort, reversed) =
            (self.choice.sort.name(), if self.choice.reversed { ", reversed" } else { "" });
        let count = match (shown, all) {
            (1, 1) => "1 store".to_owned(),
            (shown, all) if shown == all => format!("{all} stores"),
            (shown, all) => format!("{shown} of {all} stores"),
        };
        format!("warmset top: {count}, sorted by {sort}{reversed}")
    }

    fn footline(&self) -> String {
        let filter = printable(Path::new(&self.choice.filter));
        match &self.typing {
            Some(_) => format!("filter: {filter}_   Enter keeps it, Esc takes it back"),
            None if filter.is_empty() => KEYS.to_owned(),
            None => format!("filter: {filter}   Esc clears it   {KEYS}"),
        }
    }
}

fn complaint_lines(problems: &[String]) -> Vec<Line<'static>> {
    let line = |problem: &String| Line::from(printable(Path::new(problem)));
    if problems.len() <= PROBLEMS_MAX {
        return problems.iter().map(line).collect();
    }
    let (first, more) = problems.split_at(PROBLEMS_MAX - 1);
    let more = Line::from(format!("{} more problems: `warmset top --once` lists them", more.len()));
    first.iter().map(line).chain([more]).collect()
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Rows of the screen for stores, what is below them, and the regions of the selected store, which get what is left.
/// What has no room for one row of its own gets none.
fn heights(stores: usize, below: &[usize], room: u16) -> (u16, Vec<u16>, u16) {
    const LEAST: u16 = AROUND + 1;
    let mut left = room;
    let mut take = |rows: usize, most: u16| {
        let wanted = u16::try_from(rows).unwrap_or(u16::MAX).saturating_add(AROUND);
        let height = if rows == 0 { 0 } else { wanted.min(most.max(LEAST)).min(left) };
        let height = if height < LEAST { 0 } else { height };
        left -= height;
        height
    };
    let first = take(stores, room / 2);
    let below = below.iter().map(|rows| take(*rows, room / 4)).collect();
    let rest = if stores == 0 || left < LEAST { 0 } else { left };
    (first, below, rest)
}

fn draw_table(section: &Section, selected: Option<usize>, area: Rect, buffer: &mut Buffer) {
    if area.is_empty() {
        return;
    }
    let shown = section.fit(usize::from(area.width.saturating_sub(2)));
    let (room, all) = (usize::from(area.height.saturating_sub(AROUND)), section.rows.len());
    let title =
        if all > room { format!("{}: {room} of {all}", section.title) } else { section.title.clone() };
    let line = |cells: &dyn Fn(usize) -> String| {
        Row::new(shown.iter().map(|&(n, _)| {
            let right = section.columns[n].right;
            Cell::from(Text::from(cells(n)).alignment(if right { Alignment::Right } else { Alignment::Left }))
        }))
    };
    let rows: Vec<Row> = section.rows.iter().map(|row| line(&|n| row[n].clone())).collect();
    let widths = shown.iter().map(|&(_, width)| Constraint::Length(u16::try_from(width).unwrap_or(u16::MAX)));
    let table = Table::new(rows, widths)
        .column_spacing(2)
        .header(line(&|n| section.columns[n].head.to_owned()).style(BOLD))
        .row_highlight_style(REVERSED)
        .block(Block::bordered().title(title));
    StatefulWidget::render(table, area, buffer, &mut TableState::new().with_selected(selected));
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use ratatui::crossterm::event::KeyModifiers;
    use serde_json::{Value, json};
    use warmset_platform::status::{Found, FoundIn, SCHEMA};

    use super::super::args::SortKey;
    use super::super::machine::Machine;
    use super::*;

    fn store(number: u64, dir: &str, used_bytes: u64) -> Value {
        json!({
            "kind": "store", "store": number, "user": "python", "dirs": [dir], "budget_bytes": 1u64 << 40,
            "pool_bytes": used_bytes, "used_bytes": used_bytes, "window_bytes": 0, "huge_bytes": used_bytes,
            "resident_bytes": used_bytes, "live_bytes": used_bytes, "flash_bytes": 0, "accessed_bytes_total": 0,
            "read_bytes_total": 0, "written_bytes_total": 0, "promotions_total": 0, "demotions_total": 0,
            "streamed_total": 0, "waits_total": 0, "wait_ns_total": 0, "evictions_total": 0, "regions": 9,
            "segments": 9, "largest_regions": (0..9).map(|n| json!({
                "id": n, "name": format!("{dir}-{n}"), "segments": 1, "bytes": 100 - n, "resident_bytes": 1,
                "file_bytes": 0, "pins": 0,
            })).collect::<Vec<_>>(),
        })
    }

    fn looks(program: &str, mut parts: Vec<Value>) -> Looks {
        parts.push(json!({
            "kind": "prefetch", "target_pid": 77, "program": "/bin/soffice", "bytes": 9, "fetched_bytes": 8,
            "stale_bytes": 0, "triggers_waiting": 0, "triggers_fired": 0,
        }));
        let text = json!({
            "schema": SCHEMA, "name": program, "at_ns": 1, "interval_ms": 1000, "parts": parts,
        });
        let file =
            Found { pid: 4242, name: String::new(), user: 0, age: Duration::ZERO, text: text.to_string() };
        let machine = Machine::read(FoundIn { files: vec![file], problems: Vec::new() });
        Looks { machine, ..Looks::default() }
    }

    fn screen() -> Screen {
        Screen::new(Choice { sort: SortKey::Used, reversed: false, filter: String::new() })
    }

    fn drawn(screen: &mut Screen, looks: &Looks, columns: u16, rows: u16) -> Vec<String> {
        let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
        screen.draw(looks, buffer.area, &mut buffer);
        let line = |y| (0..columns).map(|x| buffer[(x, y)].symbol()).collect();
        (0..rows).map(line).collect()
    }

    fn press(screen: &mut Screen, keys: &str) {
        for key in keys.chars() {
            assert!(!screen.press(KeyEvent::new(KeyCode::Char(key), KeyModifiers::NONE)));
        }
    }

    #[test]
    fn a_selected_store_keeps_its_selection_when_the_order_changes() {
        let looks = looks("feed", vec![store(1, "first", 3 << 30), store(2, "second", 2 << 30)]);
        let mut screen = screen();
        let regions_of =
            |lines: &[String], name: &str| lines.iter().any(|line| line.contains(&format!("{name}-0")));
        assert!(regions_of(&drawn(&mut screen, &looks, 80, 24), "first"));
        press(&mut screen, "j");
        assert!(regions_of(&drawn(&mut screen, &looks, 80, 24), "second"));
        press(&mut screen, "r");
        assert!(regions_of(&drawn(&mut screen, &looks, 80, 24), "second"));
        press(&mut screen, "/first");
        let lines = drawn(&mut screen, &looks, 80, 24);
        assert!(lines[0].contains("1 of 2 stores, sorted by used, reversed") && regions_of(&lines, "first"));
        assert!(lines[23].starts_with("filter: first_"), "{lines:?}");
        screen.press(KeyEvent::new(KeyCode::Esc, KeyModifiers::NONE));
        assert!(drawn(&mut screen, &looks, 80, 24)[0].contains("2 stores"));
        assert!(screen.press(KeyEvent::new(KeyCode::Char('q'), KeyModifiers::NONE)));
    }

    #[test]
    fn a_small_terminal_leaves_out_columns_and_tables_and_cuts_no_figure() {
        let looks = looks("feed", vec![store(1, "d", 1023 << 30)]);
        let wide = drawn(&mut screen(), &looks, 120, 24).join("\n");
        assert!(
            wide.contains("1023.0 GiB") && wide.contains("1.0 TiB") && wide.contains("9 regions"),
            "{wide}"
        );
        assert!(wide.contains("/bin/soffice"), "{wide}");
        for (columns, rows) in (1..90).step_by(3).flat_map(|columns| [(columns, 24), (columns, 7)]) {
            let lines = drawn(&mut screen(), &looks, columns, rows).join("\n");
            assert_eq!(lines.matches("GiB").count(), lines.matches("1023.0 GiB").count(), "{lines}");
        }
        for rows in 1..24 {
            let lines = drawn(&mut screen(), &looks, 80, rows);
            let shown = lines.iter().filter(|line| line.contains('┌')).count();
            assert_eq!(lines.iter().filter(|line| line.contains('└')).count(), shown, "{lines:?}");
            assert_eq!(shown > 0, rows >= 6, "{lines:?}");
        }
        let few = drawn(&mut screen(), &looks, 80, 16).join("\n");
        assert!(few.contains("largest of 9 regions"), "{few}");
    }

    #[test]
    fn nothing_that_a_program_says_reaches_the_terminal_as_more_than_text() {
        let evil = "\u{1b}[2J\u{1b}]0;x\u{7}\n\u{202e}";
        let mut looks = looks(evil, vec![store(1, evil, 1), json!({ "kind": "tier", "policy": evil })]);
        looks.machine.problems.extend(vec![evil.to_owned(); 9]);
        let mut screen = screen();
        for (columns, rows) in [(80, 24), (200, 50), (9, 5)] {
            let lines = drawn(&mut screen, &looks, columns, rows).concat();
            assert!(!lines.contains(|c: char| c.is_control() || c == '\u{202e}'), "{lines:?}");
        }
        let lines = drawn(&mut screen, &looks, 200, 50).concat();
        assert!(lines.contains(r"\u{1b}[2J\u{1b}]0;x\u{7}\n\u{202e}"), "{lines}");
        assert!(lines.contains("8 more problems"), "{lines}");
        screen.press(KeyEvent::new(KeyCode::Char('/'), KeyModifiers::NONE));
        screen.choice.filter = evil.to_owned();
        let lines = drawn(&mut screen, &looks, 200, 50).concat();
        assert!(!lines.contains(char::is_control), "{lines:?}");
    }
}
