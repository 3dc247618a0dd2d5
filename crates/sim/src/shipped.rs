//! The scenarios that ship with the simulator.

use crate::scenario::Scenario;

macro_rules! shipped {
    ($($name:literal),* $(,)?) => {
        /// Name and text of each shipped scenario.
        pub const SHIPPED: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../scenarios/", $name, ".toml")))),*];
    };
}

shipped!(
    "gups",
    "hot-set-move",
    "hot-set-move-3x",
    "contention-change",
    "pagerank",
    "silo",
    "cachelib",
    "three-tiers",
    "uniform",
    "oscillating",
    "large-hot-set",
    "slow-contention",
);

/// The scenarios that are no published experiment: nothing was tuned on them.
pub const HELD_OUT: [&str; 5] = ["three-tiers", "uniform", "oscillating", "large-hot-set", "slow-contention"];

/// The shipped scenario of that name.
#[must_use]
pub fn shipped(name: &str) -> Option<Scenario> {
    let text = SHIPPED.iter().find(|known| known.0 == name)?.1;
    Scenario::parse(text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_scenario_is_valid_and_has_its_files_name() {
        for (name, text) in SHIPPED {
            assert_eq!(Scenario::parse(text).as_ref().map(|scenario| scenario.name.as_str()), Ok(*name));
        }
    }
}
