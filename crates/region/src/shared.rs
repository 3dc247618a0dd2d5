//! What all parts of a store share: its memory, its devices, its regions, and who works on them.
//!
//! Invariant: frames change hands only under the ledger's lock; pins and hotness never take it. Transfers are
//! submitted with the lock released, and end by taking it once. The modules that work on it use one another in one
//! direction (`tests/tree` checks that).

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Weak};

use warmset_placement::{Key, PoolPages};

use crate::FRAME_BYTES;
use crate::backing::Backing;
use crate::clock::LogicalClock;
use crate::config::Config;
use crate::counters::Counters;
use crate::device::Devices;
use crate::error::Error;
use crate::keeper::Housekeeper;
use crate::ledger::Ledger;
use crate::pool::Pool;
use crate::regions::Regions;
use crate::segment::{Moving, Segment};
use crate::space::{LedgerGuard, Space};
use crate::waiters::Waiters;
use warmset_platform::units;

pub(crate) struct Shared {
    pub config: Config,
    pub pool: Pool,
    pub devices: Arc<Devices>,
    pub space: Space,
    pub regions: Regions,
    pub clock: LogicalClock,
    pub waiters: Waiters,
    pub counters: Counters,
    pub keeper: Housekeeper<(InFlight, Moving)>,
    pub transfers: AtomicUsize,
    pub closed: AtomicBool,
    /// Of pool and window.
    pub budget_frames: AtomicU64,
    next_key: AtomicU64,
    itself: Weak<Shared>,
}

impl Shared {
    pub fn open(config: Config) -> Result<Arc<Self>, Error> {
        let budget_frames = config.budget_frames(config.budget_bytes)?;
        let devices = Devices::open(&config)?;
        let pool = Pool::reserve(&config)?;
        let ledger = Ledger::new(&pool, devices.count(), budget_frames);
        Ok(Arc::new_cyclic(|itself: &Weak<Self>| {
            let space = Space::new(ledger);
            let shared = Weak::clone(itself);
            space.health.set_alarm(move || {
                if let Some(shared) = shared.upgrade() {
                    shared.space.wake_all();
                    shared.waiters.notify_all();
                    shared.keeper.wake();
                }
            });
            Self {
                devices: Arc::new(devices),
                config,
                pool,
                space,
                regions: Regions::new(),
                clock: LogicalClock::new(),
                waiters: Waiters::default(),
                counters: Counters::default(),
                keeper: Housekeeper::new(),
                transfers: AtomicUsize::new(0),
                closed: AtomicBool::new(false),
                budget_frames: AtomicU64::new(budget_frames),
                next_key: AtomicU64::new(0),
                itself: Weak::clone(itself),
            }
        }))
    }

    /// # Errors
    /// [`Error::Failed`] once somebody has panicked with the ledger locked.
    pub fn lock(&self) -> Result<LedgerGuard<'_>, Error> {
        self.space.lock()
    }

    /// # Errors
    /// As [`Health::check`](crate::health::Health::check).
    pub fn check(&self) -> Result<(), Error> {
        self.space.health.check()
    }

    pub fn check_open(&self) -> Result<(), Error> {
        self.check()?;
        if self.closed.load(Ordering::Acquire) { Err(Error::misuse("the store is closed")) } else { Ok(()) }
    }

    /// Whether this process was forked from the store's: it has neither its threads nor its memory. The last reference
    /// is leaked then, since dropping the store would wait for these threads.
    pub fn is_elsewhere(self: &Arc<Self>) -> bool {
        let elsewhere = !self.space.health.is_here();
        if elsewhere {
            std::mem::forget(Arc::clone(self));
        }
        elsewhere
    }

    /// A counted reference for a transfer's callback.
    pub fn self_reference(&self) -> Arc<Shared> {
        self.itself.upgrade().expect("a method of it is running")
    }

    /// # Errors
    /// [`Error::Misuse`] once the store is closed.
    pub fn create_region(&self) -> Result<u64, Error> {
        self.check_open()?;
        Ok(self.regions.add(Backing::anonymous(Arc::clone(&self.devices))).core.id)
    }

    pub fn next_key(&self) -> Key {
        self.next_key.fetch_add(1, Ordering::Relaxed)
    }

    pub fn check_fits_pool(&self, bytes: u64, frames: u64) -> Result<(), Error> {
        let (pool_frames, names) = (self.pool.numbers.frames(), &self.config.names);
        if frames <= pool_frames {
            return Ok(());
        }
        let pool_bytes = pool_frames * FRAME_BYTES as u64;
        let why = match self.pool.pages {
            PoolPages::Hugetlb => {
                "the reserved huge pages that were taken at the start, and no more can be added"
            }
            _ => "the most that it could be raised to when the store was opened",
        };
        let (wanted, pool) = (units::bytes(bytes), units::bytes(pool_bytes));
        Err(Error::config(&names.budget_bytes, format!("{wanted} is more than {pool}, {why}")))
    }
}

/// A transfer of a segment: counted by the store, which waits for it when it closes, and by the region.
pub(crate) struct InFlight {
    pub shared: Arc<Shared>,
    segment: Arc<Segment>,
}

impl InFlight {
    pub fn begin(shared: Arc<Shared>, segment: &Arc<Segment>) -> Self {
        shared.transfers.fetch_add(1, Ordering::AcqRel);
        segment.region.transfers.fetch_add(1, Ordering::AcqRel);
        Self { shared, segment: Arc::clone(segment) }
    }
}

impl fmt::Debug for InFlight {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("InFlight").field(&self.segment.key).finish()
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        self.segment.region.transfers.fetch_sub(1, Ordering::AcqRel);
        self.shared.transfers.fetch_sub(1, Ordering::AcqRel);
        self.shared.space.announce();
    }
}
