//! The published GUPS experiments beside what is simulated.

use serde::Serialize;

use crate::run::{Scenario, best_static, run};

/// The policies that are run, `warm` last.
pub const POLICIES: [&str; 7] =
    ["hemem", "hemem+colloid", "tpp", "tpp+colloid", "memtis", "memtis+colloid", "warm"];

/// GB/s at 0x, 1x, 2x, 3x; how far off a cell may be.
const TABLE: [(&str, [f64; 4], f64); 7] = [
    ("best", [78.5, 59.4, 56.3, 52.5], 0.05),
    ("hemem", [77.5, 49.1, 34.1, 22.7], 0.05),
    ("hemem+colloid", [77.3, 57.8, 56.1, 54.0], 0.05),
    ("tpp", [75.5, 44.0, 30.7, 22.2], 0.10),
    ("tpp+colloid", [72.5, 57.1, 56.4, 54.3], 0.10),
    ("memtis", [69.8, 42.1, 30.5, 21.3], 0.10),
    ("memtis+colloid", [69.8, 51.4, 51.2, 48.0], 0.10),
];

/// One cell.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The policy, or `best` for the best static split.
    pub policy: String,
    /// Antagonist cores in units of five.
    pub contention: u32,
    /// Simulated GB/s.
    pub simulated_gbps: f64,
    /// Published GB/s; none for `warm`.
    pub published_gbps: Option<f64>,
    /// Simulated / published − 1.
    pub deviation: Option<f64>,
    /// Whether the deviation is within what the table allows.
    pub ok: Option<bool>,
    /// The default tier's part of the application's accesses at the end.
    pub default_share: Option<f64>,
    /// Simulated latencies at the end, ns.
    pub latency_ns: Vec<f64>,
    /// Copied bytes as a part of traffic in the last fifth.
    pub migration_share: Option<f64>,
}

/// One dynamic scenario.
#[derive(Debug, Clone, Serialize)]
pub struct Dynamic {
    /// What changes.
    pub scenario: String,
    /// The policy.
    pub policy: String,
    /// Seconds until throughput stays within 5 % of its last figure.
    pub convergence_s: f64,
    /// Mean GB/s from the change on.
    pub gbps: f64,
}

/// All that `warmset sim` prints.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Raised when a field is renamed, removed, or changes its meaning.
    pub schema: u32,
    /// Always true: no figure here was measured.
    pub simulated: bool,
    /// The table.
    pub gups: Vec<Cell>,
    /// What happens when something changes.
    pub dynamic: Vec<Dynamic>,
}

/// Runs everything. TPP runs longer: one pass of its scan takes 288 s.
#[must_use]
pub fn report(seed: u64) -> Report {
    let mut gups = Vec::new();
    for contention in 0..4_u32 {
        let scenario = Scenario { seed, ..Scenario::gups(f64::from(contention * 5)) };
        gups.push(cell("best", contention, best_static(&scenario)));
        for policy in POLICIES {
            let Some(done) = run(&timed(&scenario, policy), policy) else { continue };
            gups.push(Cell {
                default_share: Some(done.default_share),
                latency_ns: done.latency_ns,
                migration_share: Some(done.migration_share),
                ..cell(policy, contention, done.gbps)
            });
        }
    }
    Report { schema: 1, simulated: true, gups, dynamic: dynamic(seed) }
}

fn timed(scenario: &Scenario, policy: &str) -> Scenario {
    let seconds = if policy.starts_with("tpp") { 900.0 } else { scenario.seconds };
    Scenario { seconds, ..scenario.clone() }
}

fn cell(policy: &str, contention: u32, simulated_gbps: f64) -> Cell {
    let row = TABLE.iter().find(|row| row.0 == policy);
    let published = row.map(|row| row.1[contention as usize]);
    let deviation = published.map(|published| simulated_gbps / published - 1.0);
    Cell {
        policy: policy.into(),
        contention,
        simulated_gbps,
        published_gbps: published,
        deviation,
        ok: deviation.zip(row).map(|(deviation, row)| deviation.abs() <= row.2),
        default_share: None,
        latency_ns: Vec::new(),
        migration_share: None,
    }
}

fn dynamic(seed: u64) -> Vec<Dynamic> {
    let base = Scenario { seed, change_s: 40.0, seconds: 80.0, ..Scenario::gups(0.0) };
    let scenarios = [
        ("hot set moved at 0x", Scenario { hot_moves: true, ..base.clone() }),
        ("contention 0x to 3x", Scenario { antagonists_then: 15.0, ..base }),
    ];
    let mut all = Vec::new();
    for (name, scenario) in scenarios {
        for policy in POLICIES.into_iter().filter(|policy| !policy.starts_with("tpp")) {
            let Some(done) = run(&scenario, policy) else { continue };
            all.push(Dynamic {
                scenario: name.into(),
                policy: policy.into(),
                convergence_s: done.convergence_s,
                gbps: done.gbps_from_change,
            });
        }
    }
    all
}
