//! The store: everything that regions share.
//!
//! Invariant: frames change hands only under the ledger's lock; holds and hotness never take it. Transfers are
//! submitted with the lock released, and end by taking it once.

use std::collections::BTreeMap;
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use papaya::HashMap as SharedMap;
use warmset_placement::{AccessClock, Key, PoolPages};
use warmset_platform::fork::Origin;

use crate::FRAME_BYTES;
use crate::backing::Backing;
use crate::config::Config;
use crate::device::Devices;
use crate::error::Error;
use crate::failure::panic_text;
use crate::housekeeping::Housekeeper;
use crate::ledger::{Ledger, LedgerGuard};
use crate::pool::{Pool, frames_beside_window};
use crate::read::Waiters;
use crate::segment::Segment;
use crate::stats::Counters;
use crate::sync::{Condvar, Mutex};

const ELSEWHERE: &str = "the store belongs to the process that this one was forked from: open one here, or save a region and open it";

/// What the segments of a region share.
#[derive(Debug)]
pub(crate) struct RegionCore {
    pub id: u64,
    pub backing: Backing,
    /// Segments that are not freed yet.
    pub live: AtomicU64,
    pub released: AtomicBool,
    /// Once released: the housekeeper has been through its segments.
    pub walked: AtomicBool,
    /// Transfers of its segments in flight.
    pub transfers: AtomicUsize,
    /// It is empty, and somebody forgets it.
    pub leaving: AtomicBool,
}

/// A region's list of segments. Only grows; lookups take no lock.
#[derive(Debug)]
pub(crate) struct RegionTable {
    pub core: Arc<RegionCore>,
    pub segments: boxcar::Vec<Arc<Segment>>,
}

