//! The region store: cached bytes outside any heap, in huge-page frames while they fit, on disk when not.
//!
//! A [`Store`] owns a pool of 2 MiB frames. A [`Region`] is a list of *segments* with one lifetime: reserved,
//! written, sealed, read many times, released whole. A sealed segment may be demoted (written once to the
//! region's nameless file, then dropped) and promoted (one direct read) at any time nobody holds it.
//!
//! Invariants:
//! 1. A held segment (see [`Pin`]) is never demoted, moved or freed; every transition goes through the one
//!    state word of `state.rs`, which loom checks.
//! 2. Frames belong to at most one segment; the ledger (one mutex) decides, holds only count.
//! 3. Addresses once given out stay mapped until the process ends. A reader that breaks the rules may see
//!    other bytes, never a fault.
//! 4. No transfer starts without disk space: running out is an error of the writer, named
//!    [`Error::NoSpace`], and leaves what is sealed readable.
//!
//! Not done here: deciding what stays (that is `warmset_placement`), system calls (`warmset_platform`).
#![cfg(not(loom))]

mod backing;
mod config;
mod error;
mod failure;
mod fallback;
mod frames;
mod handle;
mod housekeeping;
mod ledger;
mod named;
mod pool;
pub mod raw;
mod read;
mod recency;
pub mod region_file;
mod release;
mod room;
mod runs;
mod segment;
mod state;
mod stats;
mod store;
mod write;
mod write_back;

pub use config::{Config, HugePages, Io, Names};
pub use error::Error;
pub use handle::{Draft, Pin, Prefetch, Region};
pub use read::PinStart;
pub use stats::{PoolUse, RegionStats, StoreStats};
pub use store::Store;
pub use warmset_platform::io::{FaultHook, Op};
pub use warmset_platform::sysinfo::{Root, memory_beside_bytes, memory_bound};

/// Bytes in a frame, the unit of residency.
pub const FRAME_BYTES: usize = warmset_platform::mm::HUGE_PAGE_BYTES;
