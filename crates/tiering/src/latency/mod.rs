//! What an access to each tier costs now.

mod counters;
mod probe;
mod scripted;

pub use counters::CounterSource;
pub use probe::ProbeSource;
pub use scripted::ScriptedSource;

/// What was measured of one tier.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub struct Reading {
    /// The mean latency; `None` without a figure.
    pub latency_ns: Option<f64>,
    /// Accesses per nanosecond by everybody, where the source counts them.
    pub rate_per_ns: Option<f64>,
}

/// A source of latencies.
pub trait LatencySource: std::fmt::Debug {
    /// For messages and the log.
    fn name(&self) -> &'static str;
    /// One reading per tier. `shares` is the part of the process's accesses that each tier served, as tracked: only a
    /// script may use it.
    fn read(&mut self, shares: &[f64]) -> Vec<Reading>;
}

/// The difference of a counter between two looks. A counter that went back (it wrapped, or was set again) has no
/// difference for this once.
#[must_use]
pub fn counted(before: u64, now: u64) -> Option<u64> {
    now.checked_sub(before)
}
