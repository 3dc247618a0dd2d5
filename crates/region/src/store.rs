//! The store as its users see it: opening, budgets, closing.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::config::Config;
use crate::error::Error;
use crate::pool::frames_beside_window;
use crate::shared::Shared;

/// A region store. Dropping it closes it.
pub struct Store {
    pub(crate) shared: Arc<Shared>,
}

impl Store {
    /// Opens a store.
    ///
    /// # Errors
    /// [`Error::Config`] for a setting that cannot work here, [`Error::Io`] for a directory that cannot be
    /// written to.
    pub fn open(config: Config) -> Result<Self, Error> {
        let shared = Shared::open(config)?;
        shared
            .start_housekeeping()
            .map_err(|error| Error::config("store", format!("cannot start a background thread: {error}")))?;
        Ok(Self { shared })
    }

    /// Changes the budget. Returns at once; demotion down to a smaller budget goes on in the background.
    ///
    /// # Errors
    /// [`Error::Config`] for less than a frame, more than the pool was opened for, or more than the memory limit.
    pub fn set_budget(&self, bytes: u64) -> Result<(), Error> {
        let frames = self.shared.config.budget_frames(bytes)?;
        self.shared.check_fits_pool(bytes, frames_beside_window(frames))?;
        self.shared.lock()?.set_budget(frames);
        self.shared.budget_frames.store(frames, Ordering::Relaxed);
        self.shared.space.wake_all();
        self.shared.keeper.wake();
        Ok(())
    }

    /// Whether there is no region, nor any part of one that somebody has pinned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.regions.is_empty()
    }

    /// Ends a region. Constant time, idempotent, never fails; unknown ids are ignored. What [`Pin`](crate::Pin) and
    /// [`Draft`](crate::Draft) show stays until they are dropped.
    pub fn release(&self, region: u64) {
        // In a forked process there is nothing to give back, and locks may be locked for ever.
        if self.shared.space.health.is_here() {
            self.shared.release(region);
        }
    }

    /// Stops the store: releases every region and waits for transfers in flight. Addresses stay mapped; the
    /// frames of segments that are still pinned keep their bytes.
    pub fn close(&self) {
        let shared = &self.shared;
        if !shared.space.health.is_here() || shared.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        shared.regions.all().iter().for_each(|table| shared.release(table.core.id));
        shared.stop_housekeeping();
        shared.space.announce();
        shared.drain_transfers();
        shared.discard_free_frames();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        if !self.shared.is_elsewhere() {
            self.close();
        }
    }
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("config", &self.shared.config).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;
    use crate::FRAME_BYTES;
    use crate::segment::Moving;
    use crate::state::State;

    const LATE: Duration = Duration::from_secs(20);

    fn store(dir: &tempfile::TempDir) -> Store {
        Store::open(Config::new(dir.path(), 4 * FRAME_BYTES as u64)).expect("open")
    }

    /// Breaks the ledger as a wrong release would, on a thread of its own.
    fn give_a_frame_back_twice(shared: &Arc<Shared>) {
        let shared = Arc::clone(shared);
        let broken = std::thread::spawn(move || {
            let mut ledger = shared.lock().expect("it works");
            ledger.give(0, 1);
            ledger.give(0, 1);
        });
        assert!(broken.join().is_err(), "checked in every build");
    }

    #[test]
    fn a_store_that_has_panicked_fails_every_later_call_with_that_message() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir);
        let region = store.create_region().expect("region");
        (0..6).for_each(|n| assert_eq!(region.write(&[n; 100]).expect("write"), u64::from(n)));
        let pin = region.pin(5).expect("pin");
        let draft = region.draft(10);
        let other = store.create_region().expect("region");
        give_a_frame_back_twice(&store.shared);
        let failed = |outcome: Result<(), Error>| {
            let error = outcome.expect_err("nothing works any more");
            assert!(matches!(error, Error::Failed { .. }), "{error}");
            assert!(error.to_string().contains("given back twice"), "{error}");
        };
        failed(store.create_region().map(drop));
        failed(region.write(&[1]).map(drop));
        failed(region.draft(1).map(drop));
        failed(region.pin(0).map(drop));
        failed(region.pin(5).map(drop));
        failed(store.raw().pin(region.id(), 5).map(drop));
        failed(region.prefetch(5).map(drop));
        failed(region.save(&dir.path().join("saved")));
        failed(store.set_budget(FRAME_BYTES as u64));
        failed(store.open_saved(&dir.path().join("saved")).map(drop));
        failed(draft.expect("made before").seal(1).map(drop));
        assert_eq!(pin[..], [5; 100], "what is pinned stays");
        assert_eq!(store.stats().budget_bytes, 4 * FRAME_BYTES as u64);
        let pinned = store.shared.regions.segment(region.id(), 5).expect("known");
        pinned.word.release();
        drop((pin, region, other));
        assert_ne!(pinned.word.look().state, State::Freed, "nothing moves any more");
        store.close();
    }

    #[test]
    fn a_panic_wakes_whoever_waits() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir);
        let (tell, told) = mpsc::channel();
        let waiting = {
            let shared = Arc::clone(&store.shared);
            std::thread::spawn(move || -> Result<(), Error> {
                let waiter = crate::space::SpaceWaiter::new(&shared.space);
                tell.send(()).expect("the test listens");
                // Others' frames wake it, too.
                loop {
                    waiter.wait(shared.lock()?);
                }
            })
        };
        told.recv_timeout(LATE).expect("it begins");
        give_a_frame_back_twice(&store.shared);
        let error = waiting.join().expect("no panic").expect_err("woken with an error");
        assert!(matches!(error, Error::Failed { .. }), "{error}");
    }

    #[test]
    fn a_panic_on_a_thread_of_the_store_ends_a_readers_wait() {
        let dir = tempfile::tempdir().expect("dir");
        let store = store(&dir);
        let region = store.create_region().expect("region");
        for n in 0..12 {
            region.write(&vec![n; FRAME_BYTES]).expect("write");
        }
        let absent = (0..12)
            .find(|&n| !store.shared.regions.segment(region.id(), n).expect("known").word.look().resident())
            .expect("twelve are more than four");
        let segment = store.shared.regions.segment(region.id(), absent).expect("known");
        let (begin, begun) = mpsc::channel::<()>();
        let reader = {
            let (shared, segment) = (Arc::clone(&store.shared), Arc::clone(&segment));
            std::thread::spawn(move || {
                // As if its read had never ended.
                let _moving = Moving::promotion(&segment).expect("it is absent");
                begin.send(()).expect("the test listens");
                shared.wait(&segment)
            })
        };
        begun.recv_timeout(LATE).expect("it begins");
        store.shared.space.health.contain(|| panic!("a check on the queue's thread"));
        let error = reader.join().expect("no panic").expect_err("woken with an error");
        assert!(error.to_string().contains("a check on the queue's thread"), "{error}");
    }
}
