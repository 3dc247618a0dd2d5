//! The terminal view: stores, the regions of the selected one, tiering and prefetching.
//!
//! Invariant: the terminal is given back however this ends.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use ratatui::DefaultTerminal;
use ratatui::buffer::Buffer;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyEvent, KeyEventKind, KeyModifiers};
use ratatui::layout::{Alignment, Constraint, Layout, Rect};
use ratatui::style::{Modifier, Style};
use ratatui::text::Text;
use ratatui::widgets::{Block, Cell, Paragraph, Row, StatefulWidget, Table, TableState, Widget};

use super::machine::{Of, StoreStatus};
use super::sections::{Choice, Section, prefetch_section, regions_section, stores_section, tiers_section};
use super::{Looks, nothing};

/// How long a signal that asks to end waits for an answer at most.
const STEP: Duration = Duration::from_millis(100);
/// A table's frame and head.
const AROUND: u16 = 3;
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
            let (screen, terminal) = (&mut self.screen, &mut self.terminal);
            terminal.draw(|frame| screen.draw(looks, frame.area(), frame.buffer_mut()))?;
            loop {
                let left = until.saturating_duration_since(Instant::now());
                if left.is_zero() || stop.load(Ordering::Relaxed) {
                    return Ok(false);
                }
                if event::poll(left.min(STEP))? {
                    break;
                }
            }
            if let Event::Key(key) = event::read()? {
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
        let problems = machine.problems.len().min(3) as u16;

        let [head, middle, complaints, foot] = Layout::vertical([
            Constraint::Length(1),
            Constraint::Min(0),
            Constraint::Length(problems),
            Constraint::Length(1),
        ])
        .areas(area);
        Paragraph::new(self.headline(stores.len(), machine.stores.len())).style(BOLD).render(head, buffer);
        Paragraph::new(machine.problems.join("\n")).render(complaints, buffer);
        Paragraph::new(self.footline()).render(foot, buffer);
        if stores.is_empty() && below.is_empty() {
            Paragraph::new(nothing(&self.choice)).render(middle, buffer);
            return;
        }
        let regions = stores.get(self.selected).map(|store| regions_section(store));
        let heights = heights(&shown, &below, regions.is_some(), middle.height);
        let areas = Layout::vertical(heights).split(middle);
        let mut areas = areas.iter().copied();
        let mut next = || areas.next().unwrap_or_default();
        if let Some(regions) = regions {
            draw_table(&shown, Some(self.selected), next(), buffer);
            draw_table(&regions, None, next(), buffer);
        }
        for section in &below {
            draw_table(section, None, next(), buffer);
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
        match &self.typing {
            Some(_) => format!("filter: {}_   Enter keeps it, Esc takes it back", self.choice.filter),
            None if self.choice.filter.is_empty() => KEYS.to_owned(),
            None => format!("filter: {}   Esc clears it   {KEYS}", self.choice.filter),
        }
    }
}

const BOLD: Style = Style::new().add_modifier(Modifier::BOLD);
const REVERSED: Style = Style::new().add_modifier(Modifier::REVERSED);

/// Stores get half at most, what is below them what it needs, and the regions of the selected store the rest.
fn heights(stores: &Section, below: &[Section], has_stores: bool, room: u16) -> Vec<Constraint> {
    let height =
        |section: &Section| u16::try_from(section.rows.len()).unwrap_or(u16::MAX).saturating_add(AROUND);
    let mut all = Vec::new();
    if has_stores {
        all.push(Constraint::Length(height(stores).min((room / 2).max(AROUND + 1))));
        all.push(Constraint::Min(0));
    }
    let part = room / 4;
    all.extend(below.iter().map(|section| Constraint::Length(height(section).min(part.max(AROUND + 1)))));
    all
}

fn draw_table(section: &Section, selected: Option<usize>, area: Rect, buffer: &mut Buffer) {
    let shown = section.fit(usize::from(area.width.saturating_sub(2)));
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
        .block(Block::bordered().title(section.title.as_str()));
    StatefulWidget::render(table, area, buffer, &mut TableState::new().with_selected(selected));
}
