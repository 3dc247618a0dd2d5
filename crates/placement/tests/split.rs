//! The split against the machines of `machine`.

mod machine;

use machine::{BOTH, FRAME, LOOK, MIB, Machine, Phase, SCAN, SECOND, SHUFFLE, TOTAL};
use proptest::prelude::*;
use warmset_placement::{Split, SplitLimits, SplitTick};

#[test]
fn scans_get_the_memory_that_the_heap_does_not_need() {
    let mut machine = Machine::new(TOTAL, 2000 * MIB, 1600 * MIB);
    machine.run(SCAN, 120);
    assert!(machine.pool > 2800 * MIB, "the pool has {} MiB", machine.pool / MIB);
    assert_eq!(machine.decision.turns, 0);
}

#[test]
fn a_shuffle_gets_its_heap() {
    let mut machine = Machine::new(TOTAL, 600 * MIB, 3000 * MIB);
    machine.run(SHUFFLE, 120);
    assert!(machine.committed > 2500 * MIB, "the heap has {} MiB", machine.committed / MIB);
    assert_eq!(machine.asks, 0, "a heap that wants more is not made to collect");
}

#[test]
fn the_split_settles_near_the_best_from_either_side() {
    for (committed, pool) in [(700 * MIB, 3300 * MIB), (3300 * MIB, 600 * MIB)] {
        let mut machine = Machine::new(TOTAL, committed, pool);
        machine.noise = 1.5;
        machine.run(BOTH, 200);
        let (cost, best) = (machine.cost(BOTH), machine.best(BOTH));
        assert!(cost < best * 1.2, "{cost} where {best} is possible");
        let settled = machine.decision.moves;
        machine.run(BOTH, 500);
        assert!(machine.decision.moves - settled < 12, "{} moves later", machine.decision.moves - settled);
        assert!(machine.decision.turns <= 4);
    }
}

#[test]
fn a_new_phase_is_answered_within_ten_ticks() {
    let mut machine = Machine::new(TOTAL, 2000 * MIB, 1600 * MIB);
    machine.noise = 1.5;
    for _ in 0..4 {
        machine.run(SCAN, 100);
        let scanning = machine.decision.heap_allowed_bytes;
        machine.run(SHUFFLE, 10);
        assert!(machine.decision.heap_allowed_bytes > scanning, "the heap was not given more in 10 ticks");
        machine.run(SHUFFLE, 90);
        let pool = machine.decision.pool_budget_bytes;
        machine.run(SCAN, 20);
        assert!(machine.decision.pool_budget_bytes > pool, "the pool was not given more in 20 ticks");
    }
}

#[test]
fn a_heap_that_grows_by_itself_makes_the_pool_yield_at_once() {
    let mut machine = Machine::new(TOTAL, 600 * MIB, 3000 * MIB);
    machine.run(SCAN, 60);
    let before = machine.decision.pool_budget_bytes;
    let look = SplitTick { heap_committed_bytes: machine.committed + 1500 * MIB, ..machine.looked(SCAN) };
    let after = machine.split.tick(&look);
    assert!(
        after.pool_budget_bytes <= TOTAL - look.heap_committed_bytes - 1500 * MIB,
        "room for such a rise again"
    );
    assert!(after.pool_budget_bytes < before && after.moves == machine.decision.moves);
}

#[test]
fn what_the_heap_has_not_taken_is_lent_only_to_a_pool_that_can_give_it_back() {
    let mut machine = Machine::new(TOTAL, 1600 * MIB, 1200 * MIB);
    let look = SplitTick { heap_committed_bytes: 400 * MIB, ..machine.looked(SCAN) };
    let lent = (0..100).map(|_| machine.split.tick(&look)).last().expect("a hundred");
    assert!(lent.pool_budget_bytes > TOTAL - lent.heap_allowed_bytes + 500 * MIB, "nothing was lent");
    let held = machine.split.tick(&SplitTick { writes_fail: true, ..look });
    assert!(held.pool_budget_bytes <= TOTAL - held.heap_allowed_bytes, "still lent: {held:?}");
}

