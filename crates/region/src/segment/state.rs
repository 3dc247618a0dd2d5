//! The state word: a segment's state, flags and pin count in one atomic.
//!
//! ```text
//! Writing ─seal→ Dirty ─begin_write→ WritingBack ─end_write→ Clean ─demote→ Absent
//!    └─begin_seal→ Sealing ─end_seal (bounce)─→ Absent | Writing (error)
//! Absent ─begin_promote→ Promoting ─end_promote→ Clean | Absent (error);  Absent ─map→ Mapped ─unmap→ Absent
//! any state at rest, released, no pin ─free→ Freed
//! ```
//! Invariants (checked by `tests/loom.rs`): a segment that is being written has one pin, its writer's, which ends
//! with the seal or `abandon`; readers' pins are only counted up in a readable or promoting state; `demote`,
//! `unmap` and `free` need a count of zero in the same compare-and-swap, so a pinned segment keeps its bytes;
//! exactly one caller wins `free`. `RELEASED` forbids new pins; `PARKED` asks the last reader to tell the
//! keep-set that the segment may be a victim again; `RAW` says that the writer knows an address only, and that a
//! release ends its pin. The steps into a transfer and out of it are [`Moving`](super::Moving)'s.

use crate::failure::invariant;

#[cfg(loom)]
use loom::sync::atomic::{AtomicU64, Ordering};
#[cfg(shuttle)]
use shuttle::sync::atomic::{AtomicU64, Ordering};
#[cfg(not(any(loom, shuttle)))]
use std::sync::atomic::{AtomicU64, Ordering};

const STATE: u64 = 0xff;
const PARKED: u64 = 1 << 8;
const RELEASED: u64 = 1 << 9;
const RAW: u64 = 1 << 10;
const ONE_PIN: u64 = 1 << 32;

/// Where a segment's bytes are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum State {
    /// Its writer has it pinned; nobody reads it. Without a pin: given up, about to be freed.
    Writing,
    /// Sealed outside the pool, on its way to disk; nobody reads it.
    Sealing,
    /// Resident, not on disk.
    Dirty,
    /// Resident, on its way to disk.
    WritingBack,
    /// Resident and on disk.
    Clean,
    /// On its way from disk.
    Promoting,
    /// On disk only.
    Absent,
    /// Readable in a slot of the window.
    Mapped,
    /// Gone.
    Freed,
}

use State::{Absent, Clean, Dirty, Freed, Mapped, Promoting, Sealing, Writing, WritingBack};

impl State {
    fn of(word: u64) -> State {
        match (word & STATE) as u8 {
            0 => Writing,
            1 => Sealing,
            2 => Dirty,
            3 => WritingBack,
            4 => Clean,
            5 => Promoting,
            6 => Absent,
            7 => Mapped,
            _ => Freed,
        }
    }

    fn readable(self) -> bool {
        matches!(self, Dirty | WritingBack | Clean | Mapped)
    }

    fn in_pool(self) -> bool {
        matches!(self, Dirty | WritingBack | Clean | Promoting)
    }
}

/// One look at the word.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Look {
    pub state: State,
    pub pins: u32,
    pub released: bool,
}

impl Look {
    /// Pins that are not the writer's.
    pub fn readers(self) -> u32 {
        if matches!(self.state, Writing | Sealing) { 0 } else { self.pins }
    }

    /// Whether the segment's bytes lie in pool frames that a pin keeps.
    pub fn resident(self) -> bool {
        self.state.in_pool() && self.state != Promoting
    }
}

/// Outcome of [`StateWord::pin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pinned {
    /// Pinned and readable.
    Ready,
    /// Pinned; bytes are on their way.
    Pending,
    /// Not pinned: somebody has to promote it.
    Absent,
    /// Not pinned: not sealed yet.
    Unsealed,
    /// Not pinned: released.
    Gone,
}

/// Outcome of [`StateWord::unpin`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Unpinned {
    /// Others have it pinned, or nothing is to be done.
    Done,
    /// This was the last pin and somebody waits for that.
    Last { was_parked: bool, released: bool, mapped: bool },
    /// There was no pin.
    Underflow,
}

