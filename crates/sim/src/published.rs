//! The published experiments, simulated: which runs they need, and the tables that come of them.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde::Serialize;

use crate::best::best_static;
use crate::figures;
use crate::run::{Outcome, run};
use crate::scenario::{Event, Scenario};
use crate::shipped::{Kind, names, shipped};
use crate::tables;

/// The policies that are run unless others are asked for, `warm` last.
pub const POLICIES: [&str; 7] =
    ["hemem", "hemem+colloid", "tpp", "tpp+colloid", "memtis", "memtis+colloid", "warm"];

/// One figure.
#[derive(Debug, Clone, Serialize)]
pub struct Cell {
    /// The table it is in.
    pub table: String,
    /// What was run, such as `1x` or `168 ns 2x`.
    pub case: String,
    /// The policy, or `best` for the best static split.
    pub policy: String,
    /// What is counted: `GB/s`, `ns`, `s`, `gain`, `share`.
    pub unit: String,
    /// The simulated figure.
    pub simulated: f64,
    /// The published one; none for `warm`, and where only a range is asked for.
    pub published: Option<f64>,
    /// The range within which the simulated figure is close enough; none where nothing is asked for.
    pub range: Option<(f64, f64)>,
    /// Whether it is.
    pub ok: Option<bool>,
    /// Whether a constant of the model was fitted to this cell; otherwise it is a prediction.
    pub fitted: bool,
}

/// `warm` in one scenario against the others.
#[derive(Debug, Clone, Serialize)]
pub struct Against {
    /// The table the scenario is in.
    pub table: String,
    /// What was run.
    pub case: String,
    /// `warm`'s GB/s; in a scenario with a change, the mean from the first change on.
    pub warm: f64,
    /// Over the best of the six.
    pub of_six: f64,
    /// Which of the six that is.
    pub best_of_six: String,
    /// Over the best static split, at the end of the run.
    pub of_static: f64,
    /// Copied bytes as a part of traffic in the last fifth.
    pub migration_share: f64,
    /// Seconds until throughput settled after the last change.
    pub convergence_s: f64,
    /// The same for `HeMem` with Colloid.
    pub convergence_hemem_colloid_s: f64,
}

/// All that `warmset sim` shows.
#[derive(Debug, Clone, Serialize)]
pub struct Report {
    /// Raised when a field is renamed, removed, or changes its meaning.
    pub schema: u32,
    /// Always true: no figure here was measured.
    pub simulated: bool,
    /// The seed.
    pub seed: u64,
    /// The published tables.
    pub cells: Vec<Cell>,
    /// `warm` in all scenarios.
    pub warm: Vec<Against>,
    /// The runs themselves, by case and policy.
    #[serde(skip)]
    pub runs: Runs,
}

/// All runs.
#[derive(Debug, Clone, Default)]
pub struct Runs {
    /// By table, case and policy.
    pub outcomes: BTreeMap<(String, String, String), Outcome>,
    /// By table and case: GB/s of the best static split, and its share in the default tier.
    pub best: BTreeMap<(String, String), (f64, f64)>,
    /// Table and case of all scenarios, in order; whether something changes in it.
    pub cases: Vec<(String, String, bool)>,
}

impl Runs {
    /// A run.
    #[must_use]
    pub fn get(&self, table: &str, case: &str, policy: &str) -> Option<&Outcome> {
        self.outcomes.get(&(table.into(), case.into(), policy.into()))
    }
}

struct Case {
    table: &'static str,
    name: String,
    scenario: Scenario,
}

