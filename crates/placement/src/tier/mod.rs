//! Which page belongs to which tier: one trait, and a file per policy.
//!
//! A policy sees counters and samples and returns moves. It knows no clock, no process and no kernel: time is an
//! argument, and the caller says where each page is, so a move that failed needs no undoing here.

mod balance;
mod climb;
mod colloid;
mod equal;
mod heat;
mod hemem;
mod memtis;
mod room;
mod tpp;
mod warm;

pub use balance::{Balance, Form, Pair, Shift, Smoothed};
pub use colloid::PageShares;
pub use equal::Equal;
pub use heat::Heat;
pub use hemem::HeMem;
pub use memtis::Memtis;
pub use room::Room;
pub use tpp::Tpp;
pub use warm::Warm;

/// The index of a tier. Tier 0 is the default tier of the published systems, which know two; `Warm` orders tiers by
/// their measured latency, never by index.
pub type Tier = u8;

/// In `Quantum::residency`: the page is gone, or cannot be moved.
pub const NOWHERE: Tier = Tier::MAX;

/// What does not change while a policy runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Layout {
    /// How many tiers there are.
    pub tiers: usize,
    /// The size of a page.
    pub page_bytes: u64,
}

/// What one tier's counters said about the quantum that ended.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct TierCounters {
    /// Accesses per nanosecond (cache lines), by everybody.
    pub rate_per_ns: f64,
    /// The mean latency of an access; `None` where there is no figure for this quantum.
    pub latency_ns: Option<f64>,
}

impl TierCounters {
    /// From queue counters, by Little's law: latency = occupancy / rate. An idle tier has no latency.
    #[must_use]
    pub fn from_occupancy(rate_per_ns: f64, occupancy: f64) -> Self {
        let latency = occupancy / rate_per_ns;
        Self { rate_per_ns, latency_ns: (rate_per_ns > 0.0 && latency.is_finite()).then_some(latency) }
    }
}

/// A page that was seen to be accessed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct PageSample {
    /// The page: an index into `Quantum::residency`.
    pub page: u32,
    /// The tier that served it.
    pub tier: Tier,
    /// How many samples this one stands for; for `Tracking::HintFaults`, the time from the scan to the fault in ns.
    pub weight: f64,
}

/// How a policy wants pages to be watched.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Tracking {
    /// Sampled accesses, one in about `period`.
    Samples {
        /// Accesses per sample.
        period: u64,
    },
    /// Pages are made inaccessible in turn, and the time to the next access is taken.
    HintFaults {
        /// How fast the scan goes.
        scan_bytes_per_s: u64,
    },
}

/// What a policy is told at the end of a quantum.
#[derive(Debug, Clone, Copy)]
pub struct Quantum<'a> {
    /// The time now, from any origin.
    pub now_ns: u64,
    /// How long the quantum was.
    pub elapsed_ns: u64,
    /// One per tier.
    pub tiers: &'a [TierCounters],
    /// What was seen; a page may occur several times.
    pub samples: &'a [PageSample],
    /// How many accesses a weight of 1 stands for; 0 if weights are only relative to each other.
    pub accesses_per_weight: f64,
    /// How many pages each tier may hold now.
    pub capacity_pages: &'a [u64],
    /// Where each page is now.
    pub residency: &'a [Tier],
    /// How many bytes the mover can copy into each tier before the next call.
    pub move_bytes_max: u64,
}

/// A page to be moved. Moves are to be carried out in order: an earlier one may make room for a later one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Move {
    /// The page.
    pub page: u32,
    /// Where it is.
    pub from: Tier,
    /// Where it goes.
    pub to: Tier,
}

/// The bytes of an access.
const LINE_BYTES: f64 = 64.0;

/// A placement policy for tiered memory.
pub trait TierPolicy: std::fmt::Debug {
    /// Its name on the command line, such as `hemem+colloid`.
    fn name(&self) -> &'static str;
    /// How often `decide` wants to be called.
    fn quantum_ns(&self) -> u64;
    /// What it wants to see.
    fn tracking(&self) -> Tracking;
    /// How many tiers it knows; pages in further ones stay where they are.
    fn tiers_max(&self) -> usize {
        2
    }
    /// Takes in a quantum and says what to move. No tier is over its capacity after any of the moves.
    fn decide(&mut self, quantum: &Quantum<'_>) -> Vec<Move>;
}

/// The names that `policy` knows, ours first.
pub const POLICIES: [&str; 8] =
    ["equal", "warm", "hemem", "hemem+colloid", "tpp", "tpp+colloid", "memtis", "memtis+colloid"];

/// The policy of that name, each Colloid in the form that was shipped with that system (TPP's gate aside: see `Tpp`).
#[must_use]
pub fn policy(name: &str, layout: &Layout) -> Option<Box<dyn TierPolicy>> {
    Some(match name {
        "warm" => Box::new(Warm::new(layout.clone())),
        "equal" => Box::new(Equal::new(layout.clone())),
        "hemem" => Box::new(HeMem::new(layout.clone(), None)),
        "hemem+colloid" => Box::new(HeMem::new(layout.clone(), Some(Form::Proportional))),
        "tpp" => Box::new(Tpp::new(layout.clone(), None)),
        "tpp+colloid" => Box::new(Tpp::new(layout.clone(), Some(Form::Watermarks))),
        "memtis" => Box::new(Memtis::new(layout.clone(), None)),
        "memtis+colloid" => Box::new(Memtis::new(layout.clone(), Some(Form::Watermarks))),
        _ => return None,
    })
}
