//! Any text as a scenario file. What is taken is run for a tenth of a second of simulated time.
#![no_main]

use libfuzzer_sys::fuzz_target;
use warmset_sim::{Scenario, run};

fuzz_target!(|text: &str| {
    let Ok(mut scenario) = Scenario::parse(text) else { return };
    let _ = scenario.changes().len();
    // A machine of many pages takes long to set up, and is no other code.
    if scenario.memory_gib > 1.0 {
        return;
    }
    scenario.seconds = 0.1;
    scenario.events.clear();
    let outcome = run(&scenario, "warm").expect("the policy is known");
    assert!(outcome.gbps.is_finite() && outcome.gbps >= 0.0);
});
