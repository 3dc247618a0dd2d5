//! Warm starts: records what a program reads, and prefetches it on later runs.
//!
//! A [`Trace`] is what one run touched, in order of time. A [`Profile`] is what is kept of it. [`fetch`] reads a profile's
//! ranges into the page cache while the program starts. The program itself is never changed or delayed.

mod bursts;
mod fetch;
mod profile;
mod record;
mod store;
mod trace;

pub use bursts::{Burst, QUIET_MS, bursts};
pub use fetch::{Fetched, Piece, fetch, pieces};
pub use profile::{FileRecord, Profile, Read, VERSION};
pub use record::{Recorded, record};
pub use store::{Store, StoreError};
pub use trace::{Touch, Trace};
