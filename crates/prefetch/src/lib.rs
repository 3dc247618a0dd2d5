//! Warm starts: records what a program reads, and prefetches it on later runs.
//!
//! A [`Trace`] is what one run touched, in order of time. A [`Profile`] is what is kept of it: ranges of files, divided
//! into bursts, each with the trigger that starts its fetching. [`replay`] follows a later run and fetches. The program
//! itself is never changed or delayed.

pub mod analysis;
mod elf;
mod fetch;
mod limits;
mod pattern;
mod profile;
mod record;
mod replay;
mod store;
mod trace;

pub use fetch::{Fetched, Fetcher, Piece, is_resident, pieces};
pub use limits::Limits;
pub use pattern::{matches, words};
pub use profile::{Burst, FileRecord, FormatError, Profile, Read, Recorder, Trigger, VERSION, total_bytes};
pub use record::{Invocation, Learned, Options, learn};
pub use replay::{Choice, replay, replay_at_once};
pub use store::{Store, StoreError};
pub use trace::{Open, Touch, Trace};
