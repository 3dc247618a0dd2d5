//! File I/O past the page cache: data files, and queues that read and write them asynchronously.
//!
//! Invariant: memory named in a [`Request`] belongs to the queue until the request's `done` has run.
//! Nothing here knows of regions; offsets and lengths are plain bytes, aligned by the caller.

#[cfg_attr(any(shuttle, miri), allow(dead_code))]
mod file;
#[cfg(not(any(shuttle, miri)))]
mod lock;
#[cfg(not(any(shuttle, miri)))]
mod publish;
mod queue;
#[cfg(any(shuttle, miri))]
mod simulated;
#[cfg(not(any(shuttle, miri)))]
mod threads;
#[cfg_attr(any(shuttle, miri), allow(dead_code))]
mod turns;
#[cfg(not(any(shuttle, miri)))]
mod uring;

pub(crate) use file::open_nameless;
#[cfg(not(any(shuttle, miri)))]
pub use file::{DIRECT_ALIGN_BYTES, DataFile};
#[cfg(not(any(shuttle, miri)))]
pub use lock::{FileLock, TryLock};
#[cfg(not(any(shuttle, miri)))]
pub use publish::{Publish, remove_all_abandoned};
pub use queue::{Backend, Done, FaultHook, IoChoice, IoQueue, Op, Request};
#[cfg(any(shuttle, miri))]
pub use simulated::{Appended, DIRECT_ALIGN_BYTES, DataFile, Disk, Publish};
pub use turns::Urgency;
