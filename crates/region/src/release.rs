//! Release: a region ends at once, its frames and its file go in the background.
//!
//! Invariant: a segment is freed exactly once, by whoever wins the state word's last transition; a pinned one by
//! its last reader. A region stays in the table until its last segment is freed, so that readers can let go.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::regions::RegionTable;
use crate::segment::{RegionCore, Segment};
use crate::shared::Shared;
use crate::state::State;

impl Shared {
    pub fn release(&self, region: u64) {
        if let Some(table) = self.regions.begin_leaving(region) {
            self.keeper.retire(table);
        }
    }

    /// Walks a released region; called by the housekeeper.
    pub fn retire(&self, table: &RegionTable) {
        for (_, segment) in &table.segments {
            self.release_segment(segment);
        }
        table.core.walked.store(true, Ordering::Release);
        self.forget_if_empty(table.core.id);
        // Whoever waited for this region has to see that readers still have pinned some of it.
        self.space.announce();
    }

    pub fn release_segment(&self, segment: &Arc<Segment>) {
        segment.word.release();
        self.finish_release(segment);
    }

    /// Frees the segment if it is released, at rest and not pinned. Called after everything that may have been
    /// the last obstacle.
    pub fn finish_release(&self, segment: &Arc<Segment>) {
        let Some(last) = segment.word.free() else { return };
        let in_pool = last != State::Absent && self.pool.in_frames(segment.address());
        let slot = {
            // In a store that has failed nobody gets the frames any more.
            let Ok(mut ledger) = self.lock() else { return };
            if in_pool {
                ledger.remove(segment);
            }
            self.clock.sub_live_bytes(segment.bytes());
            ledger.take_back_slot(segment)
        };
        slot.into_iter().for_each(|slot| self.empty_slot(slot));
        if segment.region.live.fetch_sub(1, Ordering::AcqRel) == 1 {
            self.forget_if_empty(segment.region.id);
        }
        self.space.announce();
        if in_pool && self.closed.load(Ordering::Acquire) {
            self.discard_free_frames();
        }
    }

    /// Drops a released region without segments from the table, in the background: its file closes with it.
    fn forget_if_empty(&self, region: u64) {
        let Ok(table) = self.regions.get(region) else { return };
        let empty = table.core.live.load(Ordering::Acquire) == 0;
        if empty
            && table.core.released.load(Ordering::Acquire)
            && !table.core.leaving.swap(true, Ordering::AcqRel)
        {
            if let Some(table) = self.keeper.forget(table) {
                self.forget(&table);
            }
        }
    }

    /// Closes an empty region's file and drops it from the table.
    pub fn forget(&self, table: &RegionTable) {
        // In this order: see `space_is_coming` and `write_failed`.
        table.core.backing.close();
        let over_budget = match self.lock() {
            Ok(mut ledger) => {
                ledger.disk_mut().space_returned();
                ledger.is_over_budget()
            }
            Err(_) => false,
        };
        self.regions.forget(table.core.id);
        if over_budget {
            self.keeper.wake();
        }
        self.space.announce();
    }

    /// Gives the pages of free frames back; a closed store has no use for them.
    pub fn discard_free_frames(&self) {
        while !self.pool.keeps_pages() {
            let Ok(mut ledger) = self.lock() else { return };
            let Some(frame) = ledger.frames_mut().begin_drain() else { return };
            drop(ledger);
            if !self.drain_frame(frame) {
                return;
            }
        }
    }

    /// Whether memory or disk space of a released region will be free without anybody's doing: the housekeeper
    /// has not walked it yet, or transfers of it are in flight. What readers have pinned does not count: they may be
    /// the very ones who wait. Each of these ends in [`Space::announce`](crate::space::Space::announce).
    ///
    /// To be asked before `returns` is read: a region that is not seen here any more has been counted there, and
    /// what was stuck may be written again.
    pub fn space_is_coming(&self) -> bool {
        !self.closed.load(Ordering::Acquire) && self.regions.any_leaving(is_leaving)
    }
}

/// Whether some of a released region is neither gone nor pinned: what is pinned alone stays after the walk.
fn is_leaving(region: &RegionCore) -> bool {
    !region.walked.load(Ordering::Acquire)
        || region.transfers.load(Ordering::Acquire) > 0
        || region.live.load(Ordering::Acquire) == 0
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::sync::atomic::Ordering;
    use std::time::{Duration, Instant};

    use super::is_leaving;
    use crate::backing::Backing;
    use crate::segment::RegionCore;
    use crate::shared::Shared;
    use crate::{Config, FRAME_BYTES, Store};

    /// Without background threads.
    fn quiet_store(dir: &tempfile::TempDir) -> Store {
        Store { shared: Shared::open(Config::new(dir.path(), 16 << 21)).expect("open") }
    }

    #[test]
    fn free_frames_keep_their_pages_until_the_store_closes() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let store = quiet_store(&dir);
        let faulted = || store.shared.lock().expect("it works").frames().faulted();
        let region = store.create_region().expect("region");
        (0..4).for_each(|n| assert_eq!(region.write(&[1; FRAME_BYTES]).expect("write"), n));
        let pin = region.pin(0).expect("pin");
        store.release(region.id());
        store.shared.retire(&store.shared.regions.get(region.id()).expect("known"));
        assert_eq!((store.stats().segments, faulted()), (1, 4), "the next writer has no page to wait for");
        store.close();
        assert_eq!(faulted(), 1, "only what a reader has is left");
        drop(pin);
        assert_eq!(faulted(), 0);
    }

    #[test]
    fn a_released_region_gives_something_back_until_only_readers_have_it() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let store = quiet_store(&dir);
        let core = RegionCore::new(1, Backing::anonymous(Arc::clone(&store.shared.devices)));
        core.live.store(2, Ordering::Relaxed);
        assert!(is_leaving(&core), "the housekeeper has not been there");
        core.walked.store(true, Ordering::Relaxed);
        assert!(!is_leaving(&core));
        core.transfers.store(1, Ordering::Relaxed);
        assert!(is_leaving(&core), "a write ends");
        core.transfers.store(0, Ordering::Relaxed);
        core.live.store(0, Ordering::Relaxed);
        assert!(is_leaving(&core), "its files are about to be closed");
    }

    #[test]
    fn a_file_that_takes_long_to_close_holds_up_no_budget() {
        let dir = tempfile::tempdir().expect("temporary directory");
        let store = Store::open(Config::new(dir.path(), 64 << 21)).expect("open");
        let [gone, stays] = [(); 2].map(|()| store.create_region().expect("region"));
        for region in [&gone, &stays] {
            for _ in 0..28 {
                region.write(&[1; FRAME_BYTES]).expect("write");
            }
        }
        let table = store.shared.regions.get(gone.id()).expect("known");
        let stalled = table.core.backing.stall();
        drop(gone);
        let eventually = |what: &str, done: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !done() {
                assert!(began.elapsed() < Duration::from_secs(10), "{what}");
                std::thread::sleep(Duration::from_millis(1));
            }
        };
        eventually("its frames are free", &|| store.stats().used_bytes == 28 << 21);
        store.set_budget(16 << 21).expect("smaller");
        eventually("the pool yields", &|| store.pool_use().pool_bytes <= 16 << 21);
        assert!(store.shared.regions.get(table.core.id).is_ok(), "the file is open all the same");
        drop(stalled);
        eventually("the file goes", &|| store.shared.regions.get(table.core.id).is_err());
        drop(stays);
    }
}
