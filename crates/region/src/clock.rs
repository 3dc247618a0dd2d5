//! Logical time: bytes read, in parts of the bytes alive (see [`AccessClock`]).
//!
//! Invariant: it never goes back. Readers pay one addition.

use std::sync::atomic::{AtomicU64, Ordering};

use warmset_placement::AccessClock;

use crate::segment::Segment;

#[derive(Debug)]
pub(crate) struct LogicalClock {
    ticks: AtomicU64,
    rate: AtomicU64,
    live_bytes: AtomicU64,
}

impl LogicalClock {
    pub fn new() -> Self {
        Self {
            ticks: AtomicU64::new(0),
            rate: AtomicU64::new(AccessClock::for_live_bytes(0).to_bits()),
            live_bytes: AtomicU64::new(0),
        }
    }

    pub fn now(&self) -> u64 {
        self.ticks.load(Ordering::Relaxed)
    }

    /// Time passes while a segment is read.
    pub fn access(&self, segment: &Segment) {
        let passed = AccessClock::from_bits(self.rate.load(Ordering::Relaxed)).ticks(segment.bytes());
        segment.accessed(self.ticks.fetch_add(passed, Ordering::Relaxed).wrapping_add(passed));
    }

    /// Bytes of all segments.
    pub fn live_bytes(&self) -> u64 {
        self.live_bytes.load(Ordering::Relaxed)
    }

    pub fn add_live_bytes(&self, bytes: u64) {
        self.set_rate(self.live_bytes.fetch_add(bytes, Ordering::Relaxed) + bytes);
    }

    pub fn sub_live_bytes(&self, bytes: u64) {
        self.set_rate(self.live_bytes.fetch_sub(bytes, Ordering::Relaxed) - bytes);
    }

    fn set_rate(&self, live_bytes: u64) {
        self.rate.store(AccessClock::for_live_bytes(live_bytes).to_bits(), Ordering::Relaxed);
    }
}
