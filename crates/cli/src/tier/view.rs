//! What `warmset tier` shows: JSON records, a live view on a terminal, or a line now and then.

use std::io::{self, IsTerminal, Write};
use std::time::{Duration, Instant};

use serde_json::json;
use warmset_tiering::{Daemon, Report, SCHEMA};

use super::args::TierArgs;
use super::live::Live;
use warmset_platform::units;

/// Between two lines where nobody looks at a live view.
const LINE_EVERY: Duration = Duration::from_secs(10);

/// One of the three.
pub enum View {
    /// Records for programs.
    Json,
    /// For a person at a terminal.
    Live(Box<Live>),
    /// Lines on stderr.
    Lines {
        /// When the last one was written.
        last: Option<Instant>,
    },
}

impl View {
    /// Chooses, and says what is managed and how.
    pub fn new(wanted: &TierArgs, daemon: &Daemon) -> io::Result<Self> {
        let (tracker, latency) = daemon.sources();
        let target = daemon.target();
        if wanted.json {
            let nodes: Vec<_> = daemon
                .topology()
                .tiers
                .iter()
                .map(
                    |tier| json!({ "node": tier.node, "bytes": tier.total_bytes, "has_cpus": tier.has_cpus }),
                )
                .collect();
            record(
                "start",
                &json!({
                    "pid": target.pid(), "name": target.name(), "policy": wanted.policy, "dry_run": wanted.dry_run,
                    "tracker": tracker, "latency": latency, "nodes": nodes,
                }),
            )?;
            return Ok(Self::Json);
        }
        let how = format!("policy {}, accesses by {tracker}, latencies by {latency}", wanted.policy);
        if io::stdout().is_terminal() && wanted.pid.is_some() && !wanted.once {
            return Ok(Self::Live(Box::new(Live::start(how, wanted.dry_run)?)));
        }
        let (pid, name) = (target.pid(), target.name());
        writeln!(io::stderr(), "warmset: process {pid} ({name}), {how}")?;
        Ok(Self::Lines { last: None })
    }

    /// Shows a decision.
    pub fn show(&mut self, daemon: &Daemon, report: &Report) -> io::Result<()> {
        match self {
            Self::Json => record("quantum", &serde_json::to_value(report)?),
            Self::Live(live) => live.draw(daemon, report),
            Self::Lines { last } => {
                for warning in &report.warnings {
                    writeln!(io::stderr(), "warmset: {warning}")?;
                }
                if last.is_none_or(|last| last.elapsed() >= LINE_EVERY) {
                    *last = Some(Instant::now());
                    writeln!(io::stderr(), "warmset: {}", line(daemon, report))?;
                }
                Ok(())
            }
        }
    }

    /// Whether the person at the terminal asked to end.
    pub fn is_left(&mut self) -> bool {
        matches!(self, Self::Live(live) if live.is_left())
    }

    /// The last word.
    pub fn end(&mut self, daemon: &Daemon) -> io::Result<()> {
        let counters = daemon.counters();
        let reason = if daemon.target().runs() { "stopped" } else { "process ended" };
        if matches!(self, Self::Json) {
            return record("end", &json!({ "reason": reason, "counters": counters }));
        }
        if let Self::Live(live) = self {
            live.stop();
        }
        let (promoted, demoted) = (counters.promoted_bytes, counters.demoted_bytes);
        writeln!(
            io::stderr(),
            "warmset: {reason}; {} promoted, {} demoted in {} decisions",
            units::bytes(promoted),
            units::bytes(demoted),
            counters.quanta
        )
    }
}

/// Nodes in a line: latency, share, size.
fn line(daemon: &Daemon, report: &Report) -> String {
    let tiers: Vec<String> = report
        .tiers
        .iter()
        .map(|tier| {
            let latency = tier.latency_ns.map_or_else(|| "-".to_owned(), |ns| format!("{ns:.0} ns"));
            let (share, resident) = (tier.share * 100.0, units::bytes(tier.resident_bytes));
            format!("node {}: {latency}, {share:.0} % of accesses, {resident}", tier.node)
        })
        .collect();
    let would = if report.moves.iter().any(|line| line.moved_bytes > 0) || report.moves.is_empty() {
        format!("{} moved", units::bytes(daemon.counters().promoted_bytes + daemon.counters().demoted_bytes))
    } else {
        format!("{} chunks to be moved", report.moves.len())
    };
    format!("{}; {would}", tiers.join("; "))
}

fn record(event: &str, fields: &serde_json::Value) -> io::Result<()> {
    let mut record = json!({ "schema": SCHEMA, "event": event });
    if let (Some(record), Some(fields)) = (record.as_object_mut(), fields.as_object()) {
        record.extend(fields.clone());
    }
    let mut out = io::stdout().lock();
    writeln!(out, "{record}")?;
    out.flush()
}
