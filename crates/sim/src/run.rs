//! Runs a policy on the machine: pages, seeded samples, moves at the mover's speed.

use rand::{Rng, SeedableRng};
use rand_pcg::Pcg64Mcg;
use warmset_placement::tier::{
    Layout, PageSample, Quantum, Tier, TierCounters, TierPolicy, Tracking, policy,
};

use crate::machine::{Load, State, TierModel, solve};

const PAGE_BYTES: u64 = 2 << 20;
const PAGES_PER_GIB: f64 = 512.0;
const LINES_PER_PAGE: f64 = (PAGE_BYTES / 64) as f64;
/// What the mover copies at most, each way, in bytes per ns.
const MOVER_BYTES_PER_NS: f64 = 2.8;
/// Lines that an antagonist core keeps in flight in the default tier; fitted.
const ANTAGONIST_LINES: f64 = 19.2;
/// Small pages per page: the scan for hint faults sees a small one.
const SMALL_PAGES: f64 = 512.0;

/// What is run.
#[derive(Debug, Clone)]
pub struct Scenario {
    /// The tiers, the default one first.
    pub tiers: Vec<TierModel>,
    /// Application cores.
    pub cores: f64,
    /// All of the application's memory.
    pub memory_gib: f64,
    /// Its hot set.
    pub hot_gib: f64,
    /// The part of the accesses that goes to the hot set; the rest is uniform over all memory.
    pub hot_accesses: f64,
    /// Antagonist cores in the default tier.
    pub antagonists: f64,
    /// Antagonist cores from `change_s` on.
    pub antagonists_then: f64,
    /// The hot set moves to other pages at `change_s`.
    pub hot_moves: bool,
    /// When something changes.
    pub change_s: f64,
    /// How long it runs.
    pub seconds: f64,
    /// The seed of the samples and of the choice of hot pages.
    pub seed: u64,
}

impl Scenario {
    /// The published GUPS experiment.
    #[must_use]
    pub fn gups(antagonists: f64) -> Self {
        Self {
            tiers: vec![TierModel::published_default(), TierModel::published_alternate()],
            cores: 15.0,
            memory_gib: 72.0,
            hot_gib: 24.0,
            hot_accesses: 0.9,
            antagonists,
            antagonists_then: antagonists,
            hot_moves: false,
            change_s: 0.0,
            seconds: 40.0,
            seed: 1,
        }
    }
}

/// What came of a run.
#[derive(Debug, Clone, PartialEq)]
pub struct Outcome {
    /// Mean throughput over the last fifth of the run, GB/s read and written.
    pub gbps: f64,
    /// Latencies at the end.
    pub latency_ns: Vec<f64>,
    /// The part of the application's accesses served by the default tier at the end.
    pub default_share: f64,
    /// Seconds from the change until throughput stays within 5 % of its last figure.
    pub convergence_s: f64,
    /// Bytes copied in the last fifth of the run, as a part of the traffic in it.
    pub migration_share: f64,
    /// Mean throughput from the change on.
    pub gbps_from_change: f64,
}

struct Pages {
    hot: Vec<u32>,
    others: Vec<u32>,
    is_hot: Vec<bool>,
    residency: Vec<Tier>,
}

impl Pages {
    fn new(scenario: &Scenario, rng: &mut Pcg64Mcg) -> Self {
        let count = (scenario.memory_gib * PAGES_PER_GIB) as u32;
        let mut all: Vec<u32> = (0..count).collect();
        for at in (1..all.len()).rev() {
            all.swap(at, rng.random_range(0..=at));
        }
        let others = all.split_off((scenario.hot_gib * PAGES_PER_GIB) as usize);
        let mut residency = Vec::new();
        for (tier, model) in (0..).zip(&scenario.tiers) {
            let most = residency.len() + (model.capacity_gib * PAGES_PER_GIB) as usize;
            residency.resize(most.min(count as usize), tier);
        }
        let mut pages = Self { hot: all, others, is_hot: vec![false; count as usize], residency };
        pages.mark();
        pages
    }

