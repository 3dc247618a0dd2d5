//! Runs a policy on the machine: moves at the mover's speed, and a timeline of what came of it.

use serde::Serialize;
use warmset_placement::tier::{Layout, Quantum, TierCounters, TierPolicy, Tracking, policy};

use crate::cost;
use crate::machine::{Load, State, solve};
use crate::pages::{Pages, pages};
use crate::scenario::Scenario;

pub(crate) const PAGE_BYTES: u64 = 2 << 20;
const LINES_PER_PAGE: f64 = (PAGE_BYTES / 64) as f64;
/// Bytes that a line stands for: it is read and written.
pub(crate) const LINE_BYTES: f64 = 128.0;
/// A point of the timeline covers this much.
const POINT_NS: f64 = 5e8;
/// Throughput has settled when it stays this close to its last figure.
const SETTLED: f64 = 0.02;

/// A part of the timeline.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Point {
    /// When it ends.
    pub at_s: f64,
    /// GB/s read and written by the application.
    pub gbps: f64,
    /// The default tier's part of the application's accesses.
    pub default_share: f64,
    /// GB/s copied, both ways together.
    pub migration_gbps: f64,
    /// Latency per tier.
    pub latency_ns: Vec<f64>,
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Mean throughput over the last fifth of the run, GB/s read and written.
    pub gbps: f64,
    /// Mean latencies over the last fifth.
    pub latency_ns: Vec<f64>,
    /// The part of the application's accesses served by the default tier, over the last fifth.
    pub default_share: f64,
    /// Seconds from the last change until throughput stays within 2 % of its last figure.
    pub convergence_s: f64,
    /// Bytes copied in the last fifth of the run, as a part of the application's traffic in it.
    pub migration_share: f64,
    /// Mean throughput from the first change on.
    pub gbps_from_change: f64,
    /// The highest copying speed of any half second, GB/s.
    pub migration_gbps_max: f64,
    /// Half-second means.
    pub timeline: Vec<Point>,
}

/// Runs a policy by name; `None` if there is none of that name.
#[must_use]
pub fn run(scenario: &Scenario, name: &str) -> Option<Outcome> {
    let mut subject = policy(name, &Layout { tiers: scenario.tiers.len(), page_bytes: PAGE_BYTES })?;
    Some(drive(scenario, subject.as_mut()))
}

struct Machine<'a> {
    scenario: &'a Scenario,
    pages: Pages,
    shares: Vec<f64>,
    contention: Vec<f64>,
    cores: f64,
    migration: Vec<f64>,
    state: State,
}

impl Machine<'_> {
    fn change(&mut self, event: &crate::scenario::Event) {
        if event.hot_moves {
            self.pages.move_hot();
            self.shares = self.pages.shares(self.scenario.tiers.len());
        }
        if let Some(cores) = &event.contention {
            self.contention = lines(cores, self.scenario);
        }
        self.cores = event.cores.unwrap_or(self.cores);
    }

    fn step(&mut self, left: f64) {
        let load = Load {
            cores: self.cores,
            window_scale: self.scenario.window_scale * left,
            think_ns: self.scenario.think_ns,
            shares: &self.shares,
            antagonist_lines: &self.contention,
            migration_per_ns: &self.migration,
        };
        self.state = solve(&self.scenario.tiers, &load, &self.state.in_flight);
    }
}

/// Antagonists' lines in flight per tier.
pub(crate) fn lines(cores: &[f64], scenario: &Scenario) -> Vec<f64> {
    let cores = cores.iter().copied().chain(std::iter::repeat(0.0));
    cores.take(scenario.tiers.len()).map(|cores| cores * scenario.antagonist_lines).collect()
}

