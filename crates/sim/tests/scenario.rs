//! Scenario files: what is wrong is said by field, and no text panics.

use proptest::prelude::*;
use warmset_sim::{KNOWN_POLICIES, Scenario, run};

const GOOD: &str = "name = 'x'\nseconds = 1\ncores = 2\nmemory_gib = 1\naccess = { pattern = 'hot', hot_gib = 0.5, hot_accesses = 0.9 }\n";
const TIER: &str = "[[tier]]\nname = 'a'\ncapacity_gib = 4\nbase_ns = 70\nslope_ns = 0.5\nwindow = 4\n";

fn error(text: &str) -> String {
    Scenario::parse(text).expect_err("it was taken").to_string()
}

#[test]
fn a_wrong_figure_is_named() {
    let cases = [
        (format!("{GOOD}{}", TIER.replace("base_ns = 70", "base_ns = -70")), "`tier a: base_ns` is -70"),
        (format!("{GOOD}{}", TIER.replace("slope_ns = 0.5", "slope_ns = nan")), "slope_ns` is NaN"),
        (format!("tier = []\n{GOOD}"), "there are 0 tiers"),
        (GOOD.replace("hot_gib = 0.5", "hot_gib = 2"), "the hot set has 2 GiB, but `memory_gib` is 1"),
        (format!("{}{TIER}", GOOD.replace("memory_gib = 1", "memory_gib = 5")), "the tiers hold 4 GiB"),
        (GOOD.replace("cores = 2", "cores = 0"), "`cores` is 0"),
        (GOOD.replace("cores = 2\n", ""), "missing field `cores`"),
        (GOOD.replace("cores = 2", "cores = 2\ncolour = 1"), "unknown field `colour`"),
        (GOOD.replace("'hot'", "'cold'"), "unknown variant `cold`"),
        (format!("contention = [1, 2, 3]\n{GOOD}"), "has 3 figures, but there are 2 tiers"),
        (format!("{GOOD}[[event]]\nat_s = 9\n"), "`event 1: at_s` is 9"),
        (format!("{GOOD}[[event]]\nat_s = 0.5\ncontention = [-1]\n"), "`event 1: contention` is -1"),
        (format!("{GOOD}[[event]]\nat_s = 0\nevery_s = 1e-9\n"), "every_s"),
        (GOOD.replace("memory_gib = 1", "memory_gib = 1e30"), "memory_gib"),
        (GOOD.replace("'x'", "'../x'"), "`name` is \"../x\""),
        (GOOD.replace("'x'", "'/tmp/x'"), "`name` is \"/tmp/x\""),
        (GOOD.replace("'x'", "\"\\u001b[31m\""), "`name` is \"\\u{1b}[31m\""),
        (GOOD.replace("'x'", "''"), "`name` is \"\""),
        (format!("{GOOD}{}", TIER.replace("'a'", "'a\tb'")), "`tier: name`"),
        (format!("{GOOD}{TIER}lines_per_ns_max = 1e-300\n"), "lines_per_ns_max"),
        (GOOD.replace("seconds = 1", "seconds = 0.1"), "`seconds` is 0.1"),
        (
            format!(
                "{}{}",
                GOOD.replace("seconds = 1", "seconds = 1e5"),
                "[[event]]\nat_s = 0\nevery_s = 0.1\n".repeat(2)
            ),
            "there are 2000002 changes",
        ),
        ("name = ".into(), "TOML parse error"),
    ];
    for (text, wanted) in cases {
        let got = error(&text);
        assert!(got.contains(wanted), "wanted: {wanted}\ngot: {got}\nfor:\n{text}");
    }
}

#[test]
fn one_tier_and_eight_tiers_run_with_every_policy() {
    for count in [1, 2, 3, 8] {
        let tiers: String =
            (0..count).map(|at| TIER.replace("= 70", &format!("= {}", 70 + 40 * at))).collect();
        let tiers = tiers.replace("capacity_gib = 4", &format!("capacity_gib = {}", 1.5 / f64::from(count)));
        let scenario = Scenario::parse(&format!("{GOOD}{tiers}")).unwrap();
        for policy in KNOWN_POLICIES {
            let outcome = run(&scenario, policy).unwrap();
            assert!(outcome.gbps.is_finite() && outcome.gbps > 0.0, "{policy} on {count} tiers");
        }
    }
}

#[test]
fn absurd_machines_give_figures() {
    let tier = TIER
        .replace("base_ns = 70", "base_ns = 1")
        .replace("slope_ns = 0.5", "slope_ns = 1e4\nlines_per_ns_max = 1e-4")
        .replace("window = 4", "window = 1000");
    let text = GOOD.replace("cores = 2", "cores = 1e5\nwindow_scale = 100\ncontention = [1e4]");
    let event = "[[event]]\nat_s = 1\nhot_moves = true\n";
    for text in [format!("{text}{tier}"), format!("{text}{tier}{}{event}", tier.replace("'a'", "'b'"))] {
        let scenario = Scenario::parse(&text).unwrap();
        for policy in KNOWN_POLICIES {
            let outcome = run(&scenario, policy).unwrap();
            let figures = [outcome.gbps, outcome.gbps_from_change, outcome.migration_share];
            assert!(figures.iter().all(|figure| figure.is_finite()), "{policy}: {figures:?}");
            assert!(outcome.gbps > 0.0 && outcome.gbps_from_change > 0.0, "{policy}: {figures:?}");
        }
    }
}

fn field() -> impl Strategy<Value = String> {
    let name = prop::sample::select(vec![
        "name",
        "seconds",
        "cores",
        "memory_gib",
        "think_ns",
        "mover_gbps",
        "contention",
        "seed",
        "access",
        "[[tier]]",
        "[[event]]",
        "at_s",
        "every_s",
        "base_ns",
        "slope_ns",
        "window",
        "capacity_gib",
    ]);
    let value = prop_oneof![
        any::<f64>().prop_map(|value| format!("{value:?}")),
        (-3_i64..100).prop_map(|value| value.to_string()),
        Just("'x'".to_owned()),
        Just("[1, 2]".to_owned()),
        Just("{ pattern = 'uniform' }".to_owned()),
        Just(String::new()),
    ];
    (name, value).prop_map(
        |(name, value)| if name.starts_with('[') { name.into() } else { format!("{name} = {value}") },
    )
}

proptest! {
    #[test]
    fn no_text_panics_and_what_is_taken_is_valid(lines in prop::collection::vec(field(), 0..20), noise in ".{0,60}") {
        for text in [lines.join("\n"), format!("{GOOD}{}", lines.join("\n")), format!("{GOOD}{noise}")] {
            if let Ok(scenario) = Scenario::parse(&text) {
                prop_assert!(scenario.check().is_ok());
                prop_assert!(scenario.changes().iter().all(|change| change.0 <= scenario.seconds));
            }
        }
    }
}
