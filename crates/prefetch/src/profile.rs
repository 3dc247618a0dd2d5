//! What is kept of a run: the files and the ranges that it touched, in order of first touch.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use warmset_platform::opens::FileId;

use crate::trace::Trace;

/// The format's version. A profile of another one is not read.
pub const VERSION: u32 = 1;
/// Ranges closer than this are read as one.
const GAP_BYTES: u64 = 32 << 10;

/// What one program reads when it is started with certain arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// [`VERSION`] when it was written.
    pub version: u32,
    /// The program's canonical path.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<String>,
    /// How long the recorded run took.
    pub seconds: f64,
    /// The files, as they were then.
    pub files: Vec<FileRecord>,
    /// What was touched of them, in order of first touch, without overlaps.
    pub reads: Vec<Read>,
}

/// A file, and how to tell that it has changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FileRecord {
    /// Its absolute path.
    pub path: PathBuf,
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
    /// Its size.
    pub size_bytes: u64,
    /// When it was last written, since the epoch.
    pub mtime_ns: i128,
}

/// A range of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Read {
    /// Which of the profile's files.
    pub file: usize,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
    /// When it was first touched, since the start of the run.
    pub at_ms: u64,
}

impl FileRecord {
    /// The file as it is now.
    #[must_use]
    pub fn of(path: &Path, metadata: &fs::Metadata) -> Self {
        Self {
            path: path.to_owned(),
            device: metadata.dev(),
            inode: metadata.ino(),
            size_bytes: metadata.len(),
            mtime_ns: i128::from(metadata.mtime()) * 1_000_000_000 + i128::from(metadata.mtime_nsec()),
        }
    }

    /// Whether the file is still the recorded one.
    #[must_use]
    pub fn is_current(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| now.is_file() && Self::of(&self.path, &now) == *self)
    }
}

impl Profile {
    /// Makes a profile of a trace. Returns it with the number of files whose path is not known, which are left out.
    #[must_use]
    pub fn of(
        (program, arguments): (PathBuf, Vec<String>),
        trace: &Trace,
        paths: &HashMap<FileId, PathBuf>,
    ) -> (Self, usize) {
        let first = trace.touches.first().map_or(0.0, |touch| touch.seconds);
        let last = trace.touches.last().map_or(0.0, |touch| touch.seconds);
        let mut files: Vec<FileRecord> = Vec::new();
        let mut known: HashMap<FileId, Option<usize>> = HashMap::new();
        let mut reads: Vec<Read> = Vec::new();
        let mut taken: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
        for touch in &trace.touches {
            let device = rustix::fs::makedev(touch.device.0, touch.device.1);
            let id = FileId { device, inode: touch.inode };
            let file = *known.entry(id).or_insert_with(|| {
                let path = paths.get(&id)?;
                let record = FileRecord::of(path, &fs::metadata(path).ok().filter(fs::Metadata::is_file)?);
                (record.inode == id.inode).then(|| {
                    files.push(record);
                    files.len() - 1
                })
            });
            let Some(file) = file else { continue };
            let end = touch.end.min(files[file].size_bytes.next_multiple_of(4096));
            for (start, end) in uncovered(taken.entry(file).or_default(), touch.start, end) {
                let at_ms = ((touch.seconds - first) * 1e3) as u64;
                match reads.last_mut() {
                    Some(last) if last.file == file && last.end <= start && start - last.end <= GAP_BYTES => {
                        last.end = end;
                    }
                    _ => reads.push(Read { file, start, end, at_ms }),
                }
            }
        }
        let unknown = known.values().filter(|file| file.is_none()).count();
        (Self { version: VERSION, program, arguments, seconds: last - first, files, reads }, unknown)
    }

    /// Bytes in all ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.reads.iter().map(|read| read.end.saturating_sub(read.start)).sum()
    }

    /// Bytes in ranges of files that are no longer what was recorded.
    #[must_use]
    pub fn stale_bytes(&self) -> u64 {
        let current: Vec<bool> = self.files.iter().map(FileRecord::is_current).collect();
        let stale = self.reads.iter().filter(|read| !current.get(read.file).is_some_and(|current| *current));
        stale.map(|read| read.end.saturating_sub(read.start)).sum()
    }
}

/// The parts of a range that are not in `taken`, which then has them, sorted and without overlaps.
fn uncovered(taken: &mut Vec<(u64, u64)>, start: u64, end: u64) -> Vec<(u64, u64)> {
    let from = taken.partition_point(|range| range.1 < start);
    let to = taken.partition_point(|range| range.0 <= end);
    let mut parts = Vec::new();
    let mut at = start;
    for range in &taken[from..to] {
        if at < range.0 {
            parts.push((at, range.0));
        }
        at = at.max(range.1);
    }
    if at < end {
        parts.push((at, end));
    }
    if start < end {
        let low = taken[from..to].first().map_or(start, |range| range.0.min(start));
        let high = taken[from..to].last().map_or(end, |range| range.1.max(end));
        taken.splice(from..to, [(low, high)]);
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::uncovered;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn each_byte_is_read_once(ranges in prop::collection::vec((0u64..200, 0u64..40), 0..40)) {
            let (mut taken, mut seen) = (Vec::new(), vec![0; 256]);
            let mut wanted = vec![0; 256];
            for (start, length) in ranges {
                for (from, to) in uncovered(&mut taken, start, start + length) {
                    (from..to).for_each(|byte| seen[byte as usize] += 1);
                }
                (start..start + length).for_each(|byte| wanted[byte as usize] = 1);
            }
            prop_assert_eq!(seen, wanted);
            prop_assert!(taken.windows(2).all(|pair| pair[0].1 < pair[1].0));
        }
    }
}
