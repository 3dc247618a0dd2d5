//! The asynchronous queue: submit a read or write, be called back once it is whole.
//!
//! Invariant: `done` runs exactly once per request, after the last byte has moved or with an error, and
//! never inside [`IoQueue::submit`]'s locks. Short transfers are continued here; callers never see them.

use std::fmt;
use std::io;
use std::sync::Arc;

use super::DataFile;
#[cfg(any(shuttle, miri))]
use super::simulated::{ThreadQueue, UringQueue};
#[cfg(not(any(shuttle, miri)))]
use super::threads::ThreadQueue;
use super::turns::Urgency;
#[cfg(not(any(shuttle, miri)))]
use super::uring::UringQueue;

/// Direction of a request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Op {
    /// File to memory.
    Read,
    /// Memory to file.
    Write,
}

/// Called once with the outcome, on a thread of the queue.
pub type Done = Box<dyn FnOnce(io::Result<()>) + Send>;

/// One transfer of `len` bytes between memory and a file.
pub struct Request {
    /// Direction.
    pub op: Op,
    /// The file, kept open until the transfer is over.
    pub file: Arc<DataFile>,
    /// First byte of memory, aligned to [`super::DIRECT_ALIGN_BYTES`].
    pub address: usize,
    /// Bytes to move, a multiple of [`super::DIRECT_ALIGN_BYTES`].
    pub len: usize,
    /// First byte in the file, aligned likewise.
    pub offset: u64,
    /// Which of those that wait goes first.
    pub urgency: Urgency,
    /// Names it to [`IoQueue::hasten`].
    pub tag: u64,
    /// Told the outcome.
    pub done: Done,
}

impl Request {
    /// Lets go of the file, then tells the outcome: whoever is told may count on the file being closed once they
    /// let go of it too.
    pub(super) fn finish(self, outcome: io::Result<()>) {
        drop(self.file);
        (self.done)(outcome);
    }
}

/// Which mechanism to use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum IoChoice {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// io_uring or an error.
    IoUring,
    /// A small pool of threads with `pread`/`pwrite`.
    Threads,
}

/// The mechanism in use.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// io_uring.
    IoUring,
    /// Threads.
    Threads,
}

impl fmt::Display for Backend {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Backend::IoUring => "io_uring",
            Backend::Threads => "threads",
        })
    }
}

/// Asked before each request; an error it returns is the request's outcome. For fault injection.
pub type FaultHook = Arc<dyn Fn(Op, u64, usize) -> Option<io::Error> + Send + Sync>;

/// A queue of transfers. Dropping it waits for those in flight.
pub struct IoQueue {
    inner: Inner,
    faults: Option<FaultHook>,
}

enum Inner {
    Uring(UringQueue),
    Threads(ThreadQueue),
}

impl IoQueue {
    /// Starts a queue with its own thread(s).
    ///
    /// # Errors
    /// When io_uring was demanded and the kernel refuses it, or no thread can be started.
    pub fn start(choice: IoChoice, faults: Option<FaultHook>) -> io::Result<Self> {
        let inner = match choice {
            IoChoice::IoUring => Inner::Uring(UringQueue::start()?),
            IoChoice::Threads => Inner::Threads(ThreadQueue::start()?),
            IoChoice::Auto => match UringQueue::start() {
                Ok(queue) => Inner::Uring(queue),
                Err(_) => Inner::Threads(ThreadQueue::start()?),
            },
        };
        Ok(Self { inner, faults })
    }

    /// The mechanism in use.
    #[must_use]
    pub fn backend(&self) -> Backend {
        match self.inner {
            Inner::Uring(_) => Backend::IoUring,
            Inner::Threads(_) => Backend::Threads,
        }
    }

    /// Somebody waits for a prefetch: if it has not started, it is [`Urgency::Demand`] from now on.
    pub fn hasten(&self, tag: u64) {
        match &self.inner {
            Inner::Uring(queue) => queue.hasten(tag),
            Inner::Threads(queue) => queue.hasten(tag),
        }
    }

    /// Queues a transfer; never waits for it.
    ///
    /// # Safety
    /// `[address, address + len)` must stay mapped until `done` has run; for a read nobody else may look at
    /// it, for a write nobody may change it, until then.
    pub unsafe fn submit(&self, request: Request) {
        if let Some(hook) = &self.faults {
            if let Some(error) = hook(request.op, request.offset, request.len) {
                return request.finish(Err(error));
            }
        }
        match &self.inner {
            Inner::Uring(queue) => queue.submit(request),
            Inner::Threads(queue) => queue.submit(request),
        }
    }
}

/// What a transfer that moved zero bytes means.
pub(super) fn stalled(op: Op) -> io::Error {
    match op {
        Op::Read => io::Error::new(
            io::ErrorKind::UnexpectedEof,
            "the file ends before the data that was written to it",
        ),
        Op::Write => io::Error::new(io::ErrorKind::WriteZero, "the file takes no more bytes"),
    }
}
