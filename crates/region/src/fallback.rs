//! The last resort when there are no frames: the window, a bounded number of base pages outside of the pool. Writers
//! get buffers there, readers whose segment has no frame have its bytes read into it.
//!
//! Invariant: a slot of the window is one writer's or reader's until it is the segment's, from `Absent → Mapped` to
//! `Mapped → Absent`, both under the ledger's lock; it is filled and emptied with the lock released. No file is
//! mapped: an error of the disk, or a file that somebody truncates, would be a signal in the user's process.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::error::Error;
use crate::ledger::Slot;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::space::SpaceWaiter;
use crate::state::State;
use crate::sync::now;
use warmset_platform::units;

/// How long somebody waits for others to leave the window: whoever holds it may be the one who waits.
const SLOT_WAIT: Duration = Duration::from_secs(2);
/// How often they look whether there are frames in the pool meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Outcome of [`Shared::take_slot_or_wait`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum SlotFound {
    Taken(Slot),
    /// Something may have changed: frames in the pool are better.
    LookAgain,
    /// There is none, and there was none for a while.
    Refused,
}

/// Somebody who waits for a slot, for a limited time.
#[derive(Debug, Default)]
pub(crate) struct SlotWait {
    until: Option<Instant>,
}

impl Shared {
    /// Takes a slot, or waits a moment for one. Whether it is `wanted` is asked with the ledger locked.
    pub fn take_slot_or_wait(
        &self,
        frames: u64,
        wanted: impl Fn() -> bool,
        wait: &mut SlotWait,
    ) -> Result<SlotFound, Error> {
        let waiter = SpaceWaiter::new(&self.space);
        let mut ledger = self.lock()?;
        if !wanted() {
            return Ok(SlotFound::LookAgain);
        }
        if let Some(slot) = ledger.take_slot(frames) {
            return Ok(SlotFound::Taken(slot));
        }
        let now = now();
        let until = *wait.until.get_or_insert(now + SLOT_WAIT);
        if now >= until || !ledger.window_could_have(frames) || self.closed.load(Ordering::Acquire) {
            return Ok(SlotFound::Refused);
        }
        waiter.wait_until(ledger, until.min(now + LOOK_EVERY));
        Ok(SlotFound::LookAgain)
    }

    /// Makes an absent segment readable outside the pool and takes a pin; `None` if it is not absent any more, or there
    /// may be frames for it by now.
    pub fn show(&self, segment: &Arc<Segment>, wait: &mut SlotWait) -> Result<Option<usize>, Error> {
        let frames = segment.frames();
        let is_absent = || {
            let look = segment.word.look();
            look.state == State::Absent && !look.released
        };
        let mut slot = match self.take_slot_or_wait(frames, is_absent, wait)? {
            SlotFound::Taken(slot) => slot,
            SlotFound::LookAgain => return Ok(None),
            SlotFound::Refused => {
                let reason = format!(
                    "{} are on disk, and all memory is pinned by readers or writers",
                    units::bytes(segment.bytes())
                );
                let remedy = format!(
                    "unpin some segments, read with fewer threads, or raise `{}`",
                    self.config.names.budget_bytes
                );
                return Err(Error::NoSpace { place: "this store's memory".to_owned(), reason, remedy });
            }
        };
        let address = self.pool.window_address(slot.first());
        let filled = self.read_to_window(segment, &mut slot);
        let left = if filled.is_ok() { self.lend_slot(segment, slot) } else { Some(slot) };
        if let Some(slot) = left {
            self.empty_slot(slot);
            return filled.map(|()| None);
        }
        self.counters.mapped.fetch_add(1, Ordering::Relaxed);
        self.clock.access(segment);
        Ok(Some(address))
    }

    /// The filled slot becomes the segment's; it is left over if another reader was faster.
    fn lend_slot(&self, segment: &Segment, slot: Slot) -> Option<Slot> {
        let Ok(mut ledger) = self.lock() else { return Some(slot) };
        if segment.word.look().state != State::Absent {
            return Some(slot);
        }
        // Only with the ledger locked does a segment cease to be absent, but by being freed.
        segment.set_address(self.pool.window_address(slot.first()));
        if !segment.word.map() {
            return Some(slot);
        }
        ledger.lend_slot(segment, slot);
        None
    }

    /// Takes the segment out of the window if nobody has it pinned.
    pub fn hide(&self, segment: &Segment) {
        let slot = {
            let Ok(mut ledger) = self.lock() else { return };
            if segment.word.unmap() { ledger.take_back_slot(segment) } else { None }
        };
        slot.into_iter().for_each(|slot| self.empty_slot(slot));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Error, FRAME_BYTES, Store};

    #[test]
    fn without_a_window_nothing_is_lost() {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::open(Config::new(dir.path(), 4 * FRAME_BYTES as u64)).expect("open");
        let region = store.create_region().expect("region");
        (0..8).for_each(|n| assert_eq!(region.write(&vec![n; FRAME_BYTES]).expect("write"), u64::from(n)));
        let mut pins: Vec<_> = (4..8).map(|n| region.pin(n).expect("pin")).collect();
        let slots = (store.shared.pool.window.len() / crate::FRAME_BYTES) as u64;
        let taken = store.shared.lock().expect("it works").take_slot(slots).expect("all of them");

        let error = region.draft(10).expect_err("nowhere");
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains("10 B more"), "{error}");
        let error = region.pin(0).expect_err("nowhere");
        assert!(error.is_no_space() && error.to_string().contains("unpin some"), "{error}");

        store.shared.lock().expect("it works").give_slot(taken);
        assert!(region.pin(0).expect("shown").iter().all(|&byte| byte == 0));
        pins.truncate(0);
        region.write(&[8; 10]).expect("write");
        for n in 0..8 {
            assert!(region.pin(n).expect("pin").iter().all(|&byte| u64::from(byte) == n));
        }
    }
}
