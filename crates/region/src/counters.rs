//! What is counted since the store was opened.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::sync::{Mutex, now};

/// How long the kernel's word on huge pages is good for, if the pool stays as it is.
const HUGE_BYTES_ASKED_EVERY: Duration = Duration::from_secs(60);

#[derive(Debug, Default)]
pub(crate) struct Counters {
    pub huge: HugeBytes,
    pub written_bytes: AtomicU64,
    pub read_bytes: AtomicU64,
    pub promotions: AtomicU64,
    pub demotions: AtomicU64,
    pub waits: AtomicU64,
    pub wait_ns: AtomicU64,
    pub streamed: AtomicU64,
    pub bounces: AtomicU64,
    pub mapped: AtomicU64,
    pub evictions: AtomicU64,
}

impl Counters {
    /// A reader has waited since then: for an absent segment's bytes, or for frames to read them into.
    pub fn count_wait(&self, began: Instant) {
        self.waits.fetch_add(1, Ordering::Relaxed);
        self.wait_ns.fetch_add(now().saturating_duration_since(began).as_nanos() as u64, Ordering::Relaxed);
    }
}

/// What the kernel last report of the pool's huge pages. To ask it costs a walk over all memory of the process.
#[derive(Debug, Default)]
pub(crate) struct HugeBytes(Mutex<Option<Report>>);

#[derive(Debug, Clone, Copy)]
struct Report {
    at: Instant,
    pool_bytes: u64,
    huge_bytes: u64,
}

impl HugeBytes {
    /// Asks where the last answer is about another pool, or old.
    pub fn bytes(&self, now: Instant, pool_bytes: u64, ask: impl FnOnce() -> u64) -> u64 {
        let mut last = self.0.lock();
        let fresh =
            |report: &Report| report.pool_bytes == pool_bytes && now - report.at < HUGE_BYTES_ASKED_EVERY;
        let report = last.filter(fresh).unwrap_or_else(|| Report { at: now, pool_bytes, huge_bytes: ask() });
        *last = Some(report);
        report.huge_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernel_is_asked_when_the_pool_changed_and_once_a_minute() {
        let huge = HugeBytes::default();
        let start = Instant::now();
        let asked = |seconds, pool_bytes| {
            let mut asked = false;
            let ask = || {
                asked = true;
                seconds
            };
            let bytes = huge.bytes(start + Duration::from_secs(seconds), pool_bytes, ask);
            (asked, bytes)
        };
        assert_eq!(asked(0, 10), (true, 0));
        for seconds in [3, 6, 59] {
            assert_eq!(asked(seconds, 10), (false, 0));
        }
        assert_eq!(asked(60, 10), (true, 60));
        assert_eq!(asked(63, 20), (true, 63));
        assert_eq!(asked(66, 20), (false, 63));
    }
}
