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
use parking_lot::{Condvar, Mutex};
use warmset_placement::{AccessClock, Key, PoolPages};
use warmset_platform::io::{DataFile, IoQueue};

use crate::FRAME_BYTES;
use crate::backing::{Backing, FlashQuota};
use crate::config::Config;
use crate::error::Error;
use crate::failure::panic_text;
use crate::housekeeping::Housekeeper;
use crate::ledger::{Ledger, LedgerGuard};
use crate::pool::{Pool, frames_beside_window};
use crate::read::Waiters;
use crate::segment::Segment;
use crate::stats::Counters;

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
    pub io: IoQueue,
    pub quota: Arc<FlashQuota>,
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
    /// Write-backs that failed since one succeeded.
    pub failed_in_row: AtomicUsize,
    pub closed: AtomicBool,
    /// Of pool and window.
    pub budget_frames: AtomicU64,
    failed: AtomicBool,
    /// Why.
    failure: OnceLock<String>,
    pub keeper: Housekeeper,
    /// Regions whose disk space has come back.
    pub returns: AtomicU64,
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
        probe_dir(&config)?;
        let pool = Pool::reserve(&config)?;
        let io = IoQueue::start(config.io.into(), config.faults.clone()).map_err(|error| {
            Error::config(&config.names.io, format!("cannot start: {error}; use `threads`"))
        })?;
        let ledger = Ledger::new(&pool, frames_beside_window(budget_frames));
        let shared = Arc::new(Shared {
            quota: Arc::new(FlashQuota::new(&config)),
            config,
            pool,
            io,
            ledger: Mutex::new(ledger),
            space: Condvar::new(),
            space_waiters: AtomicUsize::new(0),
            regions: SharedMap::new(),
            leaving: Mutex::default(),
            waiters: Waiters::default(),
            counters: Counters::default(),
            transfers: AtomicUsize::new(0),
            failed_in_row: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
            budget_frames: AtomicU64::new(budget_frames),
            failed: AtomicBool::new(false),
            failure: OnceLock::new(),
            keeper: Housekeeper::default(),
            returns: AtomicU64::new(0),
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

    /// Stops the store: releases every region and waits for transfers in flight. Addresses stay mapped; the
    /// frames of segments that are still held keep their bytes.
    pub fn close(&self) {
        self.shared.close();
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        self.close();
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
        let guard = LedgerGuard::new(self.ledger.lock(), self);
        self.check().map(|()| guard)
    }

    /// For a look at figures, whatever state the store is in.
    pub fn lock_for_figures(&self) -> LedgerGuard<'_> {
        LedgerGuard::new(self.ledger.lock(), self)
    }

    /// # Errors
    /// [`Error::Failed`]. One load on the way of every call.
    pub fn check(&self) -> Result<(), Error> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        Err(Error::Failed { problem: self.failure.get().cloned().unwrap_or_default() })
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
        let backing = Backing::anonymous(Arc::clone(&self.quota));
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
        if self.closed.swap(true, Ordering::AcqRel) {
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

/// Finds out now, not at the first demotion, that files cannot be made in `dir`.
fn probe_dir(config: &Config) -> Result<(), Error> {
    let file = DataFile::anonymous(&config.dir).map_err(|error| {
        Error::config(&config.names.dir, format!("cannot create files in {}: {error}", config.dir.display()))
    })?;
    if !file.is_direct() {
        tracing::warn!(dir = %config.dir.display(), "no direct I/O on this file system: reads go through the page cache");
    }
    Ok(())
}
