//! What the daemon did: the records of the log, and the counters in Prometheus' text form.

use std::collections::HashSet;
use std::fmt::Write as _;

use serde::{Deserialize, Serialize};

/// Version of the log's records.
pub const SCHEMA: u32 = 1;

/// One tier at the end of a quantum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct TierReport {
    /// Its node.
    pub node: u32,
    /// The mean latency of an access; absent without a figure.
    pub latency_ns: Option<f64>,
    /// The part of the process's accesses that it served, as tracked.
    pub share: f64,
    /// Memory of the process there, in whole chunks.
    pub resident_bytes: u64,
    /// The node's unused memory.
    pub free_bytes: u64,
}

/// A chunk that was moved, or would have been.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct MoveReport {
    /// Its first address.
    pub address: u64,
    /// The node it was on.
    pub from: u32,
    /// The node it goes to.
    pub to: u32,
    /// What was moved of it; 0 in a dry run.
    pub moved_bytes: u64,
}

/// Chunks that did not move, by reason.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Failures {
    /// Pinned or under I/O.
    pub busy: u64,
    /// Shared with another process.
    pub shared: u64,
    /// No memory on the node.
    pub full: u64,
    /// The node went offline, or the process may not use it.
    pub node: u64,
    /// Unmapped meanwhile.
    pub gone: u64,
}

/// A quantum.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Since the start.
    pub time_s: f64,
    /// Nearest first.
    pub tiers: Vec<TierReport>,
    /// Memory that was accessed, in whole chunks.
    pub accessed_bytes: u64,
    /// What was moved to where accesses take less time.
    pub promoted_bytes: u64,
    /// What was moved the other way.
    pub demoted_bytes: u64,
    /// Each move.
    pub moves: Vec<MoveReport>,
    /// What did not move.
    pub failures: Failures,
    /// Moves left for a later quantum because this one's time or bytes were used up.
    pub postponed: u64,
    /// What a reader of the log should know.
    pub warnings: Vec<String>,
}

/// Sums since the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// How many quanta.
    pub quanta: u64,
    /// What was moved to where accesses take less time.
    pub promoted_bytes: u64,
    /// What was moved the other way.
    pub demoted_bytes: u64,
    /// What did not move.
    pub failures: Failures,
    /// Quanta without latencies, in which nothing was decided.
    pub quanta_without_latency: u64,
}

impl Counters {
    /// Adds a quantum.
    pub fn add(&mut self, report: &Report) {
        self.quanta += 1;
        self.promoted_bytes += report.promoted_bytes;
        self.demoted_bytes += report.demoted_bytes;
        let (sum, new) = (&mut self.failures, &report.failures);
        sum.busy += new.busy;
        sum.shared += new.shared;
        sum.full += new.full;
        sum.node += new.node;
        sum.gone += new.gone;
    }
}

/// One process's counters and its last quantum.
#[derive(Debug, Clone, Copy)]
pub struct Managed<'a> {
    /// The process.
    pub pid: u32,
    /// Its sums.
    pub counters: &'a Counters,
    /// The last quantum.
    pub last: &'a Report,
}

/// The counters and last quanta of processes in Prometheus' text form, for node_exporter's textfile collector.
#[must_use]
pub fn prometheus(all: &[Managed<'_>]) -> String {
    let mut text = String::new();
    let mut family =
        |name: &str, kind: &str, help: &str, lines: &dyn Fn(&Managed<'_>) -> Vec<(String, String)>| {
            let _ = writeln!(text, "# HELP warmset_tier_{name} {help}\n# TYPE warmset_tier_{name} {kind}");
            let mut seen = HashSet::new();
            for managed in all {
                for (labels, value) in lines(managed) {
                    let labels = format!("pid=\"{}\"{labels}", managed.pid);
                    // A file with two values of one series is refused as a whole.
                    if !seen.contains(&labels) {
                        let _ = writeln!(text, "warmset_tier_{name}{{{labels}}} {value}");
                        seen.insert(labels);
                    }
                }
            }
        };
    let seconds = |tier: &TierReport| Some((tier.latency_ns? / 1e9).to_string());
    family("latency_seconds", "gauge", "Mean latency of an access.", &|all| tiers(all, &seconds));
    let share = |tier: &TierReport| Some(tier.share.to_string());
    family("access_ratio", "gauge", "Part of the tracked accesses that the node serves.", &|all| {
        tiers(all, &share)
    });
    let resident = |tier: &TierReport| Some(tier.resident_bytes.to_string());
    family("resident_bytes", "gauge", "Memory of the process on the node.", &|all| tiers(all, &resident));
    let one = |value: u64| vec![(String::new(), value.to_string())];
    family("promoted_bytes_total", "counter", "Moved to lower latency.", &|all| {
        one(all.counters.promoted_bytes)
    });
    family("demoted_bytes_total", "counter", "Moved to higher latency.", &|all| {
        one(all.counters.demoted_bytes)
    });
    family("failed_moves_total", "counter", "Chunks that did not move.", &|all| {
        failed(&all.counters.failures)
    });
    family("quanta_total", "counter", "Decisions so far.", &|all| one(all.counters.quanta));
    family("quanta_without_latency_total", "counter", "Quanta without latencies: nothing moved.", &|all| {
        one(all.counters.quanta_without_latency)
    });
    text
}

fn tiers(managed: &Managed<'_>, value: &dyn Fn(&TierReport) -> Option<String>) -> Vec<(String, String)> {
    let line = |tier: &TierReport| Some((format!(",node=\"{}\"", tier.node), value(tier)?));
    managed.last.tiers.iter().filter_map(line).collect()
}

fn failed(failures: &Failures) -> Vec<(String, String)> {
    let reasons = [
        ("busy", failures.busy),
        ("shared", failures.shared),
        ("full", failures.full),
        ("node", failures.node),
        ("gone", failures.gone),
    ];
    reasons.map(|(reason, count)| (format!(",reason=\"{reason}\""), count.to_string())).to_vec()
}
