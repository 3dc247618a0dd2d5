//! Manages the memory of a running, unmodified process on a host with several memory nodes.
//!
//! A [`Tracker`] says which addresses are accessed, a [`LatencySource`] what an access costs on each node, a policy of
//! `placement` which pages go where, and a [`Mover`] moves them. Invariants:
//! - Only pages move. No byte, mapping or policy of the process changes, so ending at any time harms nothing.
//! - What was turned on in the kernel is turned off at the end, after `kill -9` too (a guardian process does it).
//! - A page whose place is not known, that is gone or cannot be moved is never part of a decision.
//! - No system call that moves pages is meant to take more than [`mover::CALL_MS_MAX`].
//!
//! It knows no terminal and prints nothing: `warmset tier` does.

mod daemon;
mod error;
pub mod latency;
pub mod mover;
mod pages;
mod report;
mod script;
mod target;
mod topology;
pub mod tracker;

pub use daemon::{Daemon, Settings};
pub use error::Error;
pub use latency::{LatencySource, Reading, Tracked};
pub use mover::{Mover, Outcome};
pub use pages::{CHUNK_BYTES, Pages};
pub use report::{Counters, Failures, Managed, MoveReport, Report, SCHEMA, TierReport, prometheus};
pub use target::Target;
pub use topology::{Tier, Topology};
pub use tracker::{Access, Tracker};
