//! What is known of writing to disk: which device takes more, which segments could not be written, why, and when it is
//! tried again.
//!
//! Invariant: a segment that is stuck is dirty, and is not written before a retry is due. One failure for want of
//! space stands for all segments of a device; others stand for their own, until there are many in a row. Nothing here
//! takes time that grows with the number of stuck segments: they come back a batch at a time.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use warmset_placement::Key;

use crate::device::DeviceId;
use crate::error::Error;

/// How long a failed write is not tried again, if no space has come back meanwhile.
const RETRIED_EVERY: Duration = Duration::from_secs(1);
/// Failed writes are warned of once in this time.
const WARNED_EVERY: Duration = Duration::from_secs(60);
/// Failures in a row after which a device counts as full, whatever they say.
const FAILED_IN_ROW_MAX: usize = 16;
/// Stuck segments that come back at once.
const RETRIED_AT_ONCE: usize = 64;

#[derive(Debug)]
pub(crate) struct WriteBack {
    devices: Vec<DeviceState>,
    /// The device that the next segment goes to, if it takes it.
    next: usize,
    stuck: BTreeSet<Key>,
    /// Those that are stuck may be tried again.
    retrying: bool,
    error: Option<Error>,
    warned_at: Option<Instant>,
    /// Regions whose disk space has come back.
    returns: u64,
}

#[derive(Debug, Clone, Default)]
struct DeviceState {
    /// Nothing is written to it for now.
    full: bool,
    failed_in_row: usize,
    failed_at: Option<Instant>,
}

impl WriteBack {
    pub fn new(devices: usize) -> Self {
        Self {
            devices: vec![DeviceState::default(); devices],
            next: 0,
            stuck: BTreeSet::new(),
            retrying: false,
            error: None,
            warned_at: None,
            returns: 0,
        }
    }

    /// Whether no segment is tried: no device has space, or on those that have, several in a row could not be written.
    pub fn disk_is_full(&self) -> bool {
        self.devices.iter().all(|device| device.full)
    }

    /// Whether this dirty segment may be written now; `on` the device where it has a place, if it has one.
    pub fn may_write(&self, key: Key, on: Option<DeviceId>) -> bool {
        let takes_it = on.map_or(!self.disk_is_full(), |device| !self.devices[usize::from(device)].full);
        takes_it && !self.stuck.contains(&key)
    }

    /// The devices to try for a segment that has no place, in this order. Segments take turns among those that are not
    /// full; where all are, all are tried.
    pub fn candidates(&mut self) -> Vec<DeviceId> {
        let count = self.devices.len();
        let in_turn = (0..count).map(|n| (self.next + n) % count);
        let all_full = self.disk_is_full();
        let takes_more = in_turn.filter(|&device| all_full || !self.devices[device].full);
        let chosen: Vec<_> = takes_more.map(|device| device as DeviceId).collect();
        self.next = (usize::from(chosen[0]) + 1) % count;
        chosen
    }

    /// Whether what cannot be written to this device has another one to go to.
    pub fn has_other(&self, device: DeviceId) -> bool {
        let others = self.devices.iter().enumerate().filter(|&(other, _)| other != usize::from(device));
        others.into_iter().any(|(_, state)| !state.full)
    }

    /// Whether writes failed when they were last tried.
    pub fn fails(&self) -> bool {
        self.disk_is_full() || !self.stuck.is_empty() && !self.retrying
    }

    pub fn has_stuck(&self) -> bool {
        !self.stuck.is_empty()
    }

    /// Why what is stuck could not be written.
    pub fn error(&self) -> Option<&Error> {
        self.error.as_ref()
    }

    /// How often disk space has come back: a failure of a write that began before says nothing about now.
    pub fn returns(&self) -> u64 {
        self.returns
    }

    /// It cannot leave its frames for now.
    pub fn stick(&mut self, key: Key) {
        self.stuck.insert(key);
    }

    /// It is gone.
    pub fn forget(&mut self, key: Key) {
        self.stuck.remove(&key);
    }

    /// A device could not take a segment, neither a place nor its bytes.
    pub fn refused(&mut self, device: DeviceId, error: &Error, now: Instant) {
        let state = &mut self.devices[usize::from(device)];
        state.failed_in_row += 1;
        state.full |= error.is_no_space() || state.failed_in_row >= FAILED_IN_ROW_MAX;
        state.failed_at = Some(now);
    }

    /// A device has taken a segment.
    pub fn written(&mut self, device: DeviceId) {
        self.devices[usize::from(device)].failed_in_row = 0;
    }

    /// No device has taken this segment.
    pub fn failed(&mut self, key: Key, error: &Error) {
        self.stuck.insert(key);
        self.retrying = false;
        self.error = Some(error.clone());
    }

    /// Whether to warn of a failure: a full disk concerns every segment.
    pub fn warns(&mut self, now: Instant) -> bool {
        let warns = self.warned_at.is_none_or(|at| now.saturating_duration_since(at) >= WARNED_EVERY);
        if warns {
            self.warned_at = Some(now);
        }
        warns
    }

    /// Space has come back.
    pub fn space_returned(&mut self) {
        self.returns += 1;
        for device in &mut self.devices {
            device.full = false;
            device.failed_at = None;
        }
        self.retrying = true;
    }

