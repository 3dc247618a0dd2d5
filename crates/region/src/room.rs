//! Making room: frames for a segment that is about to be written or promoted.
//!
//! Invariant: only [`warmset_placement::KeepSet`] chooses victims, only the state word confirms them. A dirty
//! victim is written first; whoever may wait does, everybody else looks on. Nothing is evicted that cannot help.

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::ledger::{Evicted, Ledger, Writes};
use crate::shared::Shared;
use crate::space::SpaceWaiter;

/// Outcome of [`Shared::make_room`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// These frames are the caller's.
    Frames(u64),
    /// Transfers are in flight that will free some.
    Soon,
    /// What could be demoted cannot be written.
    Stuck,
    /// Everything is pinned.
    Full,
}

impl Shared {
    /// Finds `frames` contiguous free frames, with no more than `limit` in use then, demoting others. With
    /// `patient`, keep members are spared while passing segments are being written out.
    pub fn make_room(
        &self,
        ledger: &mut Ledger,
        frames: u64,
        limit: u64,
        patient: bool,
        writes: &mut Writes,
    ) -> Room {
        loop {
            let fits = ledger.frames().used() + frames <= limit;
            if let Some(start) = if fits { ledger.take(frames) } else { None } {
                // There is something to fault in ahead, or a run of cold frames was taken beside warm ones.
                if ledger.frames().faulted() != ledger.budget_frames() {
                    self.keeper.wake();
                }
                return Room::Frames(start);
            }
            // The housekeeper has a frame for a moment.
            let is_changing = patient && fits && ledger.frames().changing() > 0;
            let evicted = match frames {
                1 if is_changing => return Room::Soon,
                1 => ledger.evict_one(patient, writes),
                _ if fits => ledger.clear_run(frames, writes),
                // Not even an empty pool has room for it, or somebody has pinned a part of every run.
                _ if !ledger.could_have(frames) => Evicted::Nothing,
                _ => ledger.evict_one(patient, writes),
            };
            match evicted {
                Evicted::Some(demoted) => self.count_demotions(ledger, demoted),
                Evicted::Soon => return Room::Soon,
                Evicted::Nothing if is_changing => return Room::Soon,
                Evicted::Stuck => return Room::Stuck,
                Evicted::Nothing => return Room::Full,
            }
        }
    }

    /// So many segments have lost their frames.
    pub fn count_demotions(&self, ledger: &Ledger, demoted: u64) {
        self.counters.demotions.fetch_add(demoted, Ordering::Relaxed);
        if ledger.frames().faulted() > ledger.budget_frames() {
            self.keeper.wake();
        }
    }

    /// Waits for frames as long as somebody is about to free some, or disk space that is missing for it.
    pub fn wait_for_room(&self, frames: u64) -> Result<Room, Error> {
        let waiter = SpaceWaiter::new(&self.space);
        let mut was_stuck = false;
        loop {
            let mut writes = Writes::new();
            let mut ledger = self.lock()?;
            let limit = self.writers_limit(&ledger, was_stuck);
            match self.make_room(&mut ledger, frames, limit, true, &mut writes) {
                Room::Soon if writes.is_empty() => waiter.wait(ledger),
                Room::Soon => drop(ledger),
                Room::Stuck if !writes.is_empty() => drop(ledger),
                // A region that is gone has made what was stuck be tried again before: see `forget_if_empty`.
                Room::Stuck if self.space_is_coming() => {
                    was_stuck = true;
                    waiter.wait(ledger);
                }
                room => {
                    drop(ledger);
                    self.launch_writes(writes);
                    return Ok(room);
                }
            }
            self.launch_writes(writes);
        }
    }

    /// How many frames may be in use after a write. What cannot be written to disk cannot leave its frames: where
    /// there is something on disk to be read, half of the stream reserve is kept from it, or readers would be
    /// left without any.
    fn writers_limit(&self, ledger: &Ledger, was_stuck: bool) -> u64 {
        if (ledger.disk().disk_is_full() || was_stuck) && self.devices.taken_bytes() > 0 {
            ledger.budget_frames() - ledger.reserve_frames().div_ceil(2)
        } else {
            ledger.budget_frames()
        }
    }

    /// Waits for disk space of released regions, if more may have come back than `returns`. False when there is
    /// nothing to wait for.
    pub fn wait_for_return(&self, returns: u64) -> Result<bool, Error> {
        let waiter = SpaceWaiter::new(&self.space);
        let ledger = self.lock()?;
        let coming = self.space_is_coming();
        if ledger.disk().returns() != returns {
            return Ok(true);
        }
        if coming {
            waiter.wait(ledger);
        }
        Ok(coming)
    }
}