#[test]
fn what_a_heap_takes_back_after_a_long_collection_is_not_feared() {
    let mut machine = Machine::new(TOTAL, 2500 * MIB, 1200 * MIB);
    let phase = Phase { live: 250 * MIB, ..SCAN };
    (0..60).find(|_| {
        machine.step(phase);
        machine.asks > 0
    });
    assert!(machine.asks > 0, "nothing was asked for");
    let shrunk = machine.committed;
    // The collection took four seconds, in which nobody looked.
    machine.split.tick(&SplitTick { look_ns: 4 * SECOND, ..machine.looked(phase) });
    let grown = shrunk + 500 * MIB;
    let look = SplitTick { heap_committed_bytes: grown, ..machine.looked(phase) };
    let after = (0..10).map(|_| machine.split.tick(&look)).last().expect("ten");
    assert!(after.pool_budget_bytes + grown > TOTAL - 250 * MIB, "held back: {after:?}");
}

#[test]
fn a_heap_that_gives_nothing_back_is_asked_less_and_less() {
    let mut machine = Machine::new(TOTAL, 2500 * MIB, 1200 * MIB);
    machine.shrinks = false;
    machine.run(Phase { live: 250 * MIB, ..SCAN }, 1000);
    assert!((1..=16).contains(&machine.asks), "asked {} times", machine.asks);
    assert!(machine.pool + machine.committed <= TOTAL);
}

#[test]
fn a_heap_that_takes_back_what_it_gave_is_asked_less_and_less() {
    for rebounds_after in [1, 2, 4, 7] {
        let mut machine = Machine::new(TOTAL, 2500 * MIB, 1200 * MIB);
        machine.rebounds_after = Some(rebounds_after);
        machine.run(Phase { live: 250 * MIB, ..SCAN }, 60);
        let early = machine.asks;
        machine.run(Phase { live: 250 * MIB, ..SCAN }, 540);
        let late = machine.asks - early;
        assert!(early >= 1);
        if rebounds_after < 5 {
            assert!(machine.asks <= 9, "asked {} times, back after {rebounds_after}", machine.asks);
            assert!(!machine.decision.is_stiff, "it did give, for a moment");
        } else {
            // What it gives for longer is worth asking for, as long as a collection costs a twentieth at most.
            assert!(late <= 540 / 5, "asked {late} times");
        }
    }
}

#[test]
fn what_is_given_for_a_moment_is_not_worth_a_long_collection() {
    // A collection of 125 ms that is worth a few percent of the time, for a minute or for six seconds.
    let phase = Phase { live: 250 * MIB, wait: 0.000_02, ..SCAN };
    let asks = |rebounds_after| {
        let mut machine = Machine::new(TOTAL, 2500 * MIB, 1200 * MIB);
        machine.rebounds_after = rebounds_after;
        machine.run(phase, 600);
        machine.asks
    };
    assert!((1..=5).contains(&asks(None)), "asked {} times of a heap that stays small", asks(None));
    assert!((1..=5).contains(&asks(Some(6))), "asked {} times of one that does not", asks(Some(6)));
}

#[test]
fn a_heap_that_never_gives_is_called_stiff_and_its_split_stays() {
    let mut machine = Machine::new(TOTAL, 2500 * MIB, 1200 * MIB);
    machine.shrinks = false;
    machine.run(SCAN, 120);
    assert!(machine.decision.is_stiff, "asked {} times", machine.asks);
    let (moves, asks) = (machine.decision.moves, machine.asks);
    machine.run(SCAN, 500);
    assert_eq!((machine.decision.moves, machine.asks), (moves, asks));
    // It was seen to give by itself: the split works again.
    machine.committed = 900 * MIB;
    machine.shrinks = true;
    machine.run(SCAN, 60);
    assert!(!machine.decision.is_stiff && machine.pool > 2800 * MIB, "{} MiB", machine.pool / MIB);
}

