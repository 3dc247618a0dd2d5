//! Reads a profile's ranges into the page cache, on several threads, and never what it must not.
//!
//! A profile is data from a file: its paths are opened as the user, only regular files that are still what was recorded
//! are read, and never more of them than there are.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{Advice, OFlags, fadvise};

use crate::limits::Limits;
use crate::profile::{FileRecord, Profile, Read};

/// The kernel cuts a longer request at the device's limit without a word.
const PIECE_BYTES: u64 = 128 << 10;
/// Most of them wait for the disk: for the blocks that tell where the files are.
const THREADS: usize = 6;
/// A set with fewer pieces is fetched by one thread.
const PIECES_PER_THREAD: usize = 8;

/// A part of a file that is asked for at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// Which of the profile's files.
    pub file: usize,
    /// The first byte.
    pub start: u64,
    /// How many.
    pub bytes: u64,
}

/// What was asked of the kernel.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Bytes that were asked for.
    pub bytes: u64,
    /// Bytes of files that have changed, which were left out.
    pub stale_bytes: u64,
}

/// The ranges in pieces of at most 128 KiB, of at most `bytes_max` in all. Those on disks with moving heads are in the
/// disk's order, the others in order of first touch. Ranges that name no file or lie outside of it are left out.
#[must_use]
pub fn pieces(files: &[FileRecord], reads: &[Read], bytes_max: u64) -> Vec<Piece> {
    let rotational = |read: &Read| files.get(read.file).is_some_and(|file| file.rotational);
    let mut sorted = Vec::new();
    let reads = if reads.iter().any(rotational) {
        sorted.extend_from_slice(reads);
        sorted.sort_by_key(|read| (read.disk_offset, read.file, read.start));
        &sorted
    } else {
        reads
    };
    let mut found = Vec::with_capacity(reads.len());
    let mut left = bytes_max;
    for read in reads {
        let Some(file) = files.get(read.file) else { continue };
        let end = read.end.min(file.size_bytes);
        let mut start = read.start;
        while start < end {
            let bytes = PIECE_BYTES.min(end - start);
            if bytes > left {
                return found;
            }
            found.push(Piece { file: read.file, start, bytes });
            left -= bytes;
            start += bytes;
        }
    }
    found
}

/// Fetches the ranges of one profile. A file is opened by the first thread that needs it, and stays open.
#[derive(Debug)]
pub struct Fetcher<'a> {
    profile: &'a Profile,
    slots: Vec<OnceLock<Option<File>>>,
    limits: Limits,
}

impl<'a> Fetcher<'a> {
    /// Has not fetched anything yet.
    #[must_use]
    pub fn new(profile: &'a Profile, limits: Limits) -> Self {
        let slots = profile.files.iter().map(|_| OnceLock::new()).collect();
        Self { profile, slots, limits }
    }

    /// Asks the kernel to read the ranges, as far as memory allows, and returns when all are asked for.
    pub fn fetch(&self, reads: &[Read]) -> Fetched {
        let pieces = pieces(&self.profile.files, reads, self.limits.take(reads));
        let work =
            Work { pieces, next: AtomicUsize::new(0), asked: AtomicU64::new(0), stale: AtomicU64::new(0) };
        let threads = work.pieces.len().div_ceil(PIECES_PER_THREAD).clamp(1, THREADS);
        thread::scope(|scope| {
            for _ in 1..threads {
                // Without another thread this one does all.
                let _ = thread::Builder::new().spawn_scoped(scope, || self.work(&work));
            }
            self.work(&work);
        });
        Fetched { bytes: work.asked.into_inner(), stale_bytes: work.stale.into_inner() }
    }

    /// Looks how much memory there is for what is fetched after these ranges.
    pub(crate) fn measure_limits(&self, fetched: &[Read]) {
        self.limits.measure(fetched.iter().fold(0, |sum, read| sum.saturating_add(read.bytes())));
    }

    fn work(&self, work: &Work) {
        while let Some(piece) = work.pieces.get(work.next.fetch_add(1, Ordering::Relaxed)) {
            self.limits.wait_for_memory();
            let file = self.slots[piece.file].get_or_init(|| open(&self.profile.files[piece.file]));
            let length = std::num::NonZeroU64::new(piece.bytes);
            let counter = match file {
                Some(file) if fadvise(file, piece.start, length, Advice::WillNeed).is_ok() => &work.asked,
                _ => &work.stale,
            };
            counter.fetch_add(piece.bytes, Ordering::Relaxed);
        }
    }

    /// How often the fetcher has opened this file itself.
    #[must_use]
    pub fn opens(&self, path: &std::path::Path) -> u32 {
        let files = self.profile.files.iter().zip(&self.slots);
        files.filter(|(file, slot)| file.path == path && slot.get().is_some_and(Option::is_some)).count()
            as u32
    }
}

/// What the threads of one call share.
struct Work {
    pieces: Vec<Piece>,
    next: AtomicUsize,
    asked: AtomicU64,
    stale: AtomicU64,
}

/// The recorded file, if it still is that. A FIFO or a device does not block, and is not read.
fn open(record: &FileRecord) -> Option<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&record.path).ok()?;
    file.metadata().is_ok_and(|now| record.matches(&now)).then_some(file)
}