fn drive(scenario: &Scenario, subject: &mut dyn TierPolicy) -> Outcome {
    let tiers = scenario.tiers.len();
    let known = Pages::new(scenario);
    let mut machine = Machine {
        scenario,
        shares: known.shares(tiers),
        pages: known,
        contention: lines(&scenario.contention, scenario),
        cores: scenario.cores,
        migration: vec![0.0; tiers],
        state: State::default(),
    };
    let capacity_pages: Vec<u64> =
        scenario.tiers.iter().map(|tier| pages(tier.capacity_gib) as u64).collect();
    let step_ns = subject.quantum_ns();
    let step = step_ns as f64;
    let steps = (scenario.seconds * 1e9 / step).ceil() as u64;
    let changes = scenario.changes();
    let mut next = changes.iter().peekable();
    let mut samples = Vec::new();
    let mut history = History::new(tiers);
    for at in 0..steps {
        while let Some((_, event)) = next.next_if(|change| change.0 * 1e9 <= at as f64 * step) {
            machine.change(event);
        }
        let tracking = subject.tracking();
        machine.step(cost::left(subject.name(), tracking, machine.cores));
        machine.pages.samples(tracking, machine.state.lines_per_ns, step, &mut samples);
        let counters: Vec<TierCounters> = (machine.state.rate_per_ns.iter().zip(&machine.state.latency_ns))
            .map(|(rate, latency)| TierCounters { rate_per_ns: *rate, latency_ns: Some(*latency) })
            .collect();
        let moves = subject.decide(&Quantum {
            now_ns: at * step_ns,
            elapsed_ns: step_ns,
            tiers: &counters,
            samples: &samples,
            accesses_per_weight: if let Tracking::Samples { period } = tracking {
                period as f64
            } else {
                0.0
            },
            capacity_pages: &capacity_pages,
            residency: &machine.pages.residency,
            move_bytes_max: (scenario.mover_gbps * step) as u64,
        });
        machine.migration.fill(0.0);
        for done in &moves {
            machine.pages.residency[done.page as usize] = done.to;
            let weight = machine.pages.weight(done.page as usize);
            let (from, to) = (usize::from(done.from), usize::from(done.to));
            machine.shares[from] = (machine.shares[from] - weight).max(0.0);
            machine.shares[to] = (machine.shares[to] + weight).min(1.0);
            machine.migration[from] += LINES_PER_PAGE / step;
            machine.migration[to] += LINES_PER_PAGE / step;
        }
        history.add(&machine.state, machine.shares[0], moves.len() as f64 * PAGE_BYTES as f64, step);
    }
    let first = changes.first().map_or(0.0, |change| change.0);
    let last = changes.last().map_or(0.0, |change| change.0);
    history.outcome(first, last)
}

struct History {
    points: Vec<Point>,
    sum: Point,
    time_ns: f64,
    all_ns: f64,
}

impl History {
    fn new(tiers: usize) -> Self {
        Self { points: Vec::new(), sum: nothing(tiers), time_ns: 0.0, all_ns: 0.0 }
    }

    fn add(&mut self, state: &State, share: f64, copied: f64, step: f64) {
        self.sum.gbps += LINE_BYTES * state.lines_per_ns * step;
        self.sum.default_share += share * step;
        self.sum.migration_gbps += copied;
        for (sum, latency) in self.sum.latency_ns.iter_mut().zip(&state.latency_ns) {
            *sum += latency * step;
        }
        self.time_ns += step;
        self.all_ns += step;
        if self.time_ns >= POINT_NS * 0.999 {
            let tiers = self.sum.latency_ns.len();
            let mut point = std::mem::replace(&mut self.sum, nothing(tiers));
            point.at_s = self.all_ns / 1e9;
            scale(&mut point, self.time_ns.recip());
            self.points.push(point);
            self.time_ns = 0.0;
        }
    }

    fn outcome(self, first_s: f64, last_s: f64) -> Outcome {
        let points = self.points;
        let tiers = self.sum.latency_ns.len();
        let mean = |part: &[Point]| {
            let mut sum = nothing(tiers);
            for point in part {
                sum.gbps += point.gbps;
                sum.default_share += point.default_share;
                sum.migration_gbps += point.migration_gbps;
                sum.latency_ns.iter_mut().zip(&point.latency_ns).for_each(|(sum, one)| *sum += one);
            }
            scale(&mut sum, (part.len().max(1) as f64).recip());
            sum
        };
        let end = mean(&points[points.len() - points.len().div_ceil(5)..]);
        let off = points.iter().rposition(|point| (point.gbps / end.gbps - 1.0).abs() > SETTLED);
        let convergence_s = off.map_or(0.0, |at| (points[at].at_s - last_s).max(0.0));
        let from = points.partition_point(|point| point.at_s <= first_s).min(points.len().saturating_sub(1));
        Outcome {
            gbps: end.gbps,
            default_share: end.default_share,
            convergence_s,
            migration_share: end.migration_gbps / end.gbps,
            gbps_from_change: mean(&points[from..]).gbps,
            migration_gbps_max: points.iter().map(|point| point.migration_gbps).fold(0.0, f64::max),
            latency_ns: end.latency_ns,
            timeline: points,
        }
    }
}

fn nothing(tiers: usize) -> Point {
    Point { at_s: 0.0, gbps: 0.0, default_share: 0.0, migration_gbps: 0.0, latency_ns: vec![0.0; tiers] }
}

fn scale(point: &mut Point, by: f64) {
    point.gbps *= by;
    point.default_share *= by;
    point.migration_gbps *= by;
    point.latency_ns.iter_mut().for_each(|latency| *latency *= by);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_result_and_another_seed_another() {
        let scenario = Scenario { seconds: 1.0, ..Scenario::gups(5.0) };
        let once = run(&scenario, "hemem+colloid").unwrap();
        assert_eq!(run(&scenario, "hemem+colloid").unwrap(), once);
        let other = run(&Scenario { seed: 2, ..scenario }, "hemem+colloid").unwrap();
        assert!((other.gbps - once.gbps).abs() > 0.0);
    }

    #[test]
    fn an_unknown_policy_is_none() {
        assert!(run(&Scenario::gups(0.0), "lru").is_none());
    }
}
