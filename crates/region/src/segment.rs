//! A segment: the unit of placement inside a region.
//!
//! Invariant: `address`, `frames` and `place` change only while the state word says that nobody reads them:
//! address in `Writing`, `Promoting` and `Mapped` transitions (the ledger is locked), place before a write, and
//! after one that failed. Readers load them after their pin is counted. A transfer is a value, [`Moving`]: nobody ends it, or
//! begins a second one, while somebody has it.

pub(crate) mod state;

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

use warmset_placement::{Key, Score};
use warmset_platform::io::DIRECT_ALIGN_BYTES;

use crate::FRAME_BYTES;
use crate::backing::{Backing, Place};
use crate::device::DeviceId;
use crate::error::Error;
use crate::region_file::{Check, Entry, checksum};
use crate::sync::Mutex;
use state::{State, StateWord};

const NO_PLACE: u64 = u64::MAX;
const OFFSET_BITS: u32 = 56;

/// What the segments of a region share.
#[derive(Debug)]
pub(crate) struct RegionCore {
    pub id: u64,
    pub backing: Backing,
    /// Segments that are not freed yet.
    pub live: AtomicU64,
    pub released: AtomicBool,
    /// Once released: the housekeeper has been through its segments.
    pub walked: AtomicBool,
    /// Transfers of its segments in flight.
    pub transfers: AtomicUsize,
    /// It is empty, and somebody forgets it.
    pub leaving: AtomicBool,
}

impl RegionCore {
    pub fn new(id: u64, backing: Backing) -> Self {
        Self {
            id,
            backing,
            live: AtomicU64::new(0),
            released: AtomicBool::new(false),
            walked: AtomicBool::new(false),
            transfers: AtomicUsize::new(0),
            leaving: AtomicBool::new(false),
        }
    }
}

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
    /// Place in the region's files: the device and the offset there.
    place: AtomicU64,
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
    /// A segment that its writer has pinned (see [`StateWord::writing`]).
    pub fn writing(
        key: Key,
        region: &Arc<RegionCore>,
        position: usize,
        bytes: u64,
        raw: bool,
        address: usize,
        now_ticks: u64,
    ) -> Self {
        Self {
            key,
            region: Arc::clone(region),
            position: u32::try_from(position).unwrap_or(u32::MAX),
            word: StateWord::writing(raw),
            address: AtomicUsize::new(address),
            bytes: AtomicU64::new(bytes),
            place: AtomicU64::new(NO_PLACE),
            score: AtomicU64::new(Score::NEVER.to_bits()),
            accessed_ticks: AtomicU64::new(now_ticks),
            checksum: OnceLock::new(),
            checks: Box::default(),
            failure: Mutex::new(None),
        }
    }

    /// A segment of a saved region.
    pub fn saved(
        key: Key,
        region: &Arc<RegionCore>,
        position: usize,
        entry: Entry,
        device: DeviceId,
        now_ticks: u64,
    ) -> Self {
        Self {
            word: StateWord::new(State::Absent),
            place: AtomicU64::new(encode(Place { device, offset: entry.offset })),
            checksum: OnceLock::from(entry.checksum),
            ..Self::writing(key, region, position, entry.bytes, false, 0, now_ticks)
        }
    }

    /// An extent of a file that others wrote.
    pub fn extent(
        key: Key,
        region: &Arc<RegionCore>,
        position: usize,
        place: Place,
        bytes: u64,
        checks: Vec<Check>,
        now_ticks: u64,
    ) -> Self {
        Self {
            word: StateWord::new(State::Absent),
            place: AtomicU64::new(encode(place)),
            checks: checks.into(),
            ..Self::writing(key, region, position, bytes, false, 0, now_ticks)
        }
    }

    /// Compares bytes that were read from disk with those that were written.
    pub fn check(&self, bytes: &[u8], place: Place) -> Result<(), Error> {
        if let Some(wrong) = self.checks.iter().find(|check| !check.holds(place.offset, bytes)) {
            return Err(Error::BadFile {
                path: self.region.backing.path(place).to_owned(),
                problem: format!("the checksum of {} bytes at offset {} is wrong", wrong.bytes, wrong.offset),
            });
        }
        if self.checksum.get().is_none_or(|&expected| checksum(bytes) == expected) {
            return Ok(());
        }
        let problem = format!("the checksum of {} bytes at {} is wrong", self.bytes(), place.offset);
        let path = self.region.backing.path(place).to_owned();
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

    /// Frames that have the segment when resident.
    pub fn frames(&self) -> u64 {
        frames_for(self.bytes())
    }

    /// Bytes of a transfer from or to disk.
    pub fn disk_bytes(&self) -> u64 {
        self.bytes().max(1).next_multiple_of(DIRECT_ALIGN_BYTES as u64)
    }

    /// Where its bytes are on disk, or will be.
    pub fn place(&self) -> Option<Place> {
        let place = self.place.load(Ordering::Relaxed);
        (place != NO_PLACE).then(|| decode(place))
    }

    pub fn set_place(&self, place: Place) {
        self.place.store(encode(place), Ordering::Relaxed);
    }

    /// Its bytes could not be written where they were to go: another place is found the next time.
    pub fn give_up_place(&self) {
        if let Some(place) = self.place() {
            self.place.store(NO_PLACE, Ordering::Relaxed);
            self.region.backing.give_up(place, self.disk_bytes());
        }
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

/// A segment whose bytes are on the move: made by the step into `Promoting`, `WritingBack` or `Sealing`, and taken by the step
/// out of it. In between its memory is not freed, moved or given to others, and only its owner's transfer writes to it.
/// Dropped without an end, as in a store that has failed, it leaves the segment so for ever.
#[derive(Debug)]
#[must_use]
pub(crate) struct Moving(Arc<Segment>);

impl Moving {
    /// From disk to the frames that are its address; counts the pin of whoever asked for it.
    pub fn promotion(segment: &Arc<Segment>) -> Option<Self> {
        segment.word.begin_promote().then(|| Self(Arc::clone(segment)))
    }

    /// To disk, while it may be read.
    pub fn write_back(segment: &Arc<Segment>) -> Option<Self> {
        segment.word.begin_write().then(|| Self(Arc::clone(segment)))
    }

    /// To disk, by its writer, who writes to it no more.
    pub fn seal(segment: &Arc<Segment>) -> Option<Self> {
        segment.word.begin_seal().then(|| Self(Arc::clone(segment)))
    }

    pub fn segment(&self) -> &Arc<Segment> {
        &self.0
    }

    pub fn end_promotion(self, read: bool) {
        self.0.word.end_promote(read);
    }

    pub fn end_write_back(self, written: bool) {
        self.0.word.end_write(written);
    }

    /// Ends the writer's pin, too.
    pub fn end_seal(self, written: bool) {
        self.0.word.end_seal(written);
    }
}

fn encode(place: Place) -> u64 {
    u64::from(place.device) << OFFSET_BITS | place.offset
}

fn decode(place: u64) -> Place {
    Place { device: (place >> OFFSET_BITS) as DeviceId, offset: place & ((1 << OFFSET_BITS) - 1) }
}

/// Frames that `bytes` need; an empty segment still has a place.
pub(crate) fn frames_for(bytes: u64) -> u64 {
    bytes.max(1).div_ceil(FRAME_BYTES as u64)
}
