//! Bytes of a segment that somebody shows: they hold it, and know how to survive a fork.
//!
//! Invariants: an address that [`Bytes`] gives is that of sealed bytes of a pin that it owns, so nothing changes there
//! until the last clone is gone. A process that is forked inherits the frames of all holds. Whoever has the list's lock
//! waits for nothing, since a thread that forks or drops bytes may have the Python interpreter's lock.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::io;
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, Once, PoisonError};

use arrow_buffer::Buffer;
use warmset_platform::{fork, mm};
use warmset_region::{FRAME_BYTES, Pin};

/// Held segments by their address: bytes, and how often they are held.
type Held = BTreeMap<usize, (usize, usize)>;

// The standard library's lock is one word: a forked child can unlock it, whoever waited for it in the parent.
static HELD: Mutex<Held> = Mutex::new(BTreeMap::new());
static INHERITED: Once = Once::new();
// Not a `Once`: a child that is forked in the middle of one would wait for it for ever.
static WARNED: AtomicBool = AtomicBool::new(false);

/// What a thread that forks keeps until it has: the lock, so that the child does not find it locked by a thread that it
/// does not have, the ranges that are inherited, and why some are not.
struct Forking {
    held: MutexGuard<'static, Held>,
    ranges: Vec<(usize, usize)>,
    problem: Option<io::Error>,
    process: u32,
}

thread_local! {
    static FORKING: RefCell<Option<Forking>> = const { RefCell::new(None) };
}

/// A lock of the standard library. Whoever panics with one of this crate's leaves what it guards whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Has forks noticed from now on. Call it before other threads may fork, which a library does when it is loaded: a
/// process that is forked while the first call is made can make no store of its own. Opening a store calls it, too.
pub fn watch_forks() {
    // Without memory for the handlers, holds are not inherited, as all else of a store.
    INHERITED.call_once(|| drop(fork::on_fork(before_fork, after_fork)));
    let _ = fork::Origin::here();
}

struct Hold {
    address: usize,
    /// Ends the hold when it is dropped, after the list has forgotten it.
    _pin: Pin,
}

impl Hold {
    fn new(pin: Pin) -> Self {
        let (address, len) = (pin.as_ptr() as usize, pin.len());
        lock(&HELD).entry(address).or_insert((len, 0)).1 += 1;
        Self { address, _pin: pin }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = lock(&HELD);
        if let Some(entry) = held.get_mut(&self.address) {
            entry.1 -= 1;
            if entry.1 == 0 {
                held.remove(&self.address);
            }
        }
    }
}

/// Immutable bytes in place.
#[derive(Clone)]
pub struct Bytes {
    start: NonNull<u8>,
    len: usize,
    hold: Option<Arc<Hold>>,
}

// SAFETY: the bytes are immutable as long as the hold is alive, whichever thread reads them or ends the hold.
unsafe impl Send for Bytes {}
// SAFETY: as above.
unsafe impl Sync for Bytes {}

impl Bytes {
    pub(crate) fn new(pin: Pin) -> Self {
        let bytes: &[u8] = &pin;
        let (start, len) = (NonNull::from(bytes).cast(), bytes.len());
        Self { start, len, hold: Some(Arc::new(Hold::new(pin))) }
    }

    pub(crate) fn empty() -> Self {
        Self { start: NonNull::dangling(), len: 0, hold: None }
    }

    /// A part of them.
    ///
    /// # Panics
    /// If it is not within.
    #[must_use]
    pub fn slice(&self, offset: usize, len: usize) -> Self {
        assert!(offset.checked_add(len).is_some_and(|end| end <= self.len), "a slice is within its bytes");
        // SAFETY: `offset` was just seen to be within the same bytes.
        let start = unsafe { self.start.add(offset) };
        Self { start, len, hold: self.hold.clone() }
    }

    /// First address. Valid for reads of [`Bytes::len`] bytes while a clone of this lives, in this process and in
    /// those that are forked from it.
    #[must_use]
    pub fn as_ptr(&self) -> *const u8 {
        self.start.as_ptr()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    pub(crate) fn into_buffer(self) -> Buffer {
        let (start, len) = (self.start, self.len);
        // SAFETY: the bytes stay in place and unchanged while `self` lives, and the buffer owns it.
        unsafe { Buffer::from_custom_allocation(start, len, Arc::new(Owner(self))) }
    }
}

struct Owner(#[allow(dead_code, reason = "it is dropped with the buffer")] Bytes);

// A panic leaves immutable bytes as they are.
impl RefUnwindSafe for Owner {}

/// A store's memory is not inherited by a child, but what is held may be read there; the parent's next writes to these
/// pages go to copies. Threads that begin or end a hold wait until the fork is over.
extern "C" fn before_fork() {
    let held = lock(&HELD);
    let frames = |(&address, &(len, _)): (&usize, &(usize, usize))| {
        let start = address - address % FRAME_BYTES;
        (start, (address + len).next_multiple_of(FRAME_BYTES) - start)
    };
    let ranges: Vec<_> = held.iter().map(frames).collect();
    let problem = advise(&ranges, true).err();
    FORKING.set(Some(Forking { held, ranges, problem, process: std::process::id() }));
}

extern "C" fn after_fork() {
    let Some(Forking { held, ranges, problem, process }) = FORKING.take() else { return };
    let undone = advise(&ranges, false);
    drop(held);
    // The parent alone: in the child, whoever is told may wait for threads that it does not have.
    if process == std::process::id() {
        let problem = problem.or(undone.err()).filter(|_| !WARNED.swap(true, Ordering::Relaxed));
        if let Some(error) = problem {
            tracing::warn!(
                %error,
                "a process that was forked has only a part of the arrays that are held: it crashes when it reads the \
                 others; raise vm.max_map_count, or fork before arrays are read"
            );
        }
    }
}

/// Tries all of them.
///
/// # Errors
/// The first one's. `ENOMEM`: the process has as many mappings as it may, and each range that others lie between is one.
fn advise(ranges: &[(usize, usize)], inherits: bool) -> io::Result<()> {
    let mut outcome = Ok(());
    for &(start, len) in ranges {
        // SAFETY: whole frames of a store, which stay mapped until the process ends, also in a child that has them.
        // Nobody reads into them: no hold's pin ends while this thread has the lock.
        outcome = outcome.and(unsafe { mm::inherit(start, len, inherits) });
    }
    outcome
}