pub(crate) struct Shared {
    pub config: Config,
    pub pool: Pool,
    pub devices: Arc<Devices>,
    ledger: Mutex<Ledger>,
    /// Notified when frames may have become available.
    pub space: Condvar,
    pub space_waiters: AtomicUsize,
    pub regions: SharedMap<u64, Arc<RegionTable>>,
    /// Regions that are released and not gone.
    pub leaving: Mutex<BTreeMap<u64, Arc<RegionTable>>>,
    pub waiters: Waiters,
    pub counters: Counters,
    pub transfers: AtomicUsize,
    pub closed: AtomicBool,
    /// Of pool and window.
    pub budget_frames: AtomicU64,
    /// The process that opened it.
    origin: Origin,
    failed: AtomicBool,
    /// Why.
    failure: OnceLock<String>,
    pub keeper: Housekeeper,
    next_region: AtomicU64,
    next_key: AtomicU64,
    ticks: AtomicU64,
    clock: AtomicU64,
    live_bytes: AtomicU64,
}

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
        let budget_frames = config.budget_frames(config.budget_bytes)?;
        let devices = Devices::open(&config)?;
        let pool = Pool::reserve(&config)?;
        let ledger = Ledger::new(&pool, devices.count(), frames_beside_window(budget_frames));
        let shared = Arc::new(Shared {
            devices: Arc::new(devices),
            config,
            pool,
            ledger: Mutex::new(ledger),
            space: Condvar::new(),
            space_waiters: AtomicUsize::new(0),
            regions: SharedMap::new(),
            leaving: Mutex::default(),
            waiters: Waiters::default(),
            counters: Counters::default(),
            transfers: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            budget_frames: AtomicU64::new(budget_frames),
            origin: Origin::here(),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            keeper: Housekeeper::default(),
            next_region: AtomicU64::new(1),
            next_key: AtomicU64::new(0),
            ticks: AtomicU64::new(0),
            clock: AtomicU64::new(AccessClock::for_live_bytes(0).to_bits()),
            live_bytes: AtomicU64::new(0),
        });
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
        let pool_frames = frames_beside_window(frames);
        self.shared.check_fits_pool(bytes, pool_frames)?;
        self.shared.lock()?.set_budget(pool_frames);
        self.shared.budget_frames.store(frames, Ordering::Relaxed);
        self.shared.space.notify_all();
        self.shared.keeper.wake();
        Ok(())
    }

    /// Whether there is no region, nor any part of one that somebody holds.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.shared.regions.pin().is_empty()
    }

    /// Stops the store: releases every region and waits for transfers in flight. Addresses stay mapped; the
    /// frames of segments that are still held keep their bytes.
    pub fn close(&self) {
        self.shared.close();
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

impl Shared {
    /// # Errors
    /// [`Error::Failed`] once somebody has panicked with the ledger locked.
    pub fn lock(&self) -> Result<LedgerGuard<'_>, Error> {
        // Before it is locked: in a forked process it may be locked for ever.
        self.check()?;
        let guard = LedgerGuard::new(self.ledger.lock(), self);
        self.check().map(|()| guard)
    }

    /// For a look at figures, whatever state the store is in.
    pub fn lock_for_figures(&self) -> LedgerGuard<'_> {
        LedgerGuard::new(self.ledger.lock(), self)
    }

    /// # Errors
    /// [`Error::Failed`], and [`Error::Misuse`] in a process that was forked from the store's. Two loads on the way of
    /// every call.
    pub fn check(&self) -> Result<(), Error> {
        let failed = self.failed.load(Ordering::Acquire);
        if !failed && self.origin.is_here() {
            return Ok(());
        }
        if !failed {
            return Err(Error::misuse(ELSEWHERE));
        }
        Err(Error::Failed { problem: self.failure.get().cloned().unwrap_or_default() })
    }

    /// Whether this process was forked from the store's: it has neither its threads nor its memory. The last reference
    /// is leaked then, since dropping the store would wait for these threads.
    pub fn is_elsewhere(self: &Arc<Self>) -> bool {
        let elsewhere = !self.origin.is_here();
        if elsewhere {
            std::mem::forget(Arc::clone(self));
        }
        elsewhere
    }

    /// Panics where the store's memory is not mapped, before a signal ends the process.
    pub fn expect_here(&self) {
        assert!(self.origin.is_here(), "{ELSEWHERE}");
    }

    /// Has every later call fail, and wakes whoever waits.
    pub fn fail(&self, problem: String) {
        // The first problem is the one that matters.
        let _ = self.failure.set(problem);
        self.failed.store(true, Ordering::Release);
        self.space.notify_all();
        self.waiters.notify_all();
        self.keeper.wake();
    }

    /// Runs what a thread of the store does. A panic becomes the store's failure, so that the thread goes on and
    /// nobody waits for what it was about.
    pub fn contain(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.fail(panic_text(&*panic));
        }
    }

    pub fn check_open(&self) -> Result<(), Error> {
        self.check()?;
        if self.closed.load(Ordering::Acquire) { Err(Error::misuse("the store is closed")) } else { Ok(()) }
    }

    /// # Errors
    /// [`Error::Misuse`] once the store is closed.
    pub fn create_region(&self) -> Result<u64, Error> {
        self.check_open()?;
        let backing = Backing::anonymous(Arc::clone(&self.devices));
        Ok(self.add_region(backing).core.id)
    }

    fn check_fits_pool(&self, bytes: u64, frames: u64) -> Result<(), Error> {
        let (pool_bytes, names) = (self.pool.frames.len(), &self.config.names);
        if frames <= (pool_bytes / FRAME_BYTES) as u64 {
            return Ok(());
        }
        let why = match self.pool.pages {
            PoolPages::Hugetlb => {
                "the reserved huge pages that were taken at the start, and no more can be added"
            }
            _ => "the most that it could be raised to when the store was opened",
        };
        Err(Error::config(&names.budget_bytes, format!("{bytes} bytes is more than {pool_bytes}, {why}")))
    }

    pub fn add_region(&self, backing: Backing) -> Arc<RegionTable> {
        let id = self.next_region.fetch_add(1, Ordering::Relaxed);
        let core = RegionCore {
            id,
            backing,
            live: AtomicU64::new(0),
            released: AtomicBool::new(false),
            walked: AtomicBool::new(false),
            transfers: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        };
        let table = Arc::new(RegionTable { core: Arc::new(core), segments: boxcar::Vec::new() });
        self.regions.pin().insert(id, Arc::clone(&table));
        table
    }

    pub fn region(&self, id: u64) -> Result<Arc<RegionTable>, Error> {
        self.regions.pin().get(&id).cloned().ok_or_else(|| no_region(id))
    }

    /// Runs `f` on a segment; the fast way in, which counts no reference.
    pub fn with_segment<T>(
        &self,
        region: u64,
        segment: u64,
        f: impl FnOnce(&Arc<Segment>) -> Result<T, Error>,
    ) -> Result<T, Error> {
        let regions = self.regions.pin();
        let table = regions.get(&region).ok_or_else(|| no_region(region))?;
        let index = usize::try_from(segment).unwrap_or(usize::MAX);
        let found = table.segments.get(index).ok_or_else(|| {
            Error::misuse(format!(
                "region {region} has no segment {segment}, only {}",
                table.segments.count()
            ))
        })?;
        f(found)
    }

    /// A counted reference to a segment, for what may take long.
    pub fn segment(&self, region: u64, segment: u64) -> Result<Arc<Segment>, Error> {
        self.with_segment(region, segment, |segment| Ok(Arc::clone(segment)))
    }

    pub fn next_key(&self) -> Key {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    pub fn now_ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Logical time passes while a segment is read.
    pub fn access(&self, segment: &Segment) {
        let clock = AccessClock::from_bits(self.clock.load(Ordering::Relaxed));
        let passed = clock.ticks(segment.bytes());
        segment.accessed(self.ticks.fetch_add(passed, Ordering::Relaxed).wrapping_add(passed));
    }

    /// Logical time: see [`AccessClock`].
    pub fn access_ticks(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    pub fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    pub fn add_live_bytes(&self, bytes: u64) {
        let live = self.live_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes;
        self.clock.store(AccessClock::for_live_bytes(live).to_bits(), Ordering::Relaxed);
    }

    pub fn sub_live_bytes(&self, bytes: u64) {
        let live = self.live_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes;
        self.clock.store(AccessClock::for_live_bytes(live).to_bits(), Ordering::Relaxed);
    }

    fn close(&self) {
        if !self.origin.is_here() || self.closed.swap(true, Ordering::AcqRel) {
            return;
        }
        let ids: Vec<u64> = self.regions.pin().keys().copied().collect();
        for id in ids {
            self.release(id);
        }
        self.stop_housekeeping();
        self.announce_space();
        self.drain_transfers();
        self.discard_free_frames();
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
}

fn no_region(id: u64) -> Error {
    Error::misuse(format!("there is no region {id} (released, or never created)"))
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

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
        failed(region.prefetch(5).map(drop));
        failed(region.save(&dir.path().join("saved")));
        failed(store.set_budget(FRAME_BYTES as u64));
        failed(store.open_saved(&dir.path().join("saved")).map(drop));
        failed(draft.expect("made before").seal(1).map(drop));
        assert_eq!(pin[..], [5; 100], "what is held stays");
        assert_eq!(store.stats().budget_bytes, 4 * FRAME_BYTES as u64);
        drop((pin, region, other));
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
                let waiter = crate::room::SpaceWaiter::new(&shared);
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
            .find(|&n| !store.shared.segment(region.id(), n).expect("known").word.look().resident())
            .expect("twelve are more than four");
        let segment = store.shared.segment(region.id(), absent).expect("known");
        let (begin, begun) = mpsc::channel::<()>();
        let reader = {
            let (shared, segment) = (Arc::clone(&store.shared), Arc::clone(&segment));
            std::thread::spawn(move || {
                // As if its read had never ended.
                assert!(segment.word.begin_promote());
                begin.send(()).expect("the test listens");
                shared.wait(&segment)
            })
        };
        begun.recv_timeout(LATE).expect("it begins");
        store.shared.contain(|| panic!("a check on the queue's thread"));
        let error = reader.join().expect("no panic").expect_err("woken with an error");
        assert!(error.to_string().contains("a check on the queue's thread"), "{error}");
    }
}
