//! The region store: cached bytes outside any heap, in huge-page frames while they fit, on disk when not.
//!
//! A [`Store`] owns a pool of 2 MiB frames. A [`Region`] is a list of *segments* with one lifetime: reserved,
//! written, sealed, read many times, released whole. A sealed segment may be demoted (written once to the
//! region's nameless file, then dropped) and promoted (one direct read) at any time nobody has it pinned.
//!
//! Invariants:
//! 1. A pinned segment (see [`Pin`]) is never demoted, moved or freed; every transition goes through the one
//!    state word of `state.rs`, which loom checks.
//! 2. Frames belong to at most one segment; the ledger (one mutex) decides, pins only count.
//! 3. Addresses once given out stay mapped until the process ends. A reader that breaks the rules may see
//!    other bytes, never a fault.
//! 4. No transfer starts without disk space: running out is an error of the writer, named
//!    [`Error::NoSpace`], and leaves what is sealed readable.
//!
//! 5. A check that fails inside ends the store, not the process: [`Error::Failed`].
//! 6. Pool and window together have no more memory than the budget, from 4 GiB on; a smaller store up to 64 MiB more.
//!
//! ```
//! use warmset_region::{Config, Store};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let (data, saved) = (dir.path(), dir.path().join("numbers"));
//! let store = Store::open(Config::new(data, 64 << 20))?;
//! let region = store.create_region()?;
//! let mut draft = region.draft(8)?;
//! draft.copy_from_slice(&42_u64.to_le_bytes());
//! let segment = draft.seal(8)?;
//!
//! let pin = region.pin(segment)?;
//! assert_eq!(pin[..], 42_u64.to_le_bytes());
//! region.save(&saved)?;
//!
//! let opened = store.open_saved(&saved)?;
//! assert_eq!(opened.pin(0)?[..], pin[..]);
//! # Ok(())
//! # }
//! ```
//!
//! A pin's bytes cannot be taken away by safe code: what ends somebody's pin by its number is unsafe (see [`raw`]),
//!
//! ```compile_fail,E0133
//! fn unpin_under_a_reader(store: &warmset_region::Store, region: u64) {
//!     let _ = store.raw().unpin(region, 0);
//! }
//! ```
//! ```compile_fail,E0133
//! fn seal_under_a_writer(store: &warmset_region::Store, region: u64) {
//!     let _ = store.raw().seal(region, 0, 1);
//! }
//! ```
//! ```compile_fail,E0133
//! fn wait_for_a_pin_of_others(store: &warmset_region::Store, region: u64) {
//!     let _ = store.raw().pin_wait(region, 0);
//! }
//! ```
//! and a reference into it does not outlive it; nor is anything sealed that is still written to:
//!
//! ```compile_fail,E0597
//! fn bytes_without_a_pin(region: &warmset_region::Region) {
//!     let bytes: &[u8];
//!     {
//!         let pin = region.pin(0).unwrap();
//!         bytes = &pin;
//!     }
//!     assert_eq!(bytes[0], 0);
//! }
//! ```
//! ```compile_fail,E0505
//! fn write_to_a_sealed_segment(mut draft: warmset_region::Draft) {
//!     let bytes: &mut [u8] = &mut draft;
//!     draft.seal(1).unwrap();
//!     bytes[0] = 1;
//! }
//! ```
//!
//! Not done here: deciding what stays (that is `warmset_placement`), system calls (`warmset_platform`).
#![cfg(not(loom))]

mod backing;
mod clock;
mod config;
mod counters;
mod device;
mod error;
mod extents;
mod failure;
mod fallback;
mod frames;
mod handle;
mod health;
mod housekeeping;
mod keeper;
mod ledger;
mod named;
mod names;
mod numbers;
mod pool;
pub mod raw;
mod read;
mod recency;
pub mod region_file;
mod regions;
mod release;
mod room;
mod runs;
mod segment;
mod shared;
mod space;
mod stats;
mod store;
mod sync;
mod transfer;
mod waiters;
mod warnings;
mod watch;
mod write;
mod write_back;
mod write_out;

use segment::state;

pub use config::{Config, HugePages, Io};
pub use error::Error;
pub use extents::Extent;
pub use handle::{Draft, Pin, Prefetch, Region};
pub use names::Names;
pub use read::PinStart;
pub use region_file::Check;
pub use stats::{PoolUse, RegionStats, StoreStats};
pub use store::Store;
pub use warmset_platform::io::{FaultHook, Op};
pub use warmset_platform::sysinfo::{Root, memory_beside_bytes, memory_bound};
pub use warnings::hand_warnings_to;

/// Bytes in a frame, the unit of residency.
pub const FRAME_BYTES: usize = warmset_platform::mm::HUGE_PAGE_BYTES;
