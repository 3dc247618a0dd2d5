//! Statistics: counters since the store was opened, and gauges of now.

use std::sync::atomic::{AtomicU64, Ordering};

use serde::Serialize;

use crate::FRAME_BYTES;
use crate::error::Error;
use crate::ledger::Ledger;
use crate::regions::RegionTable;
use crate::shared::Shared;
use crate::store::Store;
use crate::sync::now;

/// A store's statistics. `_total` counts since opening, the rest is now.
#[derive(Debug, Clone, Serialize)]
pub struct StoreStats {
    /// Bytes of memory allowed.
    pub budget_bytes: u64,
    /// Bytes of frames with pages behind them.
    pub pool_bytes: u64,
    /// Bytes of frames in use.
    pub used_bytes: u64,
    /// Bytes in use beside the pool, for what has no frame.
    pub window_bytes: u64,
    /// Of the pool, bytes on huge pages, as the kernel report within the last minute.
    pub huge_bytes: u64,
    /// Bytes of sealed or unsealed segments that are in frames.
    pub resident_bytes: u64,
    /// Bytes of all segments.
    pub live_bytes: u64,
    /// Bytes written to disk.
    pub written_bytes_total: u64,
    /// Bytes read from disk.
    pub read_bytes_total: u64,
    /// Segments brought into frames.
    pub promotions_total: u64,
    /// Segments whose frames were taken.
    pub demotions_total: u64,
    /// Times a reader slept for bytes that were not in memory, or for frames to read them into.
    pub waits_total: u64,
    /// Nanoseconds readers slept.
    pub wait_ns_total: u64,
    /// Promotions of segments that only pass through.
    pub streamed_total: u64,
    /// Segments written through a bounce buffer.
    pub bounces_total: u64,
    /// Segments read to memory beside the pool for want of frames.
    pub mapped_total: u64,
    /// Regions that their owner gave up to make room.
    pub evictions_total: u64,
    /// Regions that are not freed.
    pub regions: u64,
    /// Segments that are not freed.
    pub segments: u64,
    /// Bytes of disk taken.
    pub flash_bytes: u64,
    /// `io_uring` or `threads`.
    pub io_backend: String,
    /// `huge`, `hugetlb` or `base`.
    pub page_policy: &'static str,
}

/// What says how much memory the pool has and how much more would be worth. Cheap, unlike [`StoreStats`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PoolUse {
    /// Bytes of memory allowed.
    pub budget_bytes: u64,
    /// Bytes of frames with pages behind them.
    pub pool_bytes: u64,
    /// Bytes of segments.
    pub live_bytes: u64,
    /// Of those, bytes that are in no frame.
    pub absent_bytes: u64,
    /// Nanoseconds readers slept, since opening.
    pub wait_ns_total: u64,
    /// Bytes read since opening, in parts of what was cached then: 2^24 for all of it.
    pub access_ticks_total: u64,
}

/// A region's statistics.
#[derive(Debug, Clone, Serialize)]
pub struct RegionStats {
    /// Its id.
    pub id: u64,
    /// Segments that are not freed.
    pub segments: u64,
    /// Bytes of those.
    pub bytes: u64,
    /// Of those, bytes in frames.
    pub resident_bytes: u64,
    /// Bytes of disk taken.
    pub file_bytes: u64,
    /// Pins of readers.
    pub pins: u64,
}

impl Store {
    /// Statistics of now. Walks the kernel's list of mappings if the pool has changed, or once a minute: not for
    /// hot paths.
    #[must_use]
    pub fn stats(&self) -> StoreStats {
        self.shared.stats()
    }

    /// What the pool uses now.
    #[must_use]
    pub fn pool_use(&self) -> PoolUse {
        self.shared.pool_use()
    }

    /// Bytes of frames with pages behind them: [`PoolUse::pool_bytes`] alone.
    #[must_use]
    pub fn pool_bytes(&self) -> u64 {
        self.shared.look(|ledger| ledger.frames().faulted()) * FRAME_BYTES as u64
    }