    fn mark(&mut self) {
        self.is_hot.fill(false);
        self.hot.iter().for_each(|page| self.is_hot[*page as usize] = true);
    }

    /// Other pages become hot.
    fn move_hot(&mut self) {
        let count = self.hot.len().min(self.others.len());
        self.hot[..count].swap_with_slice(&mut self.others[..count]);
        self.mark();
    }

    fn shares(&self, scenario: &Scenario) -> Vec<f64> {
        let mut shares = vec![0.0; scenario.tiers.len()];
        for (page, tier) in self.residency.iter().enumerate() {
            shares[usize::from(*tier)] += self.weight(page, scenario);
        }
        shares
    }

    /// A page's part of all accesses.
    fn weight(&self, page: usize, scenario: &Scenario) -> f64 {
        let hot = if self.is_hot[page] { scenario.hot_accesses / self.hot.len() as f64 } else { 0.0 };
        hot + (1.0 - scenario.hot_accesses) / self.residency.len() as f64
    }
}

fn samples(
    pages: &Pages,
    scenario: &Scenario,
    tracking: Tracking,
    lines: f64,
    elapsed_ns: f64,
    cursor: &mut f64,
    rng: &mut Pcg64Mcg,
) -> Vec<PageSample> {
    let all = pages.residency.len();
    let sample = |page: u32, weight: f64| PageSample { page, tier: pages.residency[page as usize], weight };
    match tracking {
        Tracking::Samples { period } => {
            let wanted = lines * elapsed_ns / period as f64;
            // The sum of many Poisson counts is close to a normal one.
            let noise: f64 = (0..12).map(|_| rng.random::<f64>()).sum::<f64>() - 6.0;
            let count = noise.mul_add(wanted.sqrt(), wanted).max(0.0) as u64;
            (0..count)
                .map(|_| {
                    let hot = rng.random::<f64>() < scenario.hot_accesses;
                    let from_hot = hot && !pages.hot.is_empty();
                    let at = rng.random_range(0..if from_hot { pages.hot.len() } else { all });
                    sample(if from_hot { pages.hot[at] } else { at as u32 }, 1.0)
                })
                .collect()
        }
        Tracking::HintFaults { scan_bytes_per_s } => {
            let from = *cursor;
            *cursor += scan_bytes_per_s as f64 * elapsed_ns / 1e9 / PAGE_BYTES as f64;
            (from as u64..*cursor as u64)
                .map(|at| {
                    let page = (at % all as u64) as usize;
                    let rate = lines * pages.weight(page, scenario) / SMALL_PAGES;
                    sample(page as u32, -(1.0 - rng.random::<f64>()).ln() / rate)
                })
                .collect()
        }
    }
}

/// Runs a policy by name; `None` if there is none of that name.
#[must_use]
pub fn run(scenario: &Scenario, name: &str) -> Option<Outcome> {
    let capacity_pages =
        scenario.tiers.iter().map(|tier| (tier.capacity_gib * PAGES_PER_GIB) as u64).collect();
    let mut subject = policy(name, &Layout { capacity_pages, page_bytes: PAGE_BYTES })?;
    Some(drive(scenario, subject.as_mut()))
}

