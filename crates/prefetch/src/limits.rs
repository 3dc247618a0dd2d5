//! How much may be fetched: a share of the memory that is free for it, and nothing while memory is short.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use warmset_platform::sysinfo::{Root, cgroup, memory};

use crate::profile::{Read, total_bytes};

/// Part of the available memory, and of the control group's headroom, which may be filled.
const MEMORY_SHARE: u64 = 4;
/// The pressure is looked at once per so many pieces.
const PIECES_PER_LOOK: usize = 64;
const PAUSE: Duration = Duration::from_millis(20);
/// Fetching is given up for what is left of a piece's wait after this long.
const PAUSES_MAX: usize = 100;
/// Tasks may wait for memory for this part of the time.
const STALLED_SHARE_MAX: f64 = 0.05;

/// The bytes that may still be fetched, and when the machine was last seen to wait for memory.
#[derive(Debug)]
pub struct Limits {
    left_bytes: AtomicU64,
    pieces: AtomicUsize,
    seen: Mutex<Option<(Instant, u64)>>,
}

impl Limits {
    /// What this machine allows now.
    #[must_use]
    pub fn of_machine() -> Self {
        let root = Root::live();
        let available = memory::read(&root).available_bytes.unwrap_or(0);
        let limits = cgroup::memory_limits(&root);
        let used = cgroup::beside_bytes(&root, &limits, 0);
        let headroom =
            cgroup::tightest(&limits).map_or(u64::MAX, |limit| limit.limit_bytes.saturating_sub(used));
        Self::of_bytes(available.min(headroom) / MEMORY_SHARE)
    }

    /// Replaces what is left by what this machine allows now, less `taken_bytes`.
    pub(crate) fn measure(&self, taken_bytes: u64) {
        let allowed = Self::of_machine().left_bytes.into_inner();
        self.left_bytes.store(allowed.saturating_sub(taken_bytes), Ordering::Relaxed);
    }

    /// At most so many bytes.
    #[must_use]
    pub fn of_bytes(bytes: u64) -> Self {
        Self { left_bytes: AtomicU64::new(bytes), pieces: AtomicUsize::new(0), seen: Mutex::new(None) }
    }

    /// Takes the bytes of these ranges from what is left. Returns how many were left before.
    pub(crate) fn take(&self, reads: &[Read]) -> u64 {
        let wanted = total_bytes(reads);
        let subtract = |left: u64| Some(left.saturating_sub(wanted));
        self.left_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, subtract).unwrap_or(0)
    }

    /// How much may still be fetched.
    pub(crate) fn left_bytes(&self) -> u64 {
        self.left_bytes.load(Ordering::Relaxed)
    }

    /// Returns at once unless tasks wait for memory; then it waits, for a while.
    pub(crate) fn wait_for_memory(&self) {
        if self.pieces.fetch_add(1, Ordering::Relaxed) % PIECES_PER_LOOK != PIECES_PER_LOOK - 1 {
            return;
        }
        for _ in 0..PAUSES_MAX {
            if !self.is_short_of_memory() {
                return;
            }
            thread::sleep(PAUSE);
        }
    }

    fn is_short_of_memory(&self) -> bool {
        let Some(stalled_us) = Root::live().text("/proc/pressure/memory").as_deref().and_then(stalled_us)
        else {
            return false;
        };
        let Ok(mut seen) = self.seen.lock() else { return false };
        let now = Instant::now();
        let short = seen.is_some_and(|(at, before_us)| {
            let share = (stalled_us.saturating_sub(before_us)) as f64
                / now.duration_since(at).as_micros().max(1) as f64;
            share > STALLED_SHARE_MAX
        });
        *seen = Some((now, stalled_us));
        short
    }
}

/// For how long tasks have waited for memory since the machine started: `some avg10=0.00 … total=12`.
fn stalled_us(text: &str) -> Option<u64> {
    text.lines().find(|line| line.starts_with("some "))?.rsplit_once("total=")?.1.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stall_is_the_total_of_some() {
        let text = "some avg10=0.00 avg60=0.00 avg300=0.00 total=1234\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9\n";
        assert_eq!(stalled_us(text), Some(1234));
        assert_eq!(stalled_us("nonsense"), None);
    }

    #[test]
    fn bytes_are_given_once() {
        let limits = Limits::of_bytes(100);
        let read = Read { file: 0, start: 0, end: 70, at_ms: 0, disk_offset: 0 };
        assert_eq!((limits.take(&[read]), limits.take(&[read]), limits.take(&[read])), (100, 30, 0));
    }
}