#[test]
fn what_the_heap_may_have_and_has_not_is_lent_while_bytes_are_absent() {
    let mut machine = Machine::new(TOTAL, 400 * MIB, 1000 * MIB);
    (0..5).for_each(|_| machine.look(SCAN));
    let lent = machine.decision.pool_budget_bytes;
    assert!(lent > TOTAL - (400 + 64 + 8) * MIB, "the pool has {} MiB", lent / MIB);
    assert_eq!(machine.decision.heap_allowed_bytes, TOTAL - 1000 * MIB, "the heap can take it back");
    assert_eq!(machine.decision.moves, 0);
    // All that is cached is in memory now: it is not taken away for that.
    let fits = Phase { cached: 3000 * MIB, ..SCAN };
    machine.pool = fits.cached;
    (0..20).for_each(|_| machine.look(fits));
    assert_eq!(machine.decision.pool_budget_bytes, lent);
    // The heap takes it back at one look.
    machine.take(2000 * MIB, fits);
    assert!(machine.decision.pool_budget_bytes <= TOTAL - 2000 * MIB);
}

#[test]
fn nothing_is_lent_where_nothing_is_absent() {
    let mut machine = Machine::new(TOTAL, 400 * MIB, 1000 * MIB);
    (0..20).for_each(|_| machine.look(Phase { cached: 0, ..SCAN }));
    assert_eq!(machine.decision.pool_budget_bytes, 1000 * MIB);
}

#[test]
fn a_heap_that_was_given_memory_has_time_to_take_it() {
    let mut machine = Machine::new(TOTAL, 600 * MIB, 3000 * MIB);
    let short = Phase { wait: 0.000_001, ..SHUFFLE };
    // It does not commit what it is allowed, but what it is made to take.
    while machine.decision.heap_grow_to_bytes.is_none() {
        machine.step(short);
    }
    let (goal, budget) = (machine.decision.heap_allowed_bytes, machine.decision.pool_budget_bytes);
    assert!(goal > machine.committed + TOTAL / 64, "{} beside {}", goal / MIB, machine.committed / MIB);
    (0..5).for_each(|_| machine.look(short));
    assert!(machine.decision.pool_budget_bytes <= TOTAL - goal, "lent again before the heap could take it");
    assert!(machine.decision.pool_budget_bytes <= budget);
    // A pool that has not yielded yet: the heap is made to grow beside it.
    let held = SplitTick { pool_bytes: TOTAL - machine.committed - 40 * MIB, ..machine.looked(short) };
    let to = machine.split.tick(&held).heap_grow_to_bytes.expect("there is room");
    assert!(to + held.pool_bytes <= TOTAL, "to {} MiB", to / MIB);
}

#[test]
fn what_the_heap_did_without_for_a_moment_is_not_taken() {
    for looks in 5..9 {
        let mut machine = Machine::new(TOTAL, 1000 * MIB, 1000 * MIB);
        (0..looks).for_each(|_| machine.look(SCAN));
        let before = machine.decision.pool_budget_bytes;
        machine.committed = 400 * MIB;
        machine.look(SCAN);
        assert_eq!(machine.decision.pool_budget_bytes, before, "after {looks} looks");
        (0..5).for_each(|_| machine.look(SCAN));
        assert!(machine.decision.pool_budget_bytes > before);
    }
}

/// What the pool leaves to a heap of 1000 MiB that grew by 300 MiB so long ago.
fn guard_after(seconds: u64, cached: u64) -> u64 {
    let phase = Phase { cached, ..SCAN };
    let mut machine = Machine::new(TOTAL, 700 * MIB, 1000 * MIB);
    (0..5).for_each(|_| machine.look(phase));
    machine.take(1000 * MIB, phase);
    (0..seconds * SECOND / LOOK).for_each(|_| machine.look(phase));
    // Something is absent now, or nothing would be lent.
    (0..5).for_each(|_| machine.look(SCAN));
    TOTAL - 1000 * MIB - machine.decision.pool_budget_bytes
}

