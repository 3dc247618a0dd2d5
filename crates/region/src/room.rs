//! Making room: frames for a segment that is about to be written or promoted.
//!
//! Invariant: only [`warmset_placement::KeepSet`] chooses victims, only the state word confirms them. A dirty
//! victim is written first; whoever may wait does, everybody else looks on.

use std::sync::Arc;
use std::sync::atomic::{Ordering, fence};

use parking_lot::MutexGuard;
use warmset_placement::{Class, Key, Verdict};

use crate::segment::Segment;
use crate::state::{Demote, State};
use crate::store::{Ledger, Shared};

/// Dirty victims put in flight at once: enough to keep the device busy while the caller waits for the first.
pub(crate) const WRITES_STARTED_MAX: usize = 16;

/// Segments in `WritingBack` that must be launched once the ledger is unlocked.
pub(crate) type Writes = Vec<Arc<Segment>>;

/// Outcome of [`Shared::make_room`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Room {
    /// These frames are the caller's.
    Frames(u64),
    /// Transfers are in flight that will free some.
    Soon,
    /// What could be demoted cannot be written.
    Stuck,
    /// Everything is held.
    Full,
}

/// Outcome of [`Shared::evict_one`].
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// A victim's frames are free.
    One,
    /// Transfers are in flight that will free some.
    Soon,
    /// What could be demoted cannot be written.
    Stuck,
    /// Everything is held.
    Nothing,
}

/// Somebody who may wait for frames. It is counted before it looks for frames, so that a transfer that ends
/// after the look finds it counted, and comes through the ledger's lock to wake it.
pub(crate) struct Patience<'a> {
    shared: &'a Shared,
}

impl<'a> Patience<'a> {
    pub fn new(shared: &'a Shared) -> Self {
        shared.space_waiters.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Self { shared }
    }

    /// Sleeps until a transfer ends or frames are freed.
    pub fn wait(&self, ledger: &mut MutexGuard<'_, Ledger>) {
        self.shared.space.wait(ledger);
    }
}