fn drive(scenario: &Scenario, subject: &mut dyn TierPolicy) -> Outcome {
    let mut rng = Pcg64Mcg::seed_from_u64(scenario.seed);
    let mut pages = Pages::new(scenario, &mut rng);
    let step_ns = subject.quantum_ns();
    let step = step_ns as f64;
    let steps = (scenario.seconds * 1e9 / step) as u64;
    let change = (scenario.change_s * 1e9 / step) as u64;
    let mut migration = vec![0.0; scenario.tiers.len()];
    let mut state = State { lines_per_ns: 0.0, in_flight: vec![], latency_ns: vec![], rate_per_ns: vec![] };
    let mut history: Vec<(f64, f64)> = Vec::new();
    let mut shares = pages.shares(scenario);
    let mut cursor = 0.0;
    for at in 0..steps {
        if at == change && scenario.hot_moves {
            pages.move_hot();
            shares = pages.shares(scenario);
        }
        let cores = if at >= change { scenario.antagonists_then } else { scenario.antagonists };
        let mut antagonist_lines = vec![0.0; scenario.tiers.len()];
        antagonist_lines[0] = ANTAGONIST_LINES * cores;
        let load = Load {
            cores: scenario.cores,
            shares: &shares,
            antagonist_lines: &antagonist_lines,
            migration_per_ns: &migration,
        };
        state = solve(&scenario.tiers, &load, &state.in_flight);
        let seen =
            samples(&pages, scenario, subject.tracking(), state.lines_per_ns, step, &mut cursor, &mut rng);
        let counters: Vec<TierCounters> = (state.rate_per_ns.iter().zip(&state.latency_ns))
            .map(|(rate, latency)| TierCounters { rate_per_ns: *rate, latency_ns: Some(*latency) })
            .collect();
        let period = if let Tracking::Samples { period } = subject.tracking() { period as f64 } else { 0.0 };
        let moves = subject.decide(&Quantum {
            now_ns: at * step_ns,
            elapsed_ns: step_ns,
            tiers: &counters,
            samples: &seen,
            accesses_per_weight: period,
            residency: &pages.residency,
            move_bytes_max: (MOVER_BYTES_PER_NS * step) as u64,
        });
        migration.fill(0.0);
        for done in &moves {
            pages.residency[done.page as usize] = done.to;
            let weight = pages.weight(done.page as usize, scenario);
            shares[usize::from(done.from)] -= weight;
            shares[usize::from(done.to)] += weight;
            migration[usize::from(done.from)] += LINES_PER_PAGE / step;
            migration[usize::from(done.to)] += LINES_PER_PAGE / step;
        }
        shares.iter_mut().for_each(|share| *share = share.clamp(0.0, 1.0));
        history.push((128.0 * state.lines_per_ns, moves.len() as f64 * LINES_PER_PAGE * 128.0 / step));
    }
    outcome(&history, change as usize, step, state, shares[0])
}

fn outcome(history: &[(f64, f64)], change: usize, step: f64, state: State, default_share: f64) -> Outcome {
    let mean = |part: &[(f64, f64)]| part.iter().map(|at| at.0).sum::<f64>() / part.len().max(1) as f64;
    let end = &history[history.len() - history.len() / 5..];
    let gbps = mean(end);
    let off = history.iter().rposition(|at| (at.0 / gbps - 1.0).abs() > 0.05);
    let convergence_s = off.map_or(0.0, |at| (at + 1).saturating_sub(change) as f64 * step / 1e9);
    Outcome {
        gbps,
        latency_ns: state.latency_ns,
        default_share,
        convergence_s,
        migration_share: end.iter().map(|at| at.1).sum::<f64>() / end.iter().map(|at| at.0).sum::<f64>(),
        gbps_from_change: mean(&history[change.min(history.len())..]),
    }
}

/// The throughput of the best static split of the hot set over two tiers, in GB/s, by search.
#[must_use]
pub fn best_static(scenario: &Scenario) -> f64 {
    let most = (scenario.tiers[0].capacity_gib / scenario.memory_gib).min(1.0);
    let top = (1.0 - scenario.hot_accesses).mul_add(most, scenario.hot_accesses);
    (0..=200)
        .map(|at| {
            let share = top * f64::from(at) / 200.0;
            let load = Load {
                cores: scenario.cores,
                shares: &[share, 1.0 - share],
                antagonist_lines: &[ANTAGONIST_LINES * scenario.antagonists_then, 0.0],
                migration_per_ns: &[0.0, 0.0],
            };
            128.0 * solve(&scenario.tiers, &load, &[]).lines_per_ns
        })
        .fold(0.0, f64::max)
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
