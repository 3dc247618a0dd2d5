//! What the kernel says about page sizes: the pool's, and the rest of the process, which needs no huge pages.

use std::fs;

use warmset_region::Store;

use crate::Outcome;

/// Page sizes of this process.
pub struct Pages {
    /// Part of the written region bytes that is on huge pages.
    pub huge_fraction: f64,
    /// Bytes on huge pages outside of the pool.
    pub heap_huge_bytes: u64,
}

/// Reads the pool's figures from the store (which has them from smaps) and the process's from smaps. To be called
/// while the store's pool is the only memory that asked for huge pages.
pub fn measure(store: &Store) -> Outcome<Pages> {
    loop {
        let stats = store.stats();
        let all = huge_bytes(&fs::read_to_string("/proc/self/smaps_rollup")?);
        // The pool may have been faulting frames in between the two looks.
        if store.stats().huge_bytes == stats.huge_bytes {
            let huge_fraction = stats.huge_bytes as f64 / stats.pool_bytes.max(1) as f64;
            return Ok(Pages { huge_fraction, heap_huge_bytes: all.saturating_sub(stats.huge_bytes) });
        }
    }
}

fn huge_bytes(smaps: &str) -> u64 {
    let lines = smaps.lines().filter_map(|line| line.strip_prefix("AnonHugePages:"));
    lines.map(|rest| rest.trim().trim_end_matches(" kB").parse::<u64>().unwrap_or(0) << 10).sum()
}