    /// Tries again once in a while, since others may have made space: not at each call, or a full disk would cost every
    /// writer a write.
    pub fn retry_if_due(&mut self, now: Instant) {
        for device in &mut self.devices {
            if device.failed_at.is_some_and(|at| now.saturating_duration_since(at) >= RETRIED_EVERY) {
                device.full = false;
                device.failed_at = None;
                self.retrying = true;
            }
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
    use crate::names::Names;

    fn no_space() -> Error {
        Error::no_space(&Names::default(), Path::new("/data"), "full")
    }

    fn broken() -> Error {
        Error::io("write", "/data", std::io::Error::from_raw_os_error(5))
    }

    /// A segment that no device has taken, for the same reason.
    fn fail(disk: &mut WriteBack, key: Key, error: &Error, now: Instant) {
        disk.candidates().iter().for_each(|&device| disk.refused(device, error, now));
        disk.failed(key, error);
    }

    #[test]
    fn one_failure_for_want_of_space_stands_for_all() {
        let (mut disk, now) = (WriteBack::new(1), Instant::now());
        assert!(disk.may_write(1, None) && !disk.fails());
        fail(&mut disk, 1, &no_space(), now);
        assert!(disk.disk_is_full() && !disk.may_write(2, None) && disk.fails());
        assert!(disk.error().is_some_and(Error::is_no_space));
        disk.retry_if_due(now + RETRIED_EVERY / 2);
        assert!(disk.disk_is_full() && disk.come_back().is_empty());
        disk.retry_if_due(now + RETRIED_EVERY);
        assert!(disk.may_write(2, None) && !disk.may_write(1, None) && !disk.fails());
        assert_eq!(disk.come_back(), [1]);
        assert!(disk.may_write(1, None) && !disk.has_stuck());
    }

    #[test]
    fn other_failures_stand_for_their_segment_until_there_are_many() {
        let (mut disk, now) = (WriteBack::new(1), Instant::now());
        for key in 1..FAILED_IN_ROW_MAX as u64 {
            fail(&mut disk, key, &broken(), now);
            assert!(!disk.disk_is_full() && disk.may_write(99, None) && !disk.may_write(key, None));
            assert!(disk.fails());
        }
        fail(&mut disk, 50, &broken(), now);
        assert!(disk.disk_is_full() && !disk.may_write(99, None));
    }

    #[test]
    fn failures_that_others_come_between_are_not_in_a_row() {
        let (mut disk, now) = (WriteBack::new(1), Instant::now());
        for key in 0..3 * FAILED_IN_ROW_MAX as u64 {
            fail(&mut disk, key, &broken(), now);
            if key % 8 == 0 {
                disk.written(0);
            }
        }
        assert!(!disk.disk_is_full());
    }

    #[test]
    fn what_is_stuck_comes_back_in_batches_until_a_write_fails_again() {
        let (mut disk, now) = (WriteBack::new(1), Instant::now());
        (0..200).for_each(|key| disk.stick(key));
        fail(&mut disk, 200, &no_space(), now);
        assert_eq!(disk.returns(), 0);
        disk.space_returned();
        assert_eq!(disk.returns(), 1);
        assert_eq!(disk.come_back(), (0..64).collect::<Vec<_>>());
        disk.forget(64);
        assert_eq!(disk.come_back(), (65..129).collect::<Vec<_>>());
        fail(&mut disk, 70, &no_space(), now);
        assert!(disk.come_back().is_empty() && disk.fails());
    }

    #[test]
    fn a_full_disk_is_warned_of_once_a_minute() {
        let (mut disk, now) = (WriteBack::new(1), Instant::now());
        assert!(disk.warns(now) && !disk.warns(now + WARNED_EVERY / 2));
        assert!(disk.warns(now + WARNED_EVERY) && !disk.warns(now + WARNED_EVERY));
    }

    #[test]
    fn segments_take_turns_among_the_devices_that_take_more() {
        let (mut disk, now) = (WriteBack::new(3), Instant::now());
        assert_eq!([(); 4].map(|()| disk.candidates()[0]), [0, 1, 2, 0]);
        disk.refused(1, &no_space(), now);
        assert_eq!(disk.candidates(), [2, 0], "the full one is left out");
        assert_eq!([(); 4].map(|()| disk.candidates()[0]), [0, 2, 0, 2]);
        assert!(disk.may_write(1, None) && !disk.fails() && !disk.disk_is_full());
        assert!(!disk.may_write(1, Some(1)) && disk.may_write(1, Some(2)), "a place is on one device");
        assert!(disk.has_other(0));
        disk.refused(0, &no_space(), now);
        assert!(!disk.has_other(2) && disk.has_other(0));
        disk.refused(2, &no_space(), now + RETRIED_EVERY / 2);
        assert!(disk.disk_is_full() && disk.fails());
        assert_eq!(disk.candidates().len(), 3, "who has to write has all of them tried");
        disk.retry_if_due(now + RETRIED_EVERY);
        assert!(!disk.may_write(1, Some(2)), "each after its own second");
        assert_eq!(disk.candidates().len(), 2);
        disk.space_returned();
        assert_eq!(disk.candidates().len(), 3);
    }

    #[test]
    fn a_device_that_fails_often_is_passed_over_for_a_second() {
        let (mut disk, now) = (WriteBack::new(2), Instant::now());
        (1..FAILED_IN_ROW_MAX).for_each(|_| disk.refused(1, &broken(), now));
        assert!(disk.may_write(1, Some(1)));
        disk.refused(1, &broken(), now);
        assert!(!disk.may_write(1, Some(1)) && disk.may_write(1, Some(0)) && !disk.has_other(0));
        disk.retry_if_due(now + RETRIED_EVERY);
        assert!(disk.may_write(1, Some(1)));
        disk.refused(1, &broken(), now);
        assert!(!disk.may_write(1, Some(1)), "none has succeeded since");
        disk.retry_if_due(now + 3 * RETRIED_EVERY);
        disk.written(1);
        disk.refused(1, &broken(), now);
        assert!(disk.may_write(1, Some(1)));
    }
}
