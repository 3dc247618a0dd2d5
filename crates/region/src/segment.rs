//! A segment: the unit of placement inside a region.
//!
//! Invariant: `address`, `frames` and `offset` change only while the state word says that nobody reads them:
//! address in `Writing`, `Promoting` and `Mapped` transitions (ledger lock held), offset once, before the
//! first write. Readers load them after their hold is counted.

use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use parking_lot::Mutex;
use warmset_placement::{Key, Score};
use warmset_platform::io::DIRECT_ALIGN_BYTES;

use crate::FRAME_BYTES;
use crate::error::Error;
use crate::extents::Check;
use crate::region_file::{Entry, checksum};
use crate::state::{State, StateWord};
use crate::store::{RegionCore, RegionTable};

const NO_OFFSET: u64 = u64::MAX;

#[derive(Debug)]
pub(crate) struct Segment {
    pub key: Key,
    pub region: Arc<RegionCore>,
    /// How many segments of its region are before it, about: writers may race.
    pub position: u32,
    pub word: StateWord,
    /// First byte, in the pool or the window; meaningless while absent.
    address: AtomicUsize,
    /// Bytes reserved, then bytes sealed.
    bytes: AtomicU64,
    /// Place in the region's file.
    offset: AtomicU64,
    score: AtomicU64,
    accessed_ticks: AtomicU64,
    /// Of its bytes as they are on disk: what a saved region's file says, or what was written.
    checksum: OnceLock<u64>,
    /// Checksums of its parts, where it is an extent of somebody else's file.
    checks: Box<[Check]>,
    /// Why the last promotion failed, for those who wait for it.
    pub failure: Mutex<Option<Error>>,
}

impl Segment {
    /// A segment that its writer holds (see [`StateWord::writing`]).
    pub fn writing(
        key: Key,
        table: &RegionTable,
        bytes: u64,
        raw: bool,
        address: usize,
        now_ticks: u64,
    ) -> Self {
        Self {
            key,
            region: Arc::clone(&table.core),
            position: u32::try_from(table.segments.count()).unwrap_or(u32::MAX),
            word: StateWord::writing(raw),
            address: AtomicUsize::new(address),
            bytes: AtomicU64::new(bytes),
            offset: AtomicU64::new(NO_OFFSET),
            score: AtomicU64::new(Score::NEVER.to_bits()),
            accessed_ticks: AtomicU64::new(now_ticks),
            checksum: OnceLock::new(),
            checks: Box::default(),
            failure: Mutex::new(None),
        }
    }

    /// A segment of a saved region.
    pub fn saved(key: Key, table: &RegionTable, entry: Entry, now_ticks: u64) -> Self {
        Self {
            word: StateWord::new(State::Absent),
            offset: AtomicU64::new(entry.offset),
            checksum: OnceLock::from(entry.checksum),
            ..Self::writing(key, table, entry.bytes, false, 0, now_ticks)
        }
    }

    /// An extent of a file that others wrote.
    pub fn extent(
        key: Key,
        table: &RegionTable,
        offset: u64,
        bytes: u64,
        checks: Vec<Check>,
        now_ticks: u64,
    ) -> Self {
        Self {
            word: StateWord::new(State::Absent),
            offset: AtomicU64::new(offset),
            checks: checks.into(),
            ..Self::writing(key, table, bytes, false, 0, now_ticks)
        }
    }

    /// Compares bytes that were read from disk with those that were written.
    pub fn check(&self, bytes: &[u8]) -> Result<(), Error> {
        let start = self.offset().unwrap_or_default();
        if let Some(wrong) = self.checks.iter().find(|check| !check.holds(start, bytes)) {
            return Err(Error::BadFile {
                path: self.region.backing.path().to_owned(),
                problem: format!("the checksum of {} bytes at offset {} is wrong", wrong.bytes, wrong.offset),
            });
        }
        if self.checksum.get().is_none_or(|&expected| checksum(bytes) == expected) {
            return Ok(());
        }
        let problem = format!("the checksum of {} bytes at {:?} is wrong", self.bytes(), self.offset());
        let path = self.region.backing.path().to_owned();
        Err(if self.region.backing.is_shared() {
            Error::BadFile { path, problem }
        } else {
            Error::Damaged { place: path, problem }
        })
    }

    pub fn has_checksum(&self) -> bool {
        self.checksum.get().is_some()
    }

    /// Of the bytes that are being written: before anybody can read them back.
    pub fn set_checksum(&self, checksum: u64) {
        // A segment that is written a second time, after an error, has the same bytes.
        let _ = self.checksum.set(checksum);
    }

    pub fn address(&self) -> usize {
        self.address.load(Ordering::Relaxed)
    }

    pub fn set_address(&self, address: usize) {
        self.address.store(address, Ordering::Relaxed);
    }

    /// Bytes the writer asked for, then bytes it sealed.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub fn set_bytes(&self, bytes: u64) {
        self.bytes.store(bytes, Ordering::Relaxed);
    }

    /// Frames that hold the segment when resident.
    pub fn frames(&self) -> u64 {
        frames_for(self.bytes())
    }

    /// Bytes of a transfer from or to disk.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes().max(1).next_multiple_of(DIRECT_ALIGN_BYTES as u64)
    }

    pub fn offset(&self) -> Option<u64> {
        Some(self.offset.load(Ordering::Relaxed)).filter(|&offset| offset != NO_OFFSET)
    }

    /// Finds the place on disk, taking one on first use.
    pub fn allocate(&self) -> Result<u64, Error> {
        if let Some(offset) = self.offset() {
            return Ok(offset);
        }
        let offset = self.region.backing.allocate(self.disk_bytes())?;
        self.offset.store(offset, Ordering::Relaxed);
        Ok(offset)
    }

    pub fn score(&self) -> Score {
        Score::from_bits(self.score.load(Ordering::Relaxed))
    }

    /// When it was made or last read; up to the span that counts as one access before the last read.
    pub fn used_ticks(&self) -> u64 {
        self.accessed_ticks.load(Ordering::Relaxed)
    }

    /// Counts an access. Two threads may race; one access is lost then, which a score can bear.
    pub fn accessed(&self, now_ticks: u64) {
        let last = self.accessed_ticks.load(Ordering::Relaxed);
        let score = self.score();
        if score == Score::NEVER || !Score::is_same_access(last, now_ticks) {
            self.accessed_ticks.store(now_ticks, Ordering::Relaxed);
            self.score.store(score.accessed(now_ticks).to_bits(), Ordering::Relaxed);
        }
    }
}

/// Frames that `bytes` need; an empty segment still has a place.
pub(crate) fn frames_for(bytes: u64) -> u64 {
    bytes.max(1).div_ceil(FRAME_BYTES as u64)
}
