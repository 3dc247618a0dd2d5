//! Reads a profile's ranges into the page cache, on several threads, and never what it must not.
//!
//! A profile is data from a file: its paths are opened as the user, only regular files that are still what was recorded
//! are read, and never more of them than there are.

use std::fs::{File, OpenOptions};
use std::io::IoSliceMut;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::thread;

use rustix::fs::{Advice, OFlags, fadvise};
use rustix::io::{ReadWriteFlags, preadv2};

use crate::limits::Limits;
use crate::profile::{FileRecord, Profile, Read, total_bytes};

/// A program that needs a page waits for the whole request that reads it, and the kernel cuts a longer request at the
/// device's limit without a word.
const PIECE_BYTES: u64 = 128 << 10;
/// Moving heads reads this much in the time that another movement takes.
const PIECE_BYTES_ROTATIONAL: u64 = 1 << 20;
const GAP_BYTES_ROTATIONAL: u64 = 256 << 10;
/// Most of them wait for the disk: for the directories, inodes and blocks that tell where the files are.
const THREADS: usize = 4;
/// More would only lengthen the line in which the program's own reads wait.
const THREADS_ROTATIONAL: usize = 2;
/// A set with fewer pieces is fetched by one thread.
const PIECES_PER_THREAD: usize = 8;
/// How many ranges are looked at to tell whether all are in the page cache.
const SAMPLES: usize = 12;

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

/// The ranges in pieces, of at most `bytes_max` in all: of at most 128 KiB and in order of first touch, or if a file is on
/// a disk with moving heads, larger and in the disk's order. Ranges that name no file or lie outside of it are left out.
#[must_use]
pub fn pieces(files: &[FileRecord], reads: &[Read], bytes_max: u64) -> Vec<Piece> {
    let joined;
    let rotational = has_moving_heads(files, reads);
    let (reads, piece_bytes) = if rotational {
        joined = in_disk_order(reads);
        (joined.as_slice(), PIECE_BYTES_ROTATIONAL)
    } else {
        (reads, PIECE_BYTES)
    };
    let mut found = Vec::with_capacity(reads.len());
    let mut left = bytes_max;
    for read in reads {
        let Some(file) = files.get(read.file) else { continue };
        let end = read.end.min(file.size_bytes);
        let mut start = read.start;
        while start < end {
            let bytes = piece_bytes.min(end - start);
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

pub(crate) fn has_moving_heads(files: &[FileRecord], reads: &[Read]) -> bool {
    reads.iter().any(|read| files.get(read.file).is_some_and(|file| file.rotational))
}

/// Sorted by where they are on the disk; ranges of a file that lie close to each other, there and in the file, are joined.
fn in_disk_order(reads: &[Read]) -> Vec<Read> {
    let mut sorted = reads.to_vec();
    sorted.sort_by_key(|read| (read.disk_offset, read.file, read.start));
    let mut joined: Vec<Read> = Vec::with_capacity(sorted.len());
    for read in sorted {
        match joined.last_mut() {
            Some(last)
                if last.file == read.file
                    && last.disk_offset != 0
                    && read.start.checked_sub(last.end).is_some_and(|gap| gap <= GAP_BYTES_ROTATIONAL)
                    && read.disk_offset - last.disk_offset == read.start - last.start =>
            {
                last.end = read.end;
            }
            _ => joined.push(read),
        }
    }
    joined
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
        let rotational = has_moving_heads(&self.profile.files, reads);
        self.fetch_with(reads, if rotational { THREADS_ROTATIONAL } else { THREADS })
    }

    /// As [`Fetcher::fetch`], on this thread only.
    pub(crate) fn fetch_alone(&self, reads: &[Read]) -> Fetched {
        self.fetch_with(reads, 1)
    }

    fn fetch_with(&self, reads: &[Read], threads_max: usize) -> Fetched {
        let work = Work {
            pieces: pieces(&self.profile.files, reads, self.limits.take(reads)),
            waits: has_moving_heads(&self.profile.files, reads),
            next: AtomicUsize::new(0),
            asked: AtomicU64::new(0),
            stale: AtomicU64::new(0),
        };
        let threads = work.pieces.len().div_ceil(PIECES_PER_THREAD).clamp(1, threads_max);
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
        self.limits.measure(total_bytes(fetched));
    }

    /// Whether these ranges take at most a `1 / share` of what may still be fetched.
    pub(crate) fn has_room_for(&self, reads: &[Read], share: u64) -> bool {
        total_bytes(reads) <= self.limits.left_bytes() / share
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
            if let Some(file) = file.as_ref().filter(|_| work.waits) {
                let _ = file.read_at(&mut [0], piece.start + piece.bytes - 1);
            }
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
    /// Whether a thread has one request under way at most: what the program itself reads would wait behind all of them.
    waits: bool,
    next: AtomicUsize,
    asked: AtomicU64,
    stale: AtomicU64,
}

/// Whether a sample of the ranges is in the page cache, taken from all over them: all the rest then probably is, and
/// fetching would only take processors from the program. Says no where the kernel cannot tell.
#[must_use]
pub fn is_resident(profile: &Profile) -> bool {
    let count = profile.reads.len();
    let samples = SAMPLES.min(count);
    let mut sampled: Vec<&Read> = (0..samples).map(|index| &profile.reads[index * count / samples]).collect();
    // Each file is opened once.
    sampled.sort_unstable_by_key(|read| read.file);
    let mut opened: Option<(usize, Option<File>)> = None;
    sampled.into_iter().all(|read| {
        if opened.as_ref().is_none_or(|(file, _)| *file != read.file) {
            opened = Some((read.file, open(&profile.files[read.file])));
        }
        // A file that has changed is not fetched either.
        let Some((_, Some(file))) = &opened else { return true };
        let at = read.start + (read.end - read.start) / 2;
        let mut byte = [0];
        preadv2(file, &mut [IoSliceMut::new(&mut byte)], at, ReadWriteFlags::NOWAIT).is_ok()
    })
}

/// The recorded file, if it still is that. What is no regular file is not opened, since opening a device may do something;
/// one that takes the file's place just then does not make it wait, and is not read.
fn open(record: &FileRecord) -> Option<File> {
    if !record.is_current() {
        return None;
    }
    let flags = (OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file = OpenOptions::new().read(true).custom_flags(flags).open(&record.path).ok()?;
    file.metadata().is_ok_and(|now| record.matches(&now)).then_some(file)
}
