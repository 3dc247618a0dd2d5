//! The live view: a table of the nodes on the terminal; `q` ends it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{self, Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table};
use warmset_tiering::{Daemon, Report};

use crate::units;

const WARNINGS_MAX: usize = 5;

/// The terminal while it is ours.
pub struct Live {
    terminal: Option<DefaultTerminal>,
    warnings: VecDeque<String>,
}

impl Live {
    /// Takes the terminal over; a panic gives it back.
    pub fn start() -> io::Result<Self> {
        Ok(Self { terminal: Some(ratatui::try_init()?), warnings: VecDeque::new() })
    }

    /// Draws a decision.
    pub fn draw(&mut self, daemon: &Daemon, report: &Report) -> io::Result<()> {
        self.warnings.extend(report.warnings.iter().cloned());
        while self.warnings.len() > WARNINGS_MAX {
            self.warnings.pop_front();
        }
        let warnings: Vec<Line> = self.warnings.iter().map(|text| Line::from(text.as_str())).collect();
        let Some(terminal) = &mut self.terminal else { return Ok(()) };
        terminal.draw(|frame| {
            let nodes = u16::try_from(report.tiers.len()).unwrap_or(u16::MAX).saturating_add(3);
            let heights = [Constraint::Length(nodes), Constraint::Length(6), Constraint::Min(0)];
            let [above, middle, below] = Layout::vertical(heights).areas(frame.area());
            frame.render_widget(nodes_table(daemon, report), above);
            let title = "q ends; the process goes on";
            frame.render_widget(
                Paragraph::new(sums(daemon, report)).block(Block::bordered().title(title)),
                middle,
            );
            frame.render_widget(Paragraph::new(warnings), below);
        })?;
        Ok(())
    }

    /// Whether `q` or Ctrl-C was pressed.
    pub fn is_left(&self) -> bool {
        while event::poll(Duration::ZERO).unwrap_or(false) {
            let Ok(Event::Key(key)) = event::read() else { continue };
            let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if key.code == KeyCode::Char('q') || interrupt {
                return true;
            }
        }
        false
    }

    /// Gives the terminal back.
    pub fn stop(&mut self) {
        if self.terminal.take().is_some() {
            ratatui::restore();
        }
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop();
    }
}

fn nodes_table<'a>(daemon: &Daemon, report: &Report) -> Table<'a> {
    let rows = report.tiers.iter().map(|tier| {
        Row::new([
            tier.node.to_string(),
            tier.latency_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0} ns")),
            format!("{:.0} %", tier.share * 100.0),
            units::bytes(tier.resident_bytes),
            units::bytes(tier.free_bytes),
        ])
    });
    let target = daemon.target();
    Table::new(rows, [Constraint::Length(14); 5])
        .header(Row::new(["node", "latency", "accesses", "resident", "free"]))
        .block(Block::bordered().title(format!("process {} ({})", target.pid(), target.name())))
}

fn sums<'a>(daemon: &Daemon, report: &Report) -> Vec<Line<'a>> {
    let counters = daemon.counters();
    let failed = &counters.failures;
    vec![
        Line::from(format!("accessed    {}", units::bytes(report.accessed_bytes))),
        Line::from(format!("promoted    {}", units::bytes(counters.promoted_bytes))),
        Line::from(format!("demoted     {}", units::bytes(counters.demoted_bytes))),
        Line::from(format!(
            "not moved   {} busy, {} shared, {} no room, {} node, {} gone",
            failed.busy, failed.shared, failed.full, failed.node, failed.gone
        )),
    ]
}

#[cfg(test)]
mod tests {
    use super::Live;

    #[test]
    fn giving_the_terminal_back_twice_is_harmless() {
        let mut live = Live { terminal: None, warnings: std::collections::VecDeque::new() };
        live.stop();
    }
}
