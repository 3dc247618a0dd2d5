//! Bytes of a segment that somebody shows: they hold it, and know how to survive a fork.
//!
//! Invariant: an address that [`Bytes`] gives is that of sealed bytes of a pin that it owns, so nothing changes there
//! until the last clone is gone. A process that forks between [`keep_over_fork`] calls inherits these pages.

use std::collections::BTreeMap;
use std::panic::RefUnwindSafe;
use std::ptr::NonNull;
use std::sync::{Arc, OnceLock};

use arrow_buffer::Buffer;
use parking_lot::Mutex;
use warmset_platform::mm;
use warmset_region::{FRAME_BYTES, Pin};

/// Held segments by their address: bytes, and how often they are held.
static HELD: OnceLock<Mutex<BTreeMap<usize, (usize, usize)>>> = OnceLock::new();

fn held() -> &'static Mutex<BTreeMap<usize, (usize, usize)>> {
    HELD.get_or_init(Mutex::default)
}

struct Hold {
    address: usize,
    /// Ends the hold when it is dropped.
    _pin: Pin,
}

impl Hold {
    fn new(pin: Pin) -> Self {
        let address = pin.as_ptr() as usize;
        held().lock().entry(address).or_insert((pin.len(), 0)).1 += 1;
        Self { address, _pin: pin }
    }
}

impl Drop for Hold {
    fn drop(&mut self) {
        let mut held = held().lock();
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

/// Called before a fork with true and after it, in the parent, with false: a store's memory is not inherited, but what
/// is held may be read by the child. Its pages are copied when the parent uses them again.
pub fn keep_over_fork(keep: bool) {
    for (&address, &(len, _)) in held().lock().iter() {
        let start = address - address % FRAME_BYTES;
        let end = (address + len).next_multiple_of(FRAME_BYTES);
        // SAFETY: whole frames of a store, which stay mapped until the process ends.
        let advised = unsafe { mm::inherit(start, end - start, keep) };
        debug_assert!(advised.is_ok(), "frames are mapped");
    }
}
