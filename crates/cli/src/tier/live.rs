//! The live view: a table of the nodes on the terminal; `q` ends it.

use std::collections::VecDeque;
use std::io;
use std::time::Duration;

use ratatui::DefaultTerminal;
use ratatui::crossterm::event::{Event, KeyCode, KeyModifiers};
use ratatui::layout::{Constraint, Layout};
use ratatui::text::Line;
use ratatui::widgets::{Block, Paragraph, Row, Table, Wrap};
use warmset_tiering::{Counters, Daemon, Report};

use crate::terminal::{self, Happened};
use warmset_platform::units;

const WARNINGS_MAX: usize = 5;
/// Lines of the sums, with the frame and two that are broken.
const SUMS_LINES: u16 = 9;

/// The terminal while it is ours.
pub struct Live {
    terminal: Option<DefaultTerminal>,
    warnings: VecDeque<String>,
    /// How pages are chosen, by what.
    how: String,
    dry_run: bool,
}

impl Live {
    /// Takes the terminal over; a panic gives it back.
    pub fn start(how: String, dry_run: bool) -> io::Result<Self> {
        Ok(Self { terminal: Some(ratatui::try_init()?), warnings: VecDeque::new(), how, dry_run })
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
            let heights = [Constraint::Length(nodes), Constraint::Length(SUMS_LINES), Constraint::Min(0)];
            let [above, middle, below] = Layout::vertical(heights).areas(frame.area());
            frame.render_widget(nodes_table(daemon, report), above);
            frame.render_widget(sums(&self.how, self.dry_run, daemon.counters(), report), middle);
            frame.render_widget(Paragraph::new(warnings).wrap(Wrap { trim: true }), below);
        })?;
        Ok(())
    }

    /// Whether `q` or Ctrl-C was pressed, or the terminal closed.
    pub fn is_left(&self) -> bool {
        loop {
            let key = match terminal::wait(Duration::ZERO) {
                Ok(Happened::Event(Event::Key(key))) => key,
                Ok(Happened::Event(_)) => continue,
                Ok(Happened::Nothing) | Err(_) => return false,
                Ok(Happened::Closed) => return true,
            };
            let interrupt = key.code == KeyCode::Char('c') && key.modifiers.contains(KeyModifiers::CONTROL);
            if key.code == KeyCode::Char('q') || interrupt {
                return true;
            }
        }
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

fn sums<'a>(how: &'a str, dry_run: bool, counters: &Counters, report: &Report) -> Paragraph<'a> {
    let failed = &counters.failures;
    let mut lines =
        vec![Line::from(how), Line::from(format!("accessed    {}", units::bytes(report.accessed_bytes)))];
    if dry_run {
        lines.push(Line::from(format!("would move  {} chunks of 2 MiB now (dry run)", report.moves.len())));
    } else {
        lines.push(Line::from(format!("promoted    {}", units::bytes(counters.promoted_bytes))));
        lines.push(Line::from(format!("demoted     {}", units::bytes(counters.demoted_bytes))));
    }
    lines.push(Line::from(format!(
        "not moved   {} busy, {} shared, {} no room, {} node, {} gone",
        failed.busy, failed.shared, failed.full, failed.node, failed.gone
    )));
    let frame = Block::bordered().title("q ends; the process goes on");
    Paragraph::new(lines).wrap(Wrap { trim: true }).block(frame)
}

#[cfg(test)]
mod tests {
    use ratatui::Terminal;
    use ratatui::backend::TestBackend;
    use warmset_tiering::{Counters, Failures, Report};

    use super::{Live, SUMS_LINES, sums};

    fn screen(columns: u16, dry_run: bool) -> String {
        let report = Report {
            time_s: 1.0,
            tiers: Vec::new(),
            accessed_bytes: 4 << 20,
            promoted_bytes: 0,
            demoted_bytes: 0,
            moves: Vec::new(),
            failures: Failures::default(),
            postponed: 0,
            warnings: Vec::new(),
        };
        let mut terminal = Terminal::new(TestBackend::new(columns, SUMS_LINES)).unwrap();
        let counters =
            Counters { failures: Failures { gone: 7, ..Failures::default() }, ..Counters::default() };
        let shown = sums("policy equal", dry_run, &counters, &report);
        terminal.draw(|frame| frame.render_widget(shown, frame.area())).unwrap();
        terminal.backend().to_string()
    }

    #[test]
    fn a_narrow_terminal_shows_all_reasons() {
        for columns in [50, 90] {
            let shown = screen(columns, false);
            assert!(shown.contains("7 gone") && shown.contains("policy equal"), "{shown}");
        }
    }

    #[test]
    fn a_dry_run_says_what_it_would_move() {
        let shown = screen(90, true);
        assert!(shown.contains("would move  0 chunks") && !shown.contains("promoted"), "{shown}");
    }

    #[test]
    fn giving_the_terminal_back_twice_is_harmless() {
        let (warnings, how) = (std::collections::VecDeque::new(), String::new());
        let mut live = Live { terminal: None, warnings, how, dry_run: false };
        live.stop();
    }
}
