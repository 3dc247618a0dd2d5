//! Any text as a scenario file. What is taken is run for half a second of simulated time, its length chooses the policy.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmset_sim::{KNOWN_POLICIES, Scenario, run};

fuzz_target!(|text: &str| {
    let Ok(mut scenario) = Scenario::parse(text) else { return };
    let _ = scenario.changes().len();
    // A machine of many pages takes long to set up, and is no other code.
    if scenario.memory_gib > 1.0 {
        return;
    }
    scenario.seconds = 0.5;
    scenario.events.retain(|event| event.at_s < 0.5);
    let policy = KNOWN_POLICIES[text.len() % KNOWN_POLICIES.len()];
    let outcome = run(&scenario, policy).expect("the policy is known");
    assert!(outcome.gbps.is_finite() && outcome.gbps >= 0.0, "{policy}: {outcome:?}");
    let shares = outcome.timeline.iter().map(|point| point.default_share);
    assert!(shares.clone().all(|share| (-1e-9..=1.0 + 1e-9).contains(&share)), "{policy}: {outcome:?}");
});
