//! The tier policies on random machines: no tier is ever over its capacity, and same inputs give same moves.

use proptest::prelude::*;
use warmset_placement::tier::{Layout, POLICIES, PageSample, Quantum, Tier, TierCounters, policy};

const PAGE_BYTES: u64 = 2 << 20;

#[derive(Debug, Clone)]
struct Step {
    latencies: Vec<Option<f64>>,
    samples: Vec<(u32, f64)>,
    move_pages: u64,
}

fn steps(pages: u32) -> impl Strategy<Value = Vec<Step>> {
    let latency = prop_oneof![Just(None), Just(Some(f64::NAN)), (0.0..500.0).prop_map(Some)];
    // Page numbers beyond the last page are passed over.
    let samples = prop::collection::vec((0..pages + 2, 0.0..30.0), 0..200);
    let step = (prop::collection::vec(latency, 6), samples, 0_u64..40)
        .prop_map(|(latencies, samples, move_pages)| Step { latencies, samples, move_pages });
    prop::collection::vec(step, 1..12)
}

/// Runs a policy; gives all its moves, or says which rule it broke.
fn run(name: &str, capacity: &[u64], mut residency: Vec<Tier>, steps: &[Step]) -> Result<usize, String> {
    let layout = Layout { tiers: capacity.len(), page_bytes: PAGE_BYTES };
    let mut subject = policy(name, &layout).ok_or("unknown")?;
    let mut twin = policy(name, &layout).ok_or("unknown")?;
    let mut used = vec![0_u64; capacity.len()];
    residency.iter().for_each(|tier| used[usize::from(*tier)] += 1);
    let mut count = 0;
    for (at, step) in (1_u64..).zip(steps) {
        let tiers: Vec<TierCounters> = (step.latencies.iter().take(capacity.len()))
            .map(|latency| TierCounters { rate_per_ns: 0.3, latency_ns: *latency })
            .collect();
        let samples: Vec<PageSample> = (step.samples.iter())
            .map(|&(page, weight)| {
                let tier = residency.get(page as usize).copied().unwrap_or(0);
                PageSample { page, tier, weight }
            })
            .collect();
        let quantum = Quantum {
            now_ns: at * subject.quantum_ns(),
            elapsed_ns: subject.quantum_ns(),
            tiers: &tiers,
            samples: &samples,
            accesses_per_weight: 5003.0,
            capacity_pages: capacity,
            residency: &residency,
            move_bytes_max: step.move_pages * PAGE_BYTES,
        };
        let moves = subject.decide(&quantum);
        if moves != twin.decide(&quantum) {
            return Err(format!("{name}: two policies with the same inputs differ"));
        }
        let mut into = vec![0_u64; capacity.len()];
        for step_move in moves {
            if residency[step_move.page as usize] != step_move.from {
                return Err(format!("{name}: {step_move:?}, but the page is elsewhere"));
            }
            residency[step_move.page as usize] = step_move.to;
            used[usize::from(step_move.from)] -= 1;
            used[usize::from(step_move.to)] += 1;
            into[usize::from(step_move.to)] += 1;
            count += 1;
            if used.iter().zip(capacity).any(|(used, most)| used > most) {
                return Err(format!("{name}: over capacity after {step_move:?}: {used:?} of {capacity:?}"));
            }
        }
        if into.iter().any(|pages| *pages > step.move_pages) {
            return Err(format!("{name}: more than the mover can copy: {into:?}"));
        }
    }
    Ok(count)
}

proptest! {
    #[test]
    fn no_policy_goes_over_a_capacity_or_the_movers_limit(steps in steps(60), fast in 1_u64..60, spare in 0_u64..20) {
        let capacity = [fast, 60 - fast + spare];
        let residency: Vec<Tier> = (0..60).map(|page| Tier::from(page >= fast)).collect();
        for name in POLICIES {
            let done = run(name, &capacity, residency.clone(), &steps);
            prop_assert!(done.is_ok(), "{done:?}");
        }
    }

    #[test]
    fn no_policy_goes_over_a_capacity_of_many_tiers(
        steps in steps(60),
        capacity in prop::collection::vec(1_u64..30, 1..6),
        full in any::<bool>(),
    ) {
        let mut capacity = capacity;
        // The last tier has room for all pages, or for just those that the others do not hold.
        let others: u64 = capacity.iter().sum();
        capacity.push(if full { 60_u64.saturating_sub(others).max(1) } else { 60 });
        let mut residency = Vec::new();
        for (tier, pages) in (0..).zip(&capacity) {
            residency.resize((residency.len() + *pages as usize).min(60), tier);
        }
        for name in POLICIES {
            let done = run(name, &capacity, residency.clone(), &steps);
            prop_assert!(done.is_ok(), "{done:?}");
        }
    }
}

#[test]
fn every_policy_moves_something_when_there_is_a_reason() {
    // Eight pages of forty are hot, in the slow tier, and the default tier is faster.
    let residency: Vec<Tier> = (0..40).map(|page| Tier::from(page >= 20)).collect();
    for name in POLICIES {
        // A count of samples, or for TPP a delay of a millisecond.
        let weight = if name.starts_with("tpp") { 1e6 } else { 9.0 };
        let hot: Vec<(u32, f64)> = (30..38).map(|page| (page, weight)).collect();
        let step = Step { latencies: vec![Some(100.0), Some(200.0)], samples: hot, move_pages: 8 };
        let moved = run(name, &[20, 40], residency.clone(), &vec![step.clone(); 20]).unwrap();
        assert!(moved > 0, "{name} moved nothing");
    }
}

#[test]
fn an_unknown_policy_is_none() {
    let layout = Layout { tiers: 1, page_bytes: PAGE_BYTES };
    assert!(policy("lru", &layout).is_none());
}
