//! What is known of writing to disk: which segments could not be written, why, and when it is tried again.
//!
//! Invariant: a segment that is stuck is dirty, and is not written before a retry is due. One failure for want of
//! space stands for all segments; others stand for their own, until there are many in a row. Nothing here takes time
//! that grows with the number of stuck segments: they come back a batch at a time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use warmset_placement::Key;

use crate::error::Error;

/// How long a failed write is not tried again, if no space has come back meanwhile.
const RETRIED_EVERY: Duration = Duration::from_secs(1);
/// Failed writes are warned of once in this time.
const WARNED_EVERY: Duration = Duration::from_secs(60);
/// Failures in a row after which the disk counts as full, whatever they say.
pub(crate) const FAILED_IN_ROW_MAX: usize = 16;
/// Stuck segments that come back at once.
const RETRIED_AT_ONCE: usize = 64;

#[derive(Debug, Default)]
pub(crate) struct WriteBack {
    full: bool,
    stuck: BTreeSet<Key>,
    /// Those that are stuck may be tried again.
    retrying: bool,
    error: Option<Error>,
    failed_at: Option<Instant>,
    warned_at: Option<Instant>,
}

impl WriteBack {
    /// Whether no segment is tried: there was no space for one, or several in a row could not be written.
    pub fn disk_is_full(&self) -> bool {
        self.full
    }

    /// Whether this dirty segment may be written now.
    pub fn may_write(&self, key: Key) -> bool {
        !self.full && !self.stuck.contains(&key)
    }

    /// Whether writes failed when they were last tried.
    pub fn fails(&self) -> bool {
        self.full || !self.stuck.is_empty() && !self.retrying
    }

    pub fn has_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// Why what is stuck could not be written.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// It cannot leave its frames for now.
    pub fn stick(&mut self, key: Key) {
        self.stuck.insert(key);
    }

    /// It is gone.
    pub fn forget(&mut self, key: Key) {
        self.stuck.remove(&key);
    }

    /// A segment could not be written, `in_row` times in a row now.
    pub fn failed(&mut self, key: Key, error: &Error, in_row: usize, now: Instant) {
        self.full |= error.is_no_space() || in_row >= FAILED_IN_ROW_MAX;
        self.stuck.insert(key);
        self.retrying = false;
        self.error = Some(error.clone());
        self.failed_at = Some(now);
    }

    /// Whether to warn of a failure: a full disk concerns every segment.
    pub fn warns(&mut self, now: Instant) -> bool {
        let warns = self.warned_at.is_none_or(|at| now.saturating_duration_since(at) >= WARNED_EVERY);
        if warns {
            self.warned_at = Some(now);
        }
        warns
    }

    /// Space has come back, or others may have made some.
    pub fn retry(&mut self) {
        self.full = false;
        self.retrying = true;
        self.failed_at = None;
    }

    /// The same once in a while: not at each call, or a full disk would cost every writer a write.
    pub fn retry_if_due(&mut self, now: Instant) {
        if self.failed_at.is_some_and(|at| now.saturating_duration_since(at) >= RETRIED_EVERY) {
            self.retry();
        }
    }

    /// The next segments that may be tried again; they are not stuck any more.
    pub fn come_back(&mut self) -> Vec<Key> {
        if !self.retrying {
            return Vec::new();
        }
        let batch: Vec<Key> = self.stuck.iter().copied().take(RETRIED_AT_ONCE).collect();
        for key in &batch {
            self.stuck.remove(key);
        }
        batch
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use super::*;
    use crate::config::Names;

    fn no_space() -> Error {
        Error::no_space(&Names::default(), Path::new("/data"), "full")
    }

    fn broken() -> Error {
        Error::io("write", "/data", std::io::Error::from_raw_os_error(5))
    }

    #[test]
    fn one_failure_for_want_of_space_stands_for_all() {
        let (mut disk, now) = (WriteBack::default(), Instant::now());
        assert!(disk.may_write(1) && !disk.fails());
        disk.failed(1, &no_space(), 1, now);
        assert!(disk.disk_is_full() && !disk.may_write(2) && disk.fails());
        assert!(disk.error().is_some_and(Error::is_no_space));
        disk.retry_if_due(now + RETRIED_EVERY / 2);
        assert!(disk.disk_is_full() && disk.come_back().is_empty());
        disk.retry_if_due(now + RETRIED_EVERY);
        assert!(disk.may_write(2) && !disk.may_write(1) && !disk.fails());
        assert_eq!(disk.come_back(), [1]);
        assert!(disk.may_write(1) && !disk.has_stuck());
    }

    #[test]
    fn other_failures_stand_for_their_segment_until_there_are_many() {
        let (mut disk, now) = (WriteBack::default(), Instant::now());
        for in_row in 1..FAILED_IN_ROW_MAX {
            disk.failed(in_row as u64, &broken(), in_row, now);
            assert!(!disk.disk_is_full() && disk.may_write(99) && !disk.may_write(in_row as u64));
            assert!(disk.fails());
        }
        disk.failed(50, &broken(), FAILED_IN_ROW_MAX, now);
        assert!(disk.disk_is_full() && !disk.may_write(99));
    }

    #[test]
    fn what_is_stuck_comes_back_in_batches_until_a_write_fails_again() {
        let (mut disk, now) = (WriteBack::default(), Instant::now());
        (0..200).for_each(|key| disk.stick(key));
        disk.failed(200, &no_space(), 1, now);
        disk.retry();
        assert_eq!(disk.come_back(), (0..64).collect::<Vec<_>>());
        disk.forget(64);
        assert_eq!(disk.come_back(), (65..129).collect::<Vec<_>>());
        disk.failed(70, &no_space(), 2, now);
        assert!(disk.come_back().is_empty() && disk.fails());
    }

    #[test]
    fn a_full_disk_is_warned_of_once_a_minute() {
        let (mut disk, now) = (WriteBack::default(), Instant::now());
        assert!(disk.warns(now) && !disk.warns(now + WARNED_EVERY / 2));
        assert!(disk.warns(now + WARNED_EVERY) && !disk.warns(now + WARNED_EVERY));
    }
}
