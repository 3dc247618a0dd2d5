//! Recency: which regions their owner should give up first when memory and disk are full.
//!
//! The store cannot make cached data anew, so it never ends a region by itself: it says which were used least
//! recently, and counts those that were given up. Invariant: costs readers nothing; a region's last use is read
//! off its segments when somebody asks.

use std::sync::atomic::Ordering;

use crate::regions::RegionTable;
use crate::state::State;
use crate::store::Store;

impl Store {
    /// The regions that nobody reads or writes now, the least recently used first; those never read are as old
    /// as their youngest segment.
    #[must_use]
    pub fn coldest_regions(&self) -> Vec<u64> {
        let regions = self.shared.regions.all();
        let mut idle: Vec<(u64, u64)> =
            regions.iter().filter_map(|table| Some((idle_since(table)?, table.core.id))).collect();
        idle.sort_unstable();
        idle.into_iter().map(|(_, id)| id).collect()
    }

    /// Counts regions that were released to make room for others.
    pub fn count_evictions(&self, regions: u64) {
        self.shared.counters.evictions.fetch_add(regions, Ordering::Relaxed);
    }
}

/// The ticks of a region's last use; `None` while it is used, and where its release would free nothing.
fn idle_since(table: &RegionTable) -> Option<u64> {
    if table.core.released.load(Ordering::Acquire) {
        return None;
    }
    let mut last = None;
    for (_, segment) in &table.segments {
        let look = segment.word.look();
        if look.pins > 0 || matches!(look.state, State::Writing | State::Sealing) {
            return None;
        }
        last = last.max(Some(segment.used_ticks()));
    }
    last
}
