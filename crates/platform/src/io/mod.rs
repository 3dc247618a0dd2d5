//! File I/O past the page cache: data files, and queues that read and write them asynchronously.
//!
//! Invariant: memory named in a [`Request`] belongs to the queue until the request's `done` has run.
//! Nothing here knows of regions; offsets and lengths are plain bytes, aligned by the caller.

mod file;
mod lock;
mod publish;
mod queue;
mod threads;
mod uring;

pub(crate) use file::open_nameless;
pub use file::{DIRECT_ALIGN_BYTES, DataFile};
pub use lock::{FileLock, TryLock};
pub use publish::Publish;
pub use queue::{Backend, Done, FaultHook, IoChoice, IoQueue, Op, Request};
