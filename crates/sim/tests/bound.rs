//! How fast any policy could converge on the machine: one that knows every page's heat and the best split, and moves at
//! the mover's full speed from the first instant. The page on Colloid compares `warm` with it.

use warmset_sim::{Load, State, TierModel, solve};

const PAGE_BYTES: f64 = (2_u64 << 20) as f64;
const MOVER_BYTES_PER_NS: f64 = 2.8;
/// The heat of a page of GUPS' hot set.
const HOT: f64 = 0.9 / 12288.0 + 0.1 / 36864.0;
const STEP_NS: f64 = 1e7;

fn gbps(share: f64, antagonists: f64, copied_per_ns: f64, guess: &State) -> (f64, State) {
    let tiers = [TierModel::published_default(), TierModel::published_alternate()];
    let load = Load {
        cores: 15.0,
        window_scale: 1.0,
        think_ns: 0.0,
        shares: &[share, 1.0 - share],
        antagonist_lines: &[19.2 * antagonists, 0.0],
        migration_per_ns: &[copied_per_ns / 64.0; 2],
    };
    let state = solve(&tiers, &load, &guess.in_flight);
    (128.0 * state.lines_per_ns, state)
}

/// Seconds until half-second means stay within 2 % of the last one, from one share of the default tier to another.
fn settles(from: f64, to: f64, antagonists: f64) -> f64 {
    let (mut share, mut state) = (from, State::default());
    let mut points = Vec::new();
    for _ in 0..80 {
        let mut sum = 0.0;
        for _ in 0..50 {
            let step = (MOVER_BYTES_PER_NS * STEP_NS / PAGE_BYTES * HOT).min((to - share).abs());
            share += step.copysign(to - share);
            let copied = if step > 0.0 { MOVER_BYTES_PER_NS } else { 0.0 };
            let (now, next) = gbps(share, antagonists, copied, &state);
            (sum, state) = (sum + now, next);
        }
        points.push(sum / 50.0);
    }
    let end = points[points.len() - 1];
    points.iter().rposition(|point| (point / end - 1.0).abs() > 0.02).map_or(0.0, |at| (at + 1) as f64 * 0.5)
}

#[test]
fn no_policy_settles_twice_as_fast_as_hemem_with_colloid() {
    // Contention from none to 3x: hot pages leave the default tier, whether it held all of them or its best share.
    assert!((settles(0.944, 0.003, 15.0) - 9.0).abs() < 0.1);
    assert!((settles(0.74, 0.003, 15.0) - 7.0).abs() < 0.1);
    // The hot set moved without contention: from what chance left there to the best share.
    assert!((settles(0.226, 0.75, 0.0) - 5.0).abs() < 0.6);
}
