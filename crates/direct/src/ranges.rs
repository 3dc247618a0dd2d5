//! Locks on ranges of files, between all writers of a user that have the library: writes that overlap do not mix.
//!
//! Invariants:
//! - A range is all words of its blocks of 64 KiB, taken in the order of their indices. Who finds one taken gives back
//!   what it has before it waits: nobody holds one word and waits for another.
//! - A word names its holder: process, thread and, where a signal handler writes while its thread does, how deep. What
//!   the thread itself holds is not waited for; the write that was interrupted is then done once more, while it still
//!   holds its range, so that the handler's comes before it as a whole.
//! - A holder that has died is found out and its words are taken over. One that lives but does not give back, because it
//!   was stopped or left the write by a jump, holds others up for [`WAITS_MAX`] waits.

use core::sync::atomic::{AtomicU32, AtomicUsize, Ordering};

use crate::shared::{self, Identity, LOCKS};
use crate::{kernel, thread};

const BLOCK: usize = 64 << 10;
const FREE: u32 = 0;
/// Somebody waits for the word.
const AWAITED: u32 = 1 << 31;
const PROCESS_SHIFT: u32 = 21;
const DEPTH_SHIFT: u32 = 19;
const DEPTH_MAX: u32 = 3;
const THREADS: usize = (1 << DEPTH_SHIFT) - 1;
/// What of a word tells threads apart.
const WHO: u32 = !(AWAITED | DEPTH_MAX << DEPTH_SHIFT);

/// Looks before waiting: a small write takes less.
const SPINS: u32 = 200;
/// The first wait; each next one takes twice as long, up to the last.
const WAIT_MS_FIRST: i64 = 2;
const WAIT_MS_LAST: i64 = 50;
/// After so many waits without a sign of life the holder is taken for gone: some 2 s.
const WAITS_MAX: u32 = 40;

static NEXT_THREAD: AtomicUsize = AtomicUsize::new(0);

/// A write in progress, and its range.
pub struct Guard {
    holder: u32,
    first: usize,
    count: usize,
}

/// Locks a range of at least a byte; none if that is not possible. One locked instruction if it is one block that nobody
/// has.
#[inline(always)]
pub fn lock(identity: Identity, offset: usize, bytes: usize) -> Option<Guard> {
    let process = shared::own_number()? as u32;
    let (block, last) = (offset / BLOCK, offset.checked_add(bytes)?.checked_sub(1)? / BLOCK);
    let thread = thread::own();
    if thread.number.get() == 0 {
        thread.number.set((NEXT_THREAD.fetch_add(1, Ordering::Relaxed) % THREADS) as u32 + 1);
    }
    let depth = thread.depth.get();
    thread.depth.set(depth.saturating_add(1));
    let holder = process << PROCESS_SHIFT | depth.min(DEPTH_MAX) << DEPTH_SHIFT | thread.number.get();
    let first = (identity.first_lock() + block) % LOCKS;
    let guard = Guard { holder, first, count: (last - block + 1).min(LOCKS) };
    if guard.count != 1 || !guard.change_one(FREE, holder, Ordering::Acquire) {
        guard.take_or_wait();
    }
    Some(guard)
}

/// Neighbouring blocks have words in different cache lines.
fn word(index: usize) -> Option<&'static AtomicU32> {
    const LINES: usize = LOCKS / 16;
    shared::lock_word(index % LINES * 16 + index / LINES)
}

impl Guard {
    /// The word of a guard that has one.
    #[inline(always)]
    fn change_one(&self, from: u32, to: u32, order: Ordering) -> bool {
        word(self.first).is_some_and(|word| word.compare_exchange(from, to, order, Ordering::Relaxed).is_ok())
    }

    #[inline(never)]
    fn take_or_wait(&self) {
        while let Err((at, seen)) = self.take() {
            self.give_back();
            wait(at, seen);
        }
    }

    /// In ascending order; the range may go around the end of the table.
    fn indices(&self) -> impl Iterator<Item = usize> + use<> {
        let end = self.first + self.count;
        (0..end.saturating_sub(LOCKS)).chain(self.first..end.min(LOCKS))
    }

    /// Takes all words; else says which one is another's.
    fn take(&self) -> Result<(), (usize, u32)> {
        for index in self.indices() {
            let Some(word) = word(index) else { continue };
            let mut spins = 0;
            while let Err(seen) =
                word.compare_exchange(FREE, self.holder, Ordering::Acquire, Ordering::Relaxed)
            {
                if seen & WHO == self.holder & WHO {
                    break;
                }
                spins += 1;
                if spins > SPINS {
                    return Err((index, seen));
                }
                core::hint::spin_loop();
            }
        }
        Ok(())
    }

    #[inline(never)]
    fn give_back(&self) {
        for word in self.indices().filter_map(word) {
            if word.compare_exchange(self.holder, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
                continue;
            }
            let awaited = self.holder | AWAITED;
            if word.compare_exchange(awaited, FREE, Ordering::Release, Ordering::Relaxed).is_ok() {
                kernel::wake_all(word);
            }
        }
    }

    /// Whether a signal handler of this thread wrote since this was asked last.
    pub fn was_interrupted(&self) -> bool {
        thread::own().was_interrupted.replace(0) != 0
    }
}

impl Drop for Guard {
    #[inline(always)]
    fn drop(&mut self) {
        // In a child of `fork` the words are the parent's.
        let is_own = shared::known_number() == Some((self.holder >> PROCESS_SHIFT) as usize);
        if is_own && (self.count != 1 || !self.change_one(self.holder, FREE, Ordering::Release)) {
            self.give_back();
        }
        let thread = thread::own();
        let depth = thread.depth.get().saturating_sub(1);
        thread.depth.set(depth);
        thread.was_interrupted.set(u32::from(depth > 0));
    }
}

/// Until another's word is free, or was taken from one that does not live any more.
fn wait(index: usize, mut seen: u32) {
    let Some(word) = word(index) else { return };
    let holder = seen & !AWAITED;
    for waits in 0..=WAITS_MAX {
        if seen & AWAITED == 0 {
            if word.compare_exchange(seen, seen | AWAITED, Ordering::Relaxed, Ordering::Relaxed).is_err() {
                return;
            }
            seen |= AWAITED;
        }
        let is_overdue = kernel::wait_while(word, seen, (WAIT_MS_FIRST << waits.min(8)).min(WAIT_MS_LAST));
        if !is_overdue || word.load(Ordering::Relaxed) != seen {
            return;
        }
        let process = (holder >> PROCESS_SHIFT) as usize;
        if waits == WAITS_MAX || !shared::is_alive(process) {
            if word.compare_exchange(seen, FREE, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
                kernel::wake_all(word);
            }
            return;
        }
    }
}

/// A process that had this number has ended: what it held is free.
pub fn release_all_of(process: usize) {
    for word in (0..LOCKS).filter_map(word) {
        let seen = word.load(Ordering::Relaxed);
        if seen != FREE && ((seen & !AWAITED) >> PROCESS_SHIFT) as usize == process {
            let _ = word.compare_exchange(seen, FREE, Ordering::AcqRel, Ordering::Relaxed);
            kernel::wake_all(word);
        }
    }
}