#[test]
fn a_rise_of_the_heap_is_feared_again_for_a_while() {
    let calm = TOTAL / 64 + 2 * FRAME;
    assert!(guard_after(0, SCAN.cached) > 250 * MIB);
    let half = guard_after(5, SCAN.cached);
    assert!((120 * MIB..160 * MIB).contains(&half), "{} MiB after five seconds", half / MIB);
    assert!(guard_after(20, SCAN.cached) <= calm);
    assert!(guard_after(0, 0) <= calm, "before anything is cached a heap just starts");
}

#[test]
fn a_heap_that_regrows_after_a_collection_that_was_asked_for_is_not_feared() {
    let mut machine = Machine::new(TOTAL, 2500 * MIB, 1200 * MIB);
    while machine.asks == 0 {
        machine.step(SCAN);
    }
    machine.look(SCAN);
    let committed = machine.committed + 300 * MIB;
    machine.take(committed, SCAN);
    (0..5).for_each(|_| machine.look(SCAN));
    let guard = TOTAL - committed - machine.decision.pool_budget_bytes;
    assert!(guard <= TOTAL / 64 + 2 * FRAME, "{} MiB", guard / MIB);
}

#[test]
fn strong_evidence_moves_at_once_and_weak_evidence_after_a_while() {
    let first_move = |phase| {
        let mut machine = Machine::new(TOTAL, 3300 * MIB, 600 * MIB);
        (1..20).find(|_| machine.step(phase).moves > 0)
    };
    assert_eq!(first_move(SCAN), Some(1));
    assert_eq!(first_move(Phase { wait: 0.000_02, ..SCAN }), Some(3));
}

#[test]
fn no_collection_is_asked_for_little() {
    // 40 MiB are absent, of 4 GiB, and each pass waits long for them.
    let little = Phase { live: 200 * MIB, cached: 740 * MIB, collect: 1.0, wait: 0.02 };
    let mut machine = Machine::new(TOTAL, 3300 * MIB, 600 * MIB);
    machine.run(little, 100);
    assert_eq!(machine.asks, 0);
    machine.run(Phase { cached: 1000 * MIB, ..little }, 100);
    assert!(machine.asks > 0);
}

/// What still lives on the heap after five minutes in which all that is shed is packed.
fn left_on_the_heap(machine: &mut Machine, mut phase: Phase) -> u64 {
    for _ in 0..300 {
        let shed = machine.step(phase).shed_bytes.min(phase.live - 300 * MIB);
        phase = Phase { live: phase.live - shed, cached: phase.cached + shed, ..phase };
    }
    phase.live
}

#[test]
fn cached_objects_leave_the_heap_where_absent_bytes_are_scanned() {
    let mut machine = Machine::new(TOTAL, 3600 * MIB, 400 * MIB);
    let phase = Phase { live: 2800 * MIB, cached: 2000 * MIB, ..SCAN };
    let left = left_on_the_heap(&mut machine, phase);
    assert!(left < 800 * MIB, "{} MiB are still there", left / MIB);
    assert!(machine.pool > 2500 * MIB, "the pool has {} MiB", machine.pool / MIB);
}

#[test]
fn cached_objects_leave_a_heap_that_does_nothing_but_collect() {
    let mut machine = Machine::new(TOTAL, 4000 * MIB, 64 * MIB);
    let phase = Phase { live: 3700 * MIB, cached: 0, collect: 50.0, wait: 0.0 };
    assert!(machine.costs(phase).0 > 0.1);
    let left = left_on_the_heap(&mut machine, phase);
    let collect = machine.costs(Phase { live: left, ..phase }).0;
    assert!(left < phase.live && collect < 0.1, "{} MiB are still there, {collect}", left / MIB);
}

#[test]
fn cached_objects_stay_where_little_is_lost() {
    // Collections or waits that take 1, 3 and 5 % of the time, in a heap that is full of what lives.
    for part in [0.01, 0.03, 0.05] {
        for (collect, wait, cached) in [(part * 100.0, 0.0, 0), (1.0, part / 500.0, 1200 * MIB)] {
            let mut machine = Machine::new(TOTAL, 3400 * MIB, 600 * MIB);
            let phase = Phase { live: 3300 * MIB, cached, collect, wait };
            let left = left_on_the_heap(&mut machine, phase);
            assert_eq!(left, phase.live, "{part} of the time, {cached} bytes cached");
        }
    }
}

