//! The two views of the report: lines for people, and JSON with a versioned schema.

use std::io::{self, IsTerminal, Write};

use anstyle::{AnsiColor, Style};
use serde::Serialize;

use super::finding::{Finding, State};
use crate::args::Colour;

/// Raised when a field of the JSON is renamed, removed, or changes its meaning.
const SCHEMA: u32 = 1;

#[derive(Serialize)]
struct Report<'a> {
    schema: u32,
    version: &'static str,
    state: State,
    findings: &'a [Finding],
}

/// Writes the report as one JSON object.
pub fn json(mut out: impl Write, findings: &[Finding]) -> io::Result<()> {
    let state = findings.iter().map(|finding| finding.state).max().unwrap_or(State::Ok);
    let report = Report { schema: SCHEMA, version: env!("CARGO_PKG_VERSION"), state, findings };
    serde_json::to_writer_pretty(&mut out, &report)?;
    writeln!(out)
}

/// Writes one line per finding: state, check, value, what follows.
pub fn human(mut out: impl Write, findings: &[Finding], colour: Colour) -> io::Result<()> {
    let coloured = wants_colour(colour);
    let width =
        |part: fn(&Finding) -> &str| findings.iter().map(|f| part(f).chars().count()).max().unwrap_or(0);
    let (check_width, value_width) = (width(|f| f.check), width(|f| &f.value).min(44));
    for finding in findings {
        let style = if coloured { style(finding.state) } else { Style::new() };
        let state = label(finding.state);
        let Finding { check, value, follows, .. } = finding;
        writeln!(out, "{style}{state:4}{style:#}  {check:check_width$}  {value:value_width$}  {follows}")?;
    }
    out.flush()
}

fn wants_colour(colour: Colour) -> bool {
    match colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => {
            std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty()) && io::stdout().is_terminal()
        }
    }
}

fn label(state: State) -> &'static str {
    match state {
        State::Ok => "ok",
        State::Warn => "warn",
        State::Bad => "bad",
    }
}

fn style(state: State) -> Style {
    let colour = match state {
        State::Ok => AnsiColor::Green,
        State::Warn => AnsiColor::Yellow,
        State::Bad => AnsiColor::Red,
    };
    colour.on_default().bold()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> Vec<Finding> {
        vec![
            Finding::new("kernel", State::Ok, "6.1", "fine"),
            Finding::new("swap", State::Warn, "2.0 GiB", "slow").with([1, 2]),
        ]
    }

    #[test]
    fn json_has_a_schema_and_the_worst_state() {
        let mut text = Vec::new();
        json(&mut text, &sample()).unwrap();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap();
        assert_eq!(value["schema"], 1);
        assert_eq!(value["state"], "warn");
        assert_eq!(value["findings"][1]["data"], serde_json::json!([1, 2]));
    }

    #[test]
    fn one_line_per_finding_and_colour_only_when_asked_for() {
        let mut plain = Vec::new();
        human(&mut plain, &sample(), Colour::Never).unwrap();
        let plain = String::from_utf8(plain).unwrap();
        assert_eq!(plain.lines().count(), 2);
        assert!(plain.starts_with("ok    kernel"));
        assert!(!plain.contains('\u{1b}'));
        let mut coloured = Vec::new();
        human(&mut coloured, &sample(), Colour::Always).unwrap();
        assert!(String::from_utf8(coloured).unwrap().contains('\u{1b}'));
    }
}
