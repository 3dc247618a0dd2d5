//! The store: everything that regions share, and the ledger that decides who has which frame.
//!
//! Invariant: frames change hands only under the ledger's lock; holds and hotness never take it. Transfers are
//! submitted with the lock released, and end by taking it once.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use papaya::HashMap as SharedMap;
use parking_lot::{Condvar, Mutex, MutexGuard};
use warmset_placement::{AccessClock, KeepSet, Key, PoolPages, TICKS_PER_HALF_LIFE};
use warmset_platform::io::{DataFile, IoQueue};

use crate::FRAME_BYTES;
use crate::backing::{Backing, FlashQuota};
use crate::config::Config;
use crate::error::Error;
use crate::frames::FrameMap;
use crate::housekeeping::Housekeeper;
use crate::pool::{Pool, window_frames};
use crate::read::Waiters;
use crate::segment::Segment;
use crate::stats::Counters;

/// How long a failed write is not tried again, if no space has come back meanwhile.
const WRITES_RETRIED_EVERY: Duration = Duration::from_secs(1);

/// What the segments of a region share.
#[derive(Debug)]
pub(crate) struct RegionCore {
    pub id: u64,
    pub backing: Backing,
    /// Segments that are not freed yet.
    pub live: AtomicU64,
    pub released: AtomicBool,
    /// It is empty, and somebody forgets it.
    pub leaving: AtomicBool,
}

/// A region's list of segments. Only grows; lookups take no lock.
#[derive(Debug)]
pub(crate) struct RegionTable {
    pub core: Arc<RegionCore>,
    pub segments: boxcar::Vec<Arc<Segment>>,
}

/// Who has which frame, and who goes next.
pub(crate) struct Ledger {
    pub frames: FrameMap,
    pub window: FrameMap,
    pub set: KeepSet,
    /// Members of `set`.
    pub members: HashMap<Key, Arc<Segment>>,
    pub budget_frames: u64,
    /// There was no disk space for a dirty segment, or several in a row could not be written: no other is tried.
    pub disk_full: bool,
    /// Dirty segments that could not be written.
    pub stuck: HashSet<Key>,
    /// Why not.
    pub stuck_error: Option<Error>,
    /// When that was last tried.
    pub stuck_at: Option<Instant>,
    /// When a failed write was last warned of: a full disk concerns every segment.
    pub warned_full: Option<Instant>,
    relaxed_ticks: u64,
}

impl Ledger {
    /// What could not be written may be tried again.
    pub fn try_writes_again(&mut self) {
        self.disk_full = false;
        self.stuck.clear();
        self.stuck_at = None;
    }

    /// The same once in a while, since others may have made space: not for each segment at each call, or a full
    /// disk would cost every writer a walk over everything.
    pub fn try_writes_again_if_due(&mut self) {
        if self.stuck_at.is_some_and(|at| at.elapsed() >= WRITES_RETRIED_EVERY) {
            self.try_writes_again();
        }
    }
}

pub(crate) struct Shared {
    pub config: Config,
    pub pool: Pool,
    pub io: IoQueue,
    pub quota: Arc<FlashQuota>,
    pub ledger: Mutex<Ledger>,
    /// Notified when frames may have become available.
    pub space: Condvar,
    pub space_waiters: AtomicUsize,
    pub regions: SharedMap<u64, Arc<RegionTable>>,
    pub waiters: Waiters,
    pub counters: Counters,
    pub transfers: AtomicUsize,
    /// Write-backs that failed since one succeeded.
    pub failed_in_row: AtomicUsize,
    pub closed: AtomicBool,
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
        let pool_frames = config.pool_frames()?;
        probe_dir(&config)?;
        let pool = Pool::reserve(&config)?;
        let io = IoQueue::start(config.io.into(), config.faults.clone()).map_err(|error| {
            Error::config(&config.names.io, format!("cannot start: {error}; use `threads`"))
        })?;
        let ledger = Ledger {
            frames: FrameMap::new(pool_frames),
            window: FrameMap::new(window_frames(pool_frames)),
            set: KeepSet::new(budget_frames),
            members: HashMap::new(),
            budget_frames,
            disk_full: false,
            stuck: HashSet::new(),
            stuck_error: None,
            stuck_at: None,
            warned_full: None,
            relaxed_ticks: 0,
        };
        let shared = Arc::new(Shared {
            quota: Arc::new(FlashQuota::new(&config)),
            config,
            pool,
            io,
            ledger: Mutex::new(ledger),
            space: Condvar::new(),
            space_waiters: AtomicUsize::new(0),
            regions: SharedMap::new(),
            waiters: Waiters::default(),
            counters: Counters::default(),
            transfers: AtomicUsize::new(0),
            failed_in_row: AtomicUsize::new(0),
            closed: AtomicBool::new(false),
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

    /// Makes an empty region and returns its id, which is never 0 and never used again.
    ///
    /// # Errors
    /// [`Error::Misuse`] once the store is closed.
    pub fn create_region_id(&self) -> Result<u64, Error> {
        self.shared.check_open()?;
        let backing = Backing::anonymous(Arc::clone(&self.shared.quota));
        Ok(self.shared.add_region(backing).core.id)
    }

    /// Changes the budget. Returns at once; demotion down to a smaller budget goes on in the background.
    ///
    /// # Errors
    /// [`Error::Config`] for less than a frame, more than the pool was opened for, or more than the memory limit.
    pub fn set_budget(&self, bytes: u64) -> Result<(), Error> {
        let frames = self.shared.config.budget_frames(bytes)?;
        self.shared.check_fits_pool(bytes, frames)?;
        {
            let mut ledger = self.shared.lock();
            ledger.budget_frames = frames;
            ledger.set.set_budget(frames);
        }
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
    pub fn lock(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock()
    }

    pub fn check_open(&self) -> Result<(), Error> {
        if self.closed.load(Ordering::Acquire) { Err(Error::misuse("the store is closed")) } else { Ok(()) }
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

    /// Lets the stream reserve fall back once per half-life.
    pub fn relax(&self, ledger: &mut Ledger) {
        let now = self.now_ticks();
        if now.saturating_sub(ledger.relaxed_ticks) >= TICKS_PER_HALF_LIFE {
            ledger.relaxed_ticks = now;
            ledger.set.relax();
        }
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

    fn discard_free_frames(&self) {
        let mut ledger = self.lock();
        while let Some(frame) = ledger.frames.begin_drain() {
            self.drain_frame(frame);
            ledger.frames.end_drain(frame);
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