#[test]
fn an_idle_job_moves_nothing() {
    let mut machine = Machine::new(TOTAL, 500 * MIB, 2400 * MIB);
    machine.run(Phase { collect: 0.0, wait: 0.0, ..BOTH }, 200);
    assert_eq!((machine.decision.moves, machine.asks), (0, 0));
}

#[test]
fn what_fits_is_not_given_up_again_and_again() {
    // Everything cached just fits: what the heap takes is missed at once.
    let tight = Phase { live: 200 * MIB, cached: 2600 * MIB, collect: 40.0, wait: 0.002 };
    let mut machine = Machine::new(TOTAL, 1000 * MIB, 2700 * MIB);
    machine.noise = 1.5;
    machine.run(tight, 1000);
    assert!(machine.decision.turns <= 4, "{} turns", machine.decision.turns);
}

#[test]
fn a_total_that_falls_takes_from_the_pool() {
    let mut machine = Machine::new(TOTAL, 600 * MIB, 3000 * MIB);
    machine.run(SCAN, 60);
    machine.total = 2048 * MIB;
    machine.committed = 600 * MIB;
    machine.pool = 0; // yielded between the two looks, as the check after the next decision wants
    machine.run(SCAN, 60);
    assert!(machine.decision.pool_budget_bytes + machine.committed <= machine.total);
}

fn phases() -> impl Strategy<Value = Phase> {
    (40u64..1200, 0u64..8000, 0.0f64..200.0, 0.0f64..0.001).prop_map(|(live, cached, collect, wait)| Phase {
        live: live * MIB,
        cached: cached * MIB,
        collect,
        wait,
    })
}

proptest! {
    /// `Machine::step` and `Machine::check` assert the invariants at every tick.
    #[test]
    fn invariants_hold_through_any_phases(
        seed in 1u64..,
        noise in 1.0f64..4.0,
        shrinks: bool,
        start in 200u64..2000,
        phases in prop::collection::vec((phases(), 1u32..80), 1..6),
    ) {
        let mut machine = Machine::new(TOTAL, start * MIB, TOTAL - (start + 400) * MIB);
        (machine.random, machine.noise, machine.shrinks) = (seed, noise, shrinks);
        for (phase, ticks) in phases {
            machine.enter(phase);
            machine.run(phase, ticks);
        }
    }

    #[test]
    fn constant_costs_with_bounded_noise_turn_a_bounded_number_of_times(
        seed in 1u64..,
        phase in phases(),
        start in 300u64..3000,
    ) {
        let mut machine = Machine::new(TOTAL, start * MIB, TOTAL - (start + 400) * MIB);
        (machine.random, machine.noise) = (seed, 2.0);
        machine.enter(phase);
        machine.run(phase, 300);
        let early = machine.decision.turns;
        machine.run(phase, 3000);
        prop_assert!(machine.decision.turns <= 6, "{} turns, {early} of them early", machine.decision.turns);
    }

    #[test]
    fn any_numbers_give_a_decision(
        limits in prop::array::uniform4(any::<u64>()),
        ticks in prop::collection::vec((prop::array::uniform12(any::<u64>()), any::<f64>()), 1..20),
    ) {
        let mut split = Split::new(SplitLimits {
            heap_min_bytes: limits[0],
            heap_max_bytes: limits[1],
            pool_min_bytes: limits[2],
            pool_start_bytes: limits[3],
        });
        for (n, passes) in ticks {
            let decision = split.tick(&SplitTick {
                elapsed_ns: n[0],
                total_bytes: n[1],
                heap_committed_bytes: n[2],
                heap_live_bytes: n[3],
                collect_ns: n[4],
                asked_ns: n[5],
                wait_ns: n[6],
                threads: n[7],
                pool_bytes: n[8],
                absent_bytes: n[9],
                cached_bytes: n[10],
                look_ns: n[11],
                passes,
                writes_fail: n[0] % 3 == 0,
            });
            prop_assert!(decision.pool_budget_bytes >= limits[2]);
        }
    }
}