/// Outcome of [`StateWord::demote`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Demote {
    /// Absent now: its frames are the caller's.
    Demoted,
    /// Pinned, and marked so that the last reader reports it.
    Parked,
    /// Must be written first.
    Dirty,
    /// A transfer is in flight, or it is being freed.
    Busy,
}

#[derive(Debug)]
pub(crate) struct StateWord(AtomicU64);

impl StateWord {
    pub fn new(state: State) -> Self {
        Self(AtomicU64::new(state as u64))
    }

    /// A segment that is being written: pinned by its writer, which a release ends if it is `raw`.
    pub fn writing(raw: bool) -> Self {
        Self(AtomicU64::new(Writing as u64 + ONE_PIN + if raw { RAW } else { 0 }))
    }

    pub fn look(&self) -> Look {
        let word = self.0.load(Ordering::Acquire);
        Look { state: State::of(word), pins: pins(word), released: word & RELEASED != 0 }
    }

    /// Counts a pin if the segment is readable or about to be.
    pub fn pin(&self) -> Pinned {
        self.change(|word| match State::of(word) {
            Freed => Err(Pinned::Gone),
            _ if word & RELEASED != 0 => Err(Pinned::Gone),
            Writing | Sealing => Err(Pinned::Unsealed),
            Absent => Err(Pinned::Absent),
            Promoting => Ok((word + ONE_PIN, Pinned::Pending)),
            Dirty | WritingBack | Clean | Mapped => Ok((word + ONE_PIN, Pinned::Ready)),
        })
    }

    /// Counts a pin if the segment is readable now.
    pub fn pin_ready(&self) -> bool {
        self.change(|word| {
            if State::of(word).readable() && word & RELEASED == 0 {
                Ok((word + ONE_PIN, true))
            } else {
                Err(false)
            }
        })
    }

    /// Drops a reader's pin.
    pub fn unpin(&self) -> Unpinned {
        self.change(|word| match pins(word) {
            0 => Err(Unpinned::Underflow),
            // The pin is the writer's.
            _ if matches!(State::of(word), Writing | Sealing) => Err(Unpinned::Underflow),
            1 => {
                let (was_parked, released) = (word & PARKED != 0, word & RELEASED != 0);
                let mapped = State::of(word) == Mapped;
                let outcome = if was_parked || released || mapped {
                    Unpinned::Last { was_parked, released, mapped }
                } else {
                    Unpinned::Done
                };
                Ok(((word - ONE_PIN) & !PARKED, outcome))
            }
            _ => Ok((word - ONE_PIN, Unpinned::Done)),
        })
    }

    /// The writer is done, and its pin ends; false if the segment was released.
    pub fn seal(&self) -> bool {
        self.change(|word| match State::of(word) {
            Writing if word & RELEASED == 0 => Ok((with(word, Dirty) - ONE_PIN, true)),
            _ => Err(false),
        })
    }

    /// The writer is done, and the bytes go to disk at once. Until `end_seal` nobody frees them.
    pub(super) fn begin_seal(&self) -> bool {
        self.change(|word| match State::of(word) {
            Writing if word & RELEASED == 0 => Ok((with(word, Sealing), true)),
            _ => Err(false),
        })
    }

    /// Ends the writer's pin; what could not be written is lost, and released.
    pub(super) fn end_seal(&self, written: bool) {
        let moved = self.change(|word| match State::of(word) {
            Sealing if written => Ok((with(word, Absent) - ONE_PIN, true)),
            Sealing => Ok(((with(word, Writing) | RELEASED) - ONE_PIN, true)),
            _ => Err(false),
        });
        invariant(moved, || "a seal ended that had not begun".to_owned());
    }

    /// The writer gives up: releases the segment and ends the writer's pin.
    pub fn abandon(&self) -> bool {
        self.change(|word| match State::of(word) {
            Writing if pins(word) > 0 => Ok(((word | RELEASED) - ONE_PIN, true)),
            _ => Err(false),
        })
    }

    pub(super) fn begin_write(&self) -> bool {
        self.step(Dirty, WritingBack)
    }

