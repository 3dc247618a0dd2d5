//! The split against ticks of real runs: scans of a cached frame and shuffles in turn, in one JVM per collector. The
//! files have what was read (`MemorySplit` logs it at DEBUG); noise is added here, and what is decided is not fed back.

use proptest::prelude::*;
use warmset_placement::{Split, SplitDecision, SplitLimits, SplitTick};

const MIB: u64 = 1 << 20;
const FRAME: u64 = 2 * MIB;
const POOL_MIN: u64 = 16 * MIB;
const HEAP_MAX: u64 = 900 * MIB;

const G1: &str = include_str!("traces/g1.csv");
const PARALLEL: &str = include_str!("traces/parallel.csv");

fn ticks(csv: &str) -> Vec<SplitTick> {
    let rows = csv.lines().skip(1);
    rows.map(|line| {
        let numbers: Vec<u64> = line.split(',').map(|number| number.parse().expect("a number")).collect();
        let n: [u64; 11] = numbers.try_into().expect("eleven columns");
        SplitTick {
            look_ns: if n[0] > 0 { 100_000_000 } else { 10_000_000 },
            elapsed_ns: n[0],
            total_bytes: n[1],
            heap_committed_bytes: n[2],
            heap_live_bytes: n[3],
            collect_ns: n[4],
            asked_ns: n[5],
            threads: n[6],
            pool_bytes: n[7],
            cached_bytes: n[7] + n[8],
            absent_bytes: n[8],
            wait_ns: n[9],
            passes: n[10] as f64 / 1e6,
            writes_fail: false,
        }
    })
    .collect()
}

/// Between 1/most and most.
fn factor(random: &mut u64, most: f64) -> f64 {
    *random ^= *random << 13;
    *random ^= *random >> 7;
    *random ^= *random << 17;
    let unit = (*random >> 11) as f64 / (1u64 << 53) as f64;
    most.powf(2.0 * unit - 1.0)
}

fn shaken(tick: &SplitTick, random: &mut u64, most: f64) -> SplitTick {
    let mut shake = |number: u64| (number as f64 * factor(random, most)) as u64;
    let (collect_ns, wait_ns, asked_ns) = (shake(tick.collect_ns), shake(tick.wait_ns), shake(tick.asked_ns));
    SplitTick {
        collect_ns,
        wait_ns,
        asked_ns,
        passes: tick.passes * factor(random, most),
        heap_live_bytes: (tick.heap_live_bytes as f64 * factor(random, most.powf(0.1))) as u64,
        ..*tick
    }
}

fn new_split() -> Split {
    Split::new(SplitLimits {
        heap_min_bytes: 8 * MIB,
        heap_max_bytes: HEAP_MAX,
        pool_min_bytes: POOL_MIN,
        pool_start_bytes: 658 * MIB,
    })
}

fn check(tick: &SplitTick, decision: &SplitDecision) {
    let budget = decision.pool_budget_bytes;
    assert!(
        budget == POOL_MIN || budget + tick.heap_committed_bytes <= tick.total_bytes,
        "a pool of {} MiB beside a heap of {}",
        budget / MIB,
        tick.heap_committed_bytes / MIB
    );
    let live = tick.heap_live_bytes;
    let most = tick.total_bytes.saturating_sub(POOL_MIN + FRAME).min(HEAP_MAX);
    let needs = (live + (live / 4).max(32 * MIB)).min(most);
    assert!(decision.heap_allowed_bytes >= needs, "{} of {needs}", decision.heap_allowed_bytes);
    assert!(decision.collect_to_bytes.is_none_or(|to| to >= 8 * MIB));
}

/// Replays a trace so many times with noise; gives the last decision and the collections that were asked for.
fn replay(csv: &str, times: usize, seed: u64, noise: f64) -> (SplitDecision, usize, u64) {
    let (mut split, mut random) = (new_split(), seed);
    let (mut last, mut asks, mut rated) = (SplitDecision::default(), 0, 0);
    for _ in 0..times {
        for tick in ticks(csv) {
            let tick = shaken(&tick, &mut random, noise);
            last = split.tick(&tick);
            check(&tick, &last);
            asks += usize::from(last.collect_to_bytes.is_some());
            rated += u64::from(tick.elapsed_ns > 0);
        }
    }
    (last, asks, rated)
}

#[test]
fn traces_are_of_runs_that_scanned_and_shuffled() {
    for csv in [G1, PARALLEL] {
        let ticks = ticks(csv);
        assert!(ticks.iter().filter(|tick| tick.elapsed_ns > 0).count() >= 30);
        assert!(ticks.iter().any(|tick| tick.wait_ns > 0) && ticks.iter().any(|tick| tick.collect_ns > 0));
        let committed = || ticks.iter().map(|tick| tick.heap_committed_bytes);
        assert!(committed().max().unwrap() > committed().min().unwrap() + 300 * MIB);
        // A heap that grows beyond the guard at one collection is seen before the pool has yielded, never after.
        let over = |tick: &SplitTick| tick.heap_committed_bytes + tick.pool_bytes > tick.total_bytes;
        assert!(ticks.windows(2).all(|two| !over(&two[0]) || !over(&two[1])), "the pool did not yield");
    }
}

proptest! {
    /// Five phases have four changes; a turn more for each is noise that got through.
    #[test]
    fn recorded_phases_with_noise_turn_the_split_a_few_times(seed in 1u64.., noise in 1.0f64..3.0) {
        for csv in [G1, PARALLEL] {
            let (last, asks, rated) = replay(csv, 1, seed, noise);
            prop_assert!(last.turns <= 8, "{} turns in {rated} ticks", last.turns);
            prop_assert!(asks as u64 <= rated / 5, "{asks} asks in {rated} ticks");
        }
    }

    /// One second of a run over and over is a job without phases.
    #[test]
    fn a_recorded_second_with_noise_does_not_turn_the_split(seed in 1u64.., at in 5usize..30, noise in 1.0f64..2.0) {
        for csv in [G1, PARALLEL] {
            let tick = ticks(csv).into_iter().filter(|tick| tick.elapsed_ns > 0).nth(at).expect("so many");
            let (mut split, mut random, mut last) = (new_split(), seed, SplitDecision::default());
            for _ in 0..1000 {
                let tick = shaken(&SplitTick { asked_ns: 0, ..tick }, &mut random, noise);
                last = split.tick(&tick);
                check(&tick, &last);
            }
            prop_assert!(last.turns <= 4, "{} turns", last.turns);
        }
    }
}
