//! Reads a profile's ranges into the page cache, on several threads, and never what it must not.
//!
//! A profile is data from a file: its paths are opened as the user, only regular files that are still what was recorded
//! are read, and never more of them than there are.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{Advice, OFlags, fadvise};

use crate::profile::{FileRecord, Profile};

/// The kernel cuts a longer request at the device's limit without a word.
const PIECE_BYTES: u64 = 128 << 10;
const THREADS: usize = 4;

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

/// The profile's ranges in pieces of at most 128 KiB, in order of first touch, of at most `bytes_max` in all. Ranges
/// that name no file or lie outside of it are left out.
#[must_use]
pub fn pieces(profile: &Profile, bytes_max: u64) -> Vec<Piece> {
    let mut found = Vec::new();
    let mut left = bytes_max;
    for read in &profile.reads {
        let Some(file) = profile.files.get(read.file) else { continue };
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

/// A file that is opened by the first thread that needs it.
type Slot = std::sync::OnceLock<Option<File>>;

/// Asks the kernel to read the profile's ranges, at most `bytes_max` of them, and returns when all are asked for.
#[must_use]
pub fn fetch(profile: &Profile, bytes_max: u64) -> Fetched {
    let pieces = pieces(profile, bytes_max);
    let slots: Vec<Slot> = profile.files.iter().map(|_| Slot::new()).collect();
    let (next, asked, stale) = (AtomicUsize::new(0), AtomicU64::new(0), AtomicU64::new(0));
    thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                while let Some(piece) = pieces.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let file = slots[piece.file].get_or_init(|| open(&profile.files[piece.file]));
                    let length = std::num::NonZeroU64::new(piece.bytes);
                    let counter = match file {
                        Some(file) if fadvise(file, piece.start, length, Advice::WillNeed).is_ok() => &asked,
                        _ => &stale,
                    };
                    counter.fetch_add(piece.bytes, Ordering::Relaxed);
                }
            });
        }
    });
    Fetched { bytes: asked.into_inner(), stale_bytes: stale.into_inner() }
}

/// The recorded file, if it still is that. A FIFO or a device does not block, and is not read.
fn open(record: &FileRecord) -> Option<File> {
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&record.path).ok()?;
    let now = file.metadata().ok().filter(std::fs::Metadata::is_file)?;
    (FileRecord::of(&record.path, &now) == *record).then_some(file)
}