    pub(super) fn end_write(&self, written: bool) {
        let moved = self.step(WritingBack, if written { Clean } else { Dirty });
        invariant(moved, || "a write-back ended that had not begun".to_owned());
    }

    /// Takes the frames from a segment that nobody has pinned and that is on disk.
    pub fn demote(&self) -> Demote {
        self.change(|word| match State::of(word) {
            Clean | Dirty if pins(word) > 0 => Ok((word | PARKED, Demote::Parked)),
            Promoting | WritingBack if pins(word) > 0 => Ok((word | PARKED, Demote::Parked)),
            _ if word & RELEASED != 0 => Err(Demote::Busy),
            Clean => Ok((with(word, Absent), Demote::Demoted)),
            Dirty => Err(Demote::Dirty),
            _ => Err(Demote::Busy),
        })
    }

    /// Has the last reader report it, if there is one; it would not be demoted now.
    pub fn park_if_pinned(&self) -> bool {
        self.change(|word| match State::of(word) {
            Clean | Dirty | Promoting | WritingBack if pins(word) > 0 => Ok((word | PARKED, true)),
            _ => Err(false),
        })
    }

    /// Starts a promotion and counts the pin of whoever asked for it.
    pub(super) fn begin_promote(&self) -> bool {
        self.leave_absent(Promoting)
    }

    pub(super) fn end_promote(&self, read: bool) {
        let moved = self.step(Promoting, if read { Clean } else { Absent });
        invariant(moved, || "a promotion ended that had not begun".to_owned());
    }

    /// It was read to the window in place of frames; counts the pin of whoever asked for it.
    pub fn map(&self) -> bool {
        self.leave_absent(Mapped)
    }

    /// Ends the mapping if nobody has it pinned.
    pub fn unmap(&self) -> bool {
        self.change(|word| match State::of(word) {
            Mapped if pins(word) == 0 => Ok((with(word, Absent), true)),
            _ => Err(false),
        })
    }

    /// Forbids new pins. The first release of a segment that is being written raw ends its writer's pin.
    pub fn release(&self) {
        self.change(|word| match State::of(word) {
            _ if word & RELEASED != 0 => Err(()),
            Writing if word & RAW != 0 => Ok(((word | RELEASED) - ONE_PIN, ())),
            _ => Ok((word | RELEASED, ())),
        });
    }

    /// Ends a released segment at rest that nobody has pinned; the caller that gets its last state frees it.
    pub fn free(&self) -> Option<State> {
        self.change(|word| {
            let state = State::of(word);
            let at_rest = matches!(state, Writing | Dirty | Clean | Absent);
            if at_rest && word & RELEASED != 0 && pins(word) == 0 {
                Ok((with(word, Freed), Some(state)))
            } else {
                Err(None)
            }
        })
    }

    fn leave_absent(&self, state: State) -> bool {
        self.change(|word| match State::of(word) {
            Absent if word & RELEASED == 0 => Ok((with(word, state) + ONE_PIN, true)),
            _ => Err(false),
        })
    }

    fn step(&self, from: State, to: State) -> bool {
        self.change(|word| if State::of(word) == from { Ok((with(word, to), true)) } else { Err(false) })
    }

    /// Applies `next` atomically; `Err` leaves the word alone.
    fn change<T>(&self, next: impl Fn(u64) -> Result<(u64, T), T>) -> T {
        let mut word = self.0.load(Ordering::Acquire);
        loop {
            match next(word) {
                Err(outcome) => return outcome,
                Ok((new, outcome)) => {
                    match self.0.compare_exchange_weak(word, new, Ordering::AcqRel, Ordering::Acquire) {
                        Ok(_) => return outcome,
                        Err(actual) => word = actual,
                    }
                }
            }
        }
    }
}

fn pins(word: u64) -> u32 {
    (word >> 32) as u32
}

fn with(word: u64, state: State) -> u64 {
    (word & !STATE) | state as u64
}

#[cfg(all(test, not(any(loom, shuttle))))]
#[path = "state_tests.rs"]
mod tests;
