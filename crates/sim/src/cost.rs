//! What a policy's own work costs the application: the terms that are not memory traffic.

use warmset_placement::tier::Tracking;

/// Core time of a hint fault, with the flush of other cores' TLBs. From the published overhead of 4 to 6.5 %: the
/// middle of it, at the scan's 65,536 small pages per second, on the 15 cores of the testbed. Not fitted to throughput.
const HINT_FAULT_NS: f64 = 0.0525 * 15.0 * 1e9 / 65_536.0;
/// The small pages that the scan of hint faults goes through.
const SMALL_PAGE_BYTES: f64 = 4096.0;
/// What MEMTIS costs: its sampling, and the TLB misses on huge pages that it split. Fitted on one cell: MEMTIS at 0x.
const MEMTIS_PART: f64 = 0.085;

/// The part of the application's lines in flight that is left to it, on that many cores.
#[must_use]
pub fn left(policy: &str, tracking: Tracking, cores: f64) -> f64 {
    let faults = match tracking {
        Tracking::HintFaults { scan_bytes_per_s } => {
            scan_bytes_per_s as f64 / SMALL_PAGE_BYTES * HINT_FAULT_NS / 1e9 / cores
        }
        Tracking::Samples { .. } => 0.0,
    };
    let splits = if policy.starts_with("memtis") { MEMTIS_PART } else { 0.0 };
    (1.0 - faults - splits).max(0.1)
}