/// All scenarios.
fn cases(held_out: bool) -> Vec<Case> {
    let mut all = Vec::new();
    let mut add = |table, name: String, scenario| all.push(Case { table, name, scenario });
    let base = |name: &str| shipped(name).unwrap_or_else(|| Scenario::gups(0.0));
    let at = |level: usize, scenario: Scenario| Scenario { contention: vec![5.0 * level as f64], ..scenario };
    for (level, x) in figures::CONTENTION.iter().enumerate() {
        let gups = at(level, base("gups"));
        add("gups", (*x).into(), gups.clone());
        for latency in &figures::ALTERNATE_NS[1..] {
            let mut scenario = gups.clone();
            // Unloaded latency is added to the alternate tier; nothing else of it changes.
            scenario.tiers[1].base_ns += latency - figures::ALTERNATE_NS[0];
            add("latency sweep", format!("{latency} ns {x}"), scenario);
        }
        for (size, window) in figures::OBJECTS {
            let mut scenario = gups.clone();
            for tier in &mut scenario.tiers {
                (tier.window, tier.window_falls_by) = (window, 0.0);
            }
            add("object size", format!("{size} B {x}"), scenario);
        }
        if level > 0 {
            for (name, _, _) in figures::APPLICATIONS {
                add("applications", format!("{name} {x}"), at(level, base(name)));
            }
        }
    }
    let tables = [(Kind::Dynamic, "dynamic"), (Kind::Own, "own"), (Kind::HeldOut, "held out")];
    for (kind, table) in tables.into_iter().filter(|(kind, _)| held_out || *kind != Kind::HeldOut) {
        names(kind).for_each(|name| add(table, name.into(), base(name)));
    }
    all
}

/// How long a policy has to run. One pass of TPP's scan takes 288 s; where something changes, times are stretched.
#[must_use]
pub fn timed(scenario: &Scenario, policy: &str) -> Scenario {
    let mut scenario = scenario.clone();
    let periodic = scenario.events.iter().any(|event| event.every_s > 0.0);
    if scenario.events.is_empty() {
        scenario.seconds = match policy {
            _ if policy.starts_with("tpp") => scenario.seconds * 15.0,
            _ if policy == "warm" || policy.starts_with("memtis") => scenario.seconds * 1.5,
            _ => scenario.seconds * 0.5,
        };
    } else if policy.starts_with("tpp") && !periodic {
        let by = 10.0;
        scenario.seconds *= by;
        scenario.events =
            scenario.events.into_iter().map(|event| Event { at_s: event.at_s * by, ..event }).collect();
    }
    scenario
}

/// Runs everything, on as many threads; the held-out scenarios only if they are asked for.
#[must_use]
pub fn report(seed: u64, threads: usize, held_out: bool) -> Report {
    let mut cases = cases(held_out);
    cases.iter_mut().for_each(|case| case.scenario.seed = seed);
    let runs = run_all(&cases, threads);
    Report { schema: 2, simulated: true, seed, cells: tables::cells(&runs), warm: tables::warm(&runs), runs }
}

fn run_all(cases: &[Case], threads: usize) -> Runs {
    let jobs: Vec<(&Case, &str)> =
        cases.iter().flat_map(|case| POLICIES.iter().map(move |policy| (case, *policy))).collect();
    let next = AtomicUsize::new(0);
    let outcomes = Mutex::new(BTreeMap::new());
    let work = || {
        while let Some((case, policy)) = jobs.get(next.fetch_add(1, Ordering::Relaxed)) {
            let Some(outcome) = run(&timed(&case.scenario, policy), policy) else { continue };
            let key = (case.table.to_owned(), case.name.clone(), (*policy).to_owned());
            if let Ok(mut all) = outcomes.lock() {
                all.insert(key, outcome);
            }
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.max(1) {
            scope.spawn(work);
        }
        work();
    });
    let key = |case: &Case| (case.table.to_owned(), case.name.clone());
    Runs {
        outcomes: outcomes.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner),
        best: cases.iter().map(|case| (key(case), best_static(&case.scenario))).collect(),
        cases: (cases.iter())
            .map(|case| (case.table.into(), case.name.clone(), !case.scenario.events.is_empty()))
            .collect(),
    }
}
