//! The scenarios that ship with the simulator.

use crate::scenario::Scenario;

/// What a shipped scenario is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// A published experiment, run at several levels of contention.
    Steady,
    /// A published experiment in which something changes.
    Dynamic,
    /// No published experiment; `warm`'s constants were checked on it while they were chosen.
    Own,
    /// Written when `warm` was done. `narrow-slow-tier` and the last three showed faults that were mended since; no constant
    /// was chosen by their figures.
    HeldOut,
}

/// A scenario that ships with the simulator.
#[derive(Debug)]
pub struct Shipped {
    /// Its name.
    pub name: &'static str,
    /// Its file.
    pub text: &'static str,
    /// What it is for.
    pub kind: Kind,
}

macro_rules! shipped {
    ($($kind:ident: $($name:literal),*;)*) => {
        /// All of them.
        pub const SHIPPED: &[Shipped] = &[$($(Shipped {
            name: $name,
            text: include_str!(concat!("../scenarios/", $name, ".toml")),
            kind: Kind::$kind,
        }),*),*];
    };
}

shipped!(
    Steady: "gups";
    Dynamic: "hot-set-move", "hot-set-move-3x", "contention-change";
    Steady: "pagerank", "silo", "cachelib";
    Own: "three-tiers", "uniform", "oscillating", "large-hot-set", "slow-contention";
    HeldOut: "both-contended", "computing", "cores-change", "drifting-hot-set", "equal-tiers", "four-tiers",
        "narrow-slow-tier", "quick-contention", "slow-oscillation", "alternating-contention", "far-large-hot-set",
        "three-tiers-uniform";
);

/// The names of one kind.
pub fn names(kind: Kind) -> impl Iterator<Item = &'static str> {
    SHIPPED.iter().filter(move |known| known.kind == kind).map(|known| known.name)
}

/// The shipped scenario of that name.
#[must_use]
pub fn shipped(name: &str) -> Option<Scenario> {
    Scenario::parse(SHIPPED.iter().find(|known| known.name == name)?.text).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_shipped_scenario_is_valid_and_has_its_files_name() {
        for Shipped { name, text, .. } in SHIPPED {
            assert_eq!(Scenario::parse(text).as_ref().map(|scenario| scenario.name.as_str()), Ok(*name));
        }
    }
}
