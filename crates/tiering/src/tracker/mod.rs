//! Which addresses of a process are accessed.

mod damon;
mod loads;
mod scripted;

use std::io;

pub use damon::DamonTracker;
pub use loads::LoadTracker;
pub use scripted::ScriptedTracker;

/// A range of addresses that was accessed since the last look.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Access {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// Accesses per base page and sampling interval. A tracker that only sees whether a page was accessed derives
    /// this from the part of the samples in which it was, as of a Poisson process.
    pub rate: f64,
    /// What an access took, in the mean, where the tracker measures it.
    pub latency_ns: Option<f64>,
}

/// A source of accesses.
pub trait Tracker: std::fmt::Debug {
    /// For messages and the log.
    fn name(&self) -> &'static str;
    /// What was accessed during the last interval; ranges that were not are left out. May wait for the interval's end.
    ///
    /// # Errors
    /// When it has stopped.
    fn collect(&mut self) -> io::Result<Vec<Access>>;
    /// How many accesses to a base page a `rate` of 1 stands for in a second.
    fn accesses_per_rate_s(&self) -> f64;
    /// Whether rates are counted. One that only sees that a page was accessed cannot tell a busy page from a busier one.
    fn counts(&self) -> bool {
        false
    }
    /// A thread of the kernel that works for it, whose processor time is reported.
    fn kernel_thread(&self) -> Option<u32> {
        None
    }
}

/// The rate behind a page that was found accessed in `hits` of `samples` looks. Always accessed stands for a rate that
/// one more look would not tell from it.
#[must_use]
pub fn rate_of(hits: f64, samples: f64) -> f64 {
    let missed = (1.0 - hits / samples).clamp(0.5 / samples, 1.0);
    -missed.ln()
}

#[cfg(test)]
mod tests {
    use super::rate_of;

    #[test]
    fn the_rate_grows_with_the_hits_and_stays_finite() {
        assert!(rate_of(0.0, 20.0).abs() < 1e-12);
        assert!((rate_of(10.0, 20.0) - std::f64::consts::LN_2).abs() < 1e-12);
        assert!(rate_of(20.0, 20.0) > rate_of(19.0, 20.0));
        assert!(rate_of(30.0, 20.0).is_finite());
    }
}