    /// Whether dirty segments could not be written to disk when that was last tried: their frames stay taken,
    /// whatever the budget.
    #[must_use]
    pub fn writes_fail(&self) -> bool {
        self.shared.look(|ledger| ledger.disk().fails())
    }

    /// Statistics of each region, by id.
    #[must_use]
    pub fn regions(&self) -> Vec<RegionStats> {
        self.shared.regions.all().iter().map(|table| region_stats(table)).collect()
    }

    /// Statistics of one region.
    ///
    /// # Errors
    /// [`Error::Misuse`] for an unknown id.
    pub fn region_stats(&self, region: u64) -> Result<RegionStats, Error> {
        Ok(region_stats(&*self.shared.regions.get(region)?))
    }
}

impl Shared {
    /// Looks at the ledger for a figure, which a store that has failed has, too. In a forked process, which has nothing
    /// of the store's, it is zero: the lock may be locked there for ever.
    fn look<T: Default>(&self, read: impl FnOnce(&Ledger) -> T) -> T {
        if self.space.health.is_here() { read(&self.space.lock_for_figures()) } else { T::default() }
    }

    fn pool_use(&self) -> PoolUse {
        let (faulted, resident) = self.look(|ledger| (ledger.frames().faulted(), ledger.resident_bytes()));
        PoolUse {
            budget_bytes: self.budget_frames.load(Ordering::Relaxed) * FRAME_BYTES as u64,
            // A frame that is being faulted in has its pages at any moment.
            pool_bytes: faulted * FRAME_BYTES as u64,
            live_bytes: self.clock.live_bytes(),
            absent_bytes: self.clock.live_bytes().saturating_sub(resident),
            wait_ns_total: self.counters.wait_ns.load(Ordering::Relaxed),
            access_ticks_total: self.clock.now(),
        }
    }

    pub fn stats(&self) -> StoreStats {
        let (used, faulted, window, resident_bytes) = self.look(|ledger| {
            let frames = ledger.frames();
            let faulted = frames.faulted() - frames.changing();
            (frames.used(), faulted, ledger.window_frames_used(), ledger.resident_bytes())
        });
        let budget = self.budget_frames.load(Ordering::Relaxed);
        let (mut regions, mut segments) = (0, 0);
        for table in self.regions.all() {
            regions += 1;
            segments += table.core.live.load(Ordering::Relaxed);
        }
        let pool_bytes = faulted * FRAME_BYTES as u64;
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        StoreStats {
            budget_bytes: budget * FRAME_BYTES as u64,
            pool_bytes,
            used_bytes: used * FRAME_BYTES as u64,
            window_bytes: window * FRAME_BYTES as u64,
            huge_bytes: self.counters.huge.bytes(now(), pool_bytes, || self.pool.huge_bytes()),
            resident_bytes,
            live_bytes: self.clock.live_bytes(),
            written_bytes_total: count(&self.counters.written_bytes),
            read_bytes_total: count(&self.counters.read_bytes),
            promotions_total: count(&self.counters.promotions),
            demotions_total: count(&self.counters.demotions),
            waits_total: count(&self.counters.waits),
            wait_ns_total: count(&self.counters.wait_ns),
            streamed_total: count(&self.counters.streamed),
            bounces_total: count(&self.counters.bounces),
            mapped_total: count(&self.counters.mapped),
            evictions_total: count(&self.counters.evictions),
            regions,
            segments,
            flash_bytes: self.devices.taken_bytes(),
            io_backend: self.devices.get(0).io.backend().to_string(),
            page_policy: self.pool.pages.name(),
        }
    }
}

pub(crate) fn region_stats(table: &RegionTable) -> RegionStats {
    let mut stats = RegionStats {
        id: table.core.id,
        segments: table.core.live.load(Ordering::Relaxed),
        bytes: 0,
        resident_bytes: 0,
        file_bytes: table.core.backing.allocated_bytes(),
        pins: 0,
    };
    for (_, segment) in &table.segments {
        let look = segment.word.look();
        if look.state != crate::state::State::Freed {
            stats.bytes += segment.bytes();
            stats.pins += u64::from(look.readers());
            stats.resident_bytes += if look.resident() { segment.bytes() } else { 0 };
        }
    }
    stats
}
