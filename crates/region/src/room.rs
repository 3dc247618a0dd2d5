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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::Store;
    use crate::{Config, FRAME_BYTES};

    /// A store without background threads, so that only the test moves anything; all its frames are taken.
    fn quiet_store() -> (tempfile::TempDir, Store, u64) {
        let dir = tempfile::tempdir().expect("dir");
        let shared = Shared::open(Config::new(dir.path(), 16 * FRAME_BYTES as u64)).expect("open");
        let store = Store { shared };
        let mut ledger = store.shared.lock().expect("it works");
        let all = ledger.budget_frames();
        assert_eq!(ledger.take(all), Some(0));
        drop(ledger);
        (dir, store, all)
    }

    /// What is asked of a full pool, in which nobody can be demoted.
    fn room(store: &Store, ledger: &mut Ledger, frames: u64, limit: u64, patient: bool) -> Room {
        let mut writes = Writes::new();
        let room = store.shared.make_room(ledger, frames, limit, patient, &mut writes);
        assert!(writes.is_empty());
        room
    }

    #[test]
    fn frames_are_given_out_up_to_the_limit_and_what_the_housekeeper_holds_is_waited_for() {
        let (_dir, store, all) = quiet_store();
        let mut ledger = store.shared.lock().expect("it works");
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Full);
        assert_eq!(
            room(&store, &mut ledger, 1, all + 1, true),
            Room::Full,
            "there are no more than there are"
        );
        ledger.give(3, 1);
        assert_eq!(room(&store, &mut ledger, 1, all - 1, true), Room::Full, "that many are in use");
        let changing = ledger.frames_mut().begin_drain().expect("it is warm");
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Soon);
        assert_eq!(room(&store, &mut ledger, 1, all, false), Room::Full, "who may not wait gets an answer");
        assert_eq!(room(&store, &mut ledger, 1, all - 1, true), Room::Full, "it would be one too many");
        ledger.give(5, 1);
        assert_eq!(room(&store, &mut ledger, 2, all, true), Room::Soon);
        ledger.frames_mut().end_drain(changing, true);
        assert_eq!(room(&store, &mut ledger, 2, all, true), Room::Full, "the free ones are no neighbours");
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Frames(5), "warm ones first");
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Frames(3));
    }

    #[test]
    fn nobody_loses_a_frame_while_one_is_about_to_be_free() {
        let (_dir, store, all) = quiet_store();
        store.shared.lock().expect("it works").give(1, 1);
        let region = store.create_region().expect("region");
        region.write(&[1; 10]).expect("write");
        let mut ledger = store.shared.lock().expect("it works");
        ledger.give(3, 1);
        let changing = ledger.frames_mut().begin_drain().expect("it is warm");
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Soon, "nothing is written for it");
        ledger.frames_mut().end_drain(changing, false);
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Frames(3));
        let mut writes = Writes::new();
        assert_eq!(store.shared.make_room(&mut ledger, 1, all, true, &mut writes), Room::Soon);
        assert_eq!(writes.len(), 1, "now it has to leave");
        drop(ledger);
        store.shared.launch_writes(writes);
        store.shared.drain_transfers();
    }

    #[test]
    fn the_housekeeper_is_woken_where_there_is_something_for_it_to_do() {
        let (_dir, store, all) = quiet_store();
        let keeper = &store.shared.keeper;
        let mut ledger = store.shared.lock().expect("it works");
        ledger.give(0, 2);
        keeper.was_woken();
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Frames(0));
        assert!(!keeper.was_woken(), "all frames have pages");
        store.shared.count_demotions(&ledger, 1);
        assert!(!keeper.was_woken(), "no more of them than the budget allows");
        let drained = ledger.frames_mut().begin_drain().expect("it is warm");
        ledger.frames_mut().end_drain(drained, true);
        ledger.give(0, 1);
        assert_eq!(room(&store, &mut ledger, 1, all, true), Room::Frames(0));
        assert!(keeper.was_woken(), "one could be faulted in ahead");
        ledger.set_budget(8);
        store.shared.count_demotions(&ledger, 1);
        assert!(keeper.was_woken(), "some have to go");
    }

    #[test]
    fn disk_space_is_waited_for_while_there_is_some_to_come() {
        let (_dir, store, _) = quiet_store();
        let returns = store.shared.lock().expect("it works").disk().returns();
        assert!(!store.shared.wait_for_return(returns).expect("it works"), "nobody leaves");
        store.shared.lock().expect("it works").disk_mut().space_returned();
        assert!(store.shared.wait_for_return(returns).expect("it works"), "some came back meanwhile");
        assert!(!store.shared.wait_for_return(returns + 1).expect("it works"));
    }

    #[test]
    fn a_run_is_made_beside_what_is_free() {
        let (_dir, store, all) = quiet_store();
        store.shared.lock().expect("it works").give(1, 4);
        let region = store.create_region().expect("region");
        let bytes = vec![1; FRAME_BYTES];
        (0..4).for_each(|n| assert_eq!(region.write(&bytes).expect("write"), n));
        // The two in the middle are the ones to go if it were only for frames.
        for outer in [0, 3] {
            drop(region.pin(outer).expect("pin"));
        }
        let mut ledger = store.shared.lock().expect("it works");
        ledger.give(0, 1);
        ledger.give(5, 1);
        let mut writes = Writes::new();
        assert_eq!(store.shared.make_room(&mut ledger, 2, all, true, &mut writes), Room::Soon);
        drop(ledger);
        let chosen: Vec<_> = writes.iter().map(|moving| moving.segment().position).collect();
        assert!(chosen == [0] || chosen == [3], "one, beside a free frame: {chosen:?}");
        store.shared.launch_writes(writes);
        store.shared.drain_transfers();
        let mut ledger = store.shared.lock().expect("it works");
        let start = if chosen == [0] { 0 } else { 4 };
        assert_eq!(room(&store, &mut ledger, 2, all, true), Room::Frames(start));
        assert_eq!(store.shared.counters.demotions.load(Ordering::Relaxed), 1);
    }
}
