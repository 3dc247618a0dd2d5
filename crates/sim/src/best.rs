//! The best static placement, by search.

use crate::machine::{Load, solve};
use crate::pages::{pages, weights};
use crate::run::{LINE_BYTES, lines};
use crate::scenario::Scenario;

const STEPS: usize = 60;

/// Throughput in GB/s of the best static placement of the end's load, and the share that the first tier serves.
///
/// Hot pages are split over the tiers in all ways of a grid; the coldest pages fill what is left of the faster tiers
/// in order, as a run that started there leaves them.
#[must_use]
pub fn best_static(scenario: &Scenario) -> (f64, f64) {
    let mut contention = scenario.contention.clone();
    let mut cores = scenario.cores;
    for (_, event) in scenario.changes() {
        contention = event.contention.clone().unwrap_or(contention);
        cores = event.cores.unwrap_or(cores);
    }
    let antagonists = lines(&contention, scenario);
    let count = pages(scenario.memory_gib);
    let weights = weights(&scenario.access, count);
    let mut sums = vec![0.0];
    for weight in &weights {
        sums.push(sums[sums.len() - 1] + weight);
    }
    let capacity: Vec<usize> = scenario.tiers.iter().map(|tier| pages(tier.capacity_gib)).collect();
    let none = vec![0.0; capacity.len()];
    let mut best = (0.0, 0.0);
    each_split(capacity.len(), &mut vec![0; capacity.len()], 0, STEPS, &mut |split| {
        let Some(shares) = shares(split, &capacity, &sums) else { return };
        let load = Load {
            cores,
            window_scale: scenario.window_scale,
            think_ns: scenario.think_ns,
            shares: &shares,
            antagonist_lines: &antagonists,
            migration_per_ns: &none,
        };
        let gbps = LINE_BYTES * solve(&scenario.tiers, &load, &[]).lines_per_ns;
        if gbps > best.0 {
            best = (gbps, shares[0]);
        }
    });
    best
}

fn each_split(tiers: usize, split: &mut Vec<usize>, at: usize, left: usize, each: &mut impl FnMut(&[usize])) {
    if at + 1 == tiers {
        split[at] = left;
        each(split);
        return;
    }
    // A coarser grid where there are many tiers.
    let stride = if tiers > 2 { STEPS / 20 } else { 1 };
    for part in (0..=left).step_by(stride) {
        split[at] = part;
        each_split(tiers, split, at + 1, left - part, each);
    }
}

/// Each tier's share if it gets `split` of the hottest pages that fit the first tiers together; `None` if they do
/// not fit. What the split leaves of each tier is filled with the coldest pages.
fn shares(split: &[usize], capacity: &[usize], sums: &[f64]) -> Option<Vec<f64>> {
    let count = sums.len() - 1;
    let hot = capacity[0].min(count);
    let heat = sums[hot];
    let parts: Vec<usize> = split.iter().map(|part| part * hot / STEPS).collect();
    if parts.iter().zip(capacity).any(|(part, capacity)| part > capacity) {
        return None;
    }
    let mut shares: Vec<f64> = split.iter().map(|part| heat * *part as f64 / STEPS as f64).collect();
    // The rest, warmest last, so that faster tiers get the coldest pages when they are not wanted for hot ones.
    let mut from = count;
    for (at, part) in parts.iter().enumerate() {
        let room = (capacity[at] - part).min(from - hot);
        shares[at] += sums[from] - sums[from - room];
        from -= room;
    }
    Some(shares)
}