impl Drop for Patience<'_> {
    fn drop(&mut self) {
        self.shared.space_waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Shared {
    /// Frames may have become available: wakes whoever waits for some. Called after the change is visible.
    pub fn announce_space(&self) {
        fence(Ordering::SeqCst);
        if self.space_waiters.load(Ordering::SeqCst) > 0 {
            drop(self.lock());
            self.space.notify_all();
        }
    }

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
            if ledger.frames.used() + frames <= limit {
                if let Some(start) = ledger.frames.take(frames) {
                    // There is something to fault in ahead, or a run of cold frames was taken beside warm ones.
                    if ledger.frames.faulted() != ledger.budget_frames {
                        self.keeper.wake();
                    }
                    return Room::Frames(start);
                }
                if self.clear_run(ledger, frames) {
                    continue;
                }
                if patient && ledger.frames.changing() > 0 {
                    // The housekeeper has a frame for a moment.
                    return Room::Soon;
                }
            }
            if frames > ledger.budget_frames {
                // Not even an empty pool has room for it.
                return Room::Full;
            }
            match self.evict_one(ledger, patient, writes) {
                Evicted::One => {}
                Evicted::Soon => return Room::Soon,
                Evicted::Stuck => return Room::Stuck,
                Evicted::Nothing => return Room::Full,
            }
        }
    }

    /// Waits for frames as long as somebody is about to free some, or disk space that is missing for it.
    pub fn wait_for_room(&self, frames: u64) -> Room {
        let patience = Patience::new(self);
        let mut was_stuck = false;
        loop {
            let mut writes = Writes::new();
            let mut ledger = self.lock();
            let limit = self.writers_limit(&ledger, was_stuck);
            match self.make_room(&mut ledger, frames, limit, true, &mut writes) {
                Room::Soon if writes.is_empty() => patience.wait(&mut ledger),
                Room::Soon => {}
                Room::Stuck if !writes.is_empty() => {}
                // A region that is gone has made what was stuck be tried again before: see `forget_if_empty`.
                Room::Stuck if self.space_is_coming() => {
                    was_stuck = true;
                    patience.wait(&mut ledger);
                }
                room => {
                    drop(ledger);
                    self.launch_writes(writes);
                    return room;
                }
            }
            drop(ledger);
            self.launch_writes(writes);
        }
    }

    /// How many frames may be in use after a write. What cannot be written to disk cannot leave its frames: where
    /// there is something on disk to be read, half of the stream reserve is kept from it, or readers would be
    /// left without any.
    fn writers_limit(&self, ledger: &Ledger, was_stuck: bool) -> u64 {
        if (ledger.disk_full || was_stuck) && self.quota.taken_bytes() > 0 {
            ledger.budget_frames - ledger.set.reserve_frames().div_ceil(2)
        } else {
            ledger.budget_frames
        }
    }

    /// Waits for disk space of released regions, if more may have come back than `returns`. False when there is
    /// nothing to wait for.
    pub fn wait_for_return(&self, returns: u64) -> bool {
        let patience = Patience::new(self);
        let mut ledger = self.lock();
        let coming = self.space_is_coming();
        if self.returns.load(Ordering::Acquire) != returns {
            return true;
        }
        if coming {
            patience.wait(&mut ledger);
        }
        coming
    }

    /// Takes one victim, or starts writing some.
    pub fn evict_one(&self, ledger: &mut Ledger, patient: bool, writes: &mut Writes) -> Evicted {
        ledger.try_writes_again_if_due();
        let Ledger { set, members, stuck, disk_full, .. } = ledger;
        let (mut soon, mut blocked) = (false, false);
        let verdict = |key: Key, class: Class| {
            if writes.len() >= WRITES_STARTED_MAX || (class == Class::Keep && patient && soon) {
                return Verdict::Stop;
            }
            let segment = &members[&key];
            match segment.word.demote() {
                Demote::Demoted => Verdict::Take,
                Demote::Parked => Verdict::Held,
                Demote::Busy => {
                    soon = true;
                    Verdict::Busy
                }
                Demote::Dirty if *disk_full || stuck.contains(&key) => {
                    blocked = true;
                    Verdict::Busy
                }
                Demote::Dirty => {
                    if segment.word.begin_write() {
                        writes.push(Arc::clone(segment));
                    }
                    soon = true;
                    Verdict::Busy
                }
            }
        };
        match set.take_victim(verdict, |key| members[&key].score()) {
            Some(key) => {
                self.take_frames_of(ledger, key);
                Evicted::One
            }
            None if soon => Evicted::Soon,
            None if blocked => Evicted::Stuck,
            None => Evicted::Nothing,
        }
    }

    /// A demoted segment's frames go back to the pool. It has left the set already.
    fn take_frames_of(&self, ledger: &mut Ledger, key: Key) {
        if let Some(segment) = ledger.members.remove(&key) {
            ledger.frames.give(self.pool.frame_of(segment.address()), segment.frames());
            if ledger.frames.faulted() > ledger.budget_frames {
                self.keeper.wake();
            }
            self.counters.demotions.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// There are enough free frames but no run of them: empties the run that costs the fewest demotions, if
    /// there is one that holds only free frames and clean segments nobody holds.
    fn clear_run(&self, ledger: &mut Ledger, frames: u64) -> bool {
        let Some(start) = self.cheapest_run(ledger, frames) else { return false };
        let first = self.pool.frame_address(start);
        let last = self.pool.frame_address(start + frames);
        let inside: Vec<Key> = ledger
            .members
            .iter()
            .filter(|(_, segment)| {
                let from = segment.address();
                let to = from + segment.frames() as usize * crate::FRAME_BYTES;
                from < last && first < to
            })
            .map(|(&key, _)| key)
            .collect();
        for key in inside {
            if ledger.members[&key].word.demote() != Demote::Demoted {
                return false;
            }
            ledger.set.remove(key);
            self.take_frames_of(ledger, key);
        }
        true
    }

    fn cheapest_run(&self, ledger: &Ledger, frames: u64) -> Option<u64> {
        const BLOCKED: u64 = u64::MAX / 2;
        let total = (self.pool.frames.len() / crate::FRAME_BYTES) as u64;
        let mut cost: Vec<u64> =
            (0..total).map(|frame| if ledger.frames.is_free(frame) { 0 } else { BLOCKED }).collect();
        for segment in ledger.members.values() {
            let look = segment.word.look();
            if look.state == State::Clean && look.holds == 0 {
                let start = self.pool.frame_of(segment.address());
                cost[start as usize..(start + segment.frames()) as usize].fill(1);
            }
        }
        let mut best: Option<(u64, u64)> = None;
        let mut sum: u128 = 0;
        for end in 0..total {
            sum += u128::from(cost[end as usize]);
            if end >= frames {
                sum -= u128::from(cost[(end - frames) as usize]);
            }
            if end + 1 >= frames
                && sum < u128::from(BLOCKED)
                && best.is_none_or(|(least, _)| (sum as u64) < least)
            {
                best = Some((sum as u64, end + 1 - frames));
            }
        }
        best.map(|(_, start)| start)
    }
}
