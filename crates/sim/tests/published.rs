//! The figures that the pages state, with some room: a change of the model or of a policy that moves them is noticed.

use warmset_sim::{Kind, Scenario, best_static, names, run, shipped, timed};

fn gbps(scenario: &Scenario, policy: &str) -> f64 {
    run(&timed(scenario, policy), policy).unwrap().gbps
}

#[test]
fn gups_stays_close_to_the_published_table() {
    for (antagonists, hemem, colloid) in [(0.0, 77.5, 77.3), (15.0, 22.7, 54.0)] {
        let scenario = Scenario::gups(antagonists);
        for (policy, published) in [("hemem", hemem), ("hemem+colloid", colloid)] {
            let got = gbps(&scenario, policy);
            assert!(
                (got / published - 1.0).abs() < 0.05,
                "{policy} at {antagonists}: {got}, published {published}"
            );
        }
    }
}

#[test]
fn warm_is_close_to_the_best_static_split_at_any_contention_and_seed() {
    for (antagonists, seed) in [(0.0, 3), (5.0, 4), (10.0, 5), (15.0, 6)] {
        let scenario = Scenario { seed, ..Scenario::gups(antagonists) };
        let (got, best) = (gbps(&scenario, "warm"), best_static(&scenario).0);
        assert!(got > 0.96 * best, "at {antagonists}, seed {seed}: {got} of {best}");
    }
}

#[test]
fn warm_holds_up_in_the_scenarios_that_nobody_tuned_to() {
    for name in names(Kind::Own).chain(names(Kind::HeldOut)) {
        let scenario = shipped(name).unwrap();
        let (warm, other) = (run(&scenario, "warm").unwrap(), run(&scenario, "hemem+colloid").unwrap());
        assert!(
            warm.gbps_from_change > 0.97 * other.gbps_from_change,
            "{name}: {} against {}",
            warm.gbps_from_change,
            other.gbps_from_change
        );
    }
}

#[test]
fn a_balanced_machine_is_left_alone() {
    let outcome = run(&Scenario { seconds: 60.0, ..Scenario::gups(5.0) }, "warm").unwrap();
    assert!(outcome.migration_share < 0.001, "{}", outcome.migration_share);
}

#[test]
fn a_moved_hot_set_is_followed() {
    let outcome = run(&shipped("hot-set-move").unwrap(), "warm").unwrap();
    assert!(
        outcome.gbps > 76.0 && outcome.convergence_s < 25.0,
        "{} {}",
        outcome.gbps,
        outcome.convergence_s
    );
}

#[test]
fn copies_do_not_saturate_a_narrow_tier() {
    let scenario = shipped("narrow-slow-tier").unwrap();
    let (outcome, best) = (run(&scenario, "warm").unwrap(), best_static(&scenario).0);
    assert!(outcome.gbps > 0.85 * best, "{} of {best}", outcome.gbps);
    assert!(outcome.migration_share < 0.01, "{}", outcome.migration_share);
}
