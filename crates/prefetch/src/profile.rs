//! What is kept of a run: the files and the ranges that it touched, in order of first touch, divided into bursts.
//!
//! A profile is a small binary file: 8 bytes of magic, the version, a checksum, and the [`Profile`] itself. What is read
//! from one is checked before use, since anybody may have written it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, ResolveFlags, openat2};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use thiserror::Error;
use twox_hash::XxHash3_64;

/// The format's version. A profile of another one is not read.
pub const VERSION: u32 = 3;
const MAGIC: [u8; 8] = *b"WARMSETP";
const HEADER_BYTES: usize = 20;

/// What one program reads when it is started with certain arguments.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Profile {
    /// The program's absolute path.
    pub program: PathBuf,
    /// Its arguments, or the words of a pattern: `*` stands for any characters and `**` for any arguments.
    pub arguments: Vec<String>,
    /// Whether they are a pattern.
    pub is_pattern: bool,
    /// How it was recorded.
    pub recorder: Recorder,
    /// Whether its pages are those that an evicted run without read-ahead needed.
    pub exact: bool,
    /// Whether it was asked to be fetched in the order of the disk.
    pub disk_order: bool,
    /// How long the recorded run took.
    pub seconds: f64,
    /// The files, as they were then.
    pub files: Vec<FileRecord>,
    /// What was touched of them, in order of first touch, without overlaps.
    pub reads: Vec<Read>,
    /// The bursts that `reads` consists of, in order.
    pub bursts: Vec<Burst>,
}

/// How a run was recorded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Recorder {
    /// The kernel's page-cache tracepoints, as root.
    Tracepoints,
    /// ptrace with a seccomp filter, as any user.
    Ptrace,
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
    pub mtime_ns: i64,
    /// Whether its disk has heads that move.
    pub rotational: bool,
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
    /// Where it starts on its disk; 0 if that is not known.
    pub disk_offset: u64,
}

/// A run of reads close in time.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Burst {
    /// How many of the profile's reads belong to it, after those of the bursts before it.
    pub reads: usize,
    /// When its first read starts, since the start of the run.
    pub start_ms: u64,
    /// When its last read starts.
    pub end_ms: u64,
    /// How long nothing new was read before it.
    pub quiet_ms: u64,
    /// What starts its fetching.
    pub trigger: Trigger,
    /// What else could, in order of time. The second run chooses among them.
    pub candidates: Vec<Trigger>,
    /// How long before the burst's first read the trigger fired in the second run; negative after it.
    pub lead_ms: Option<i64>,
}

/// The event that starts a burst's fetching.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Trigger {
    /// The program's start.
    Launch,
    /// A file is opened for the n-th time since the start.
    File {
        /// Its path.
        path: PathBuf,
        /// Which open, from 1 on.
        nth: u32,
    },
    /// An instruction is executed.
    Instruction {
        /// The file with the code.
        path: PathBuf,
        /// Its ELF build-id, in hexadecimal digits.
        build_id: String,
        /// Where in the file the instruction is.
        offset: u64,
    },
}

/// Why bytes are no profile.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum FormatError {
    /// It starts differently.
    #[error("it does not start as a profile does")]
    Foreign,
    /// Another version of this program wrote it.
    #[error("its version is {0}, this program reads {VERSION}")]
    Version(u32),
    /// Its checksum is not that of its bytes.
    #[error("its checksum is wrong")]
    Checksum,
    /// It cannot be decoded, or contradicts itself.
    #[error("{0}")]
    Content(String),
}

impl Trigger {
    /// The file that is opened or executed.
    #[must_use]
    pub fn path(&self) -> Option<&PathBuf> {
        match self {
            Self::Launch => None,
            Self::File { path, .. } | Self::Instruction { path, .. } => Some(path),
        }
    }
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
            mtime_ns: metadata.mtime().saturating_mul(1_000_000_000).saturating_add(metadata.mtime_nsec()),
            rotational: false,
        }
    }

    /// Whether `metadata` is that of the recorded file, unchanged.
    #[must_use]
    pub fn matches(&self, metadata: &fs::Metadata) -> bool {
        let now = Self { rotational: self.rotational, ..Self::of(&self.path, metadata) };
        metadata.is_file() && now == *self
    }

    /// Whether the file is still the recorded one.
    #[must_use]
    pub fn is_current(&self) -> bool {
        fs::metadata(&self.path).is_ok_and(|now| self.matches(&now))
    }
}

impl FileRecord {
    /// Whether the kernel can tell from memory that this is not the recorded file any more.
    fn is_known_to_have_changed(&self) -> bool {
        let flags = OFlags::PATH | OFlags::CLOEXEC;
        match openat2(CWD, &self.path, flags, Mode::empty(), ResolveFlags::CACHED) {
            Ok(file) => !fs::File::from(file).metadata().is_ok_and(|now| self.matches(&now)),
            Err(error) => matches!(error, Errno::NOENT | Errno::NOTDIR),
        }
    }
}

impl Read {
    /// How many bytes.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }
}

/// Bytes in these ranges.
#[must_use]
pub fn total_bytes(reads: &[Read]) -> u64 {
    reads.iter().fold(0, |sum, read| sum.saturating_add(read.bytes()))
}

impl Profile {
    /// Reads a profile's bytes.
    ///
    /// # Errors
    /// [`FormatError`].
    pub fn parse(bytes: &[u8]) -> Result<Self, FormatError> {
        let header: &[u8; HEADER_BYTES] = bytes.first_chunk().ok_or(FormatError::Foreign)?;
        if header[..8] != MAGIC {
            return Err(FormatError::Foreign);
        }
        let version = u32::from_le_bytes(header[8..12].try_into().expect("four bytes"));
        if version != VERSION {
            return Err(FormatError::Version(version));
        }
        let body = &bytes[HEADER_BYTES..];
        if header[12..] != XxHash3_64::oneshot(body).to_le_bytes() {
            return Err(FormatError::Checksum);
        }
        let profile: Self =
            postcard::from_bytes(body).map_err(|error| FormatError::Content(error.to_string()))?;
        profile.validate()?;
        Ok(profile)
    }

    /// The profile's bytes.
    ///
    /// # Errors
    /// [`FormatError::Content`] if a path is not UTF-8.
    pub fn to_bytes(&self) -> Result<Vec<u8>, FormatError> {
        let body = postcard::to_stdvec(self).map_err(|error| FormatError::Content(error.to_string()))?;
        let mut bytes = MAGIC.to_vec();
        bytes.extend_from_slice(&VERSION.to_le_bytes());
        bytes.extend_from_slice(&XxHash3_64::oneshot(&body).to_le_bytes());
        bytes.extend_from_slice(&body);
        Ok(bytes)
    }

    /// What decoding does not check: indices, ranges, paths, and that the bursts make up the reads.
    fn validate(&self) -> Result<(), FormatError> {
        let fail = |what: &str| Err(FormatError::Content(what.to_owned()));
        let triggers = self.bursts.iter().flat_map(|burst| burst.candidates.iter().chain([&burst.trigger]));
        let mut paths = self.files.iter().map(|file| &file.path).chain(triggers.filter_map(Trigger::path));
        if !self.program.is_absolute() || paths.any(|path| !path.is_absolute()) {
            return fail("a path is not absolute");
        }
        let in_file = |read: &Read| {
            let size = self.files.get(read.file).map(|file| file.size_bytes);
            read.start < read.end && size.is_some_and(|size| read.start < size)
        };
        if !self.reads.iter().all(in_file) {
            return fail("a range lies outside of its file");
        }
        let divided = self.bursts.iter().try_fold(0usize, |sum, burst| sum.checked_add(burst.reads));
        if divided != Some(self.reads.len()) {
            return fail("its bursts are not its reads");
        }
        if !self.seconds.is_finite() || self.seconds < 0.0 {
            return fail("its run's time is no time");
        }
        Ok(())
    }

    /// Each burst with its reads.
    pub fn divided(&self) -> impl Iterator<Item = (&Burst, &[Read])> {
        let mut rest = self.reads.as_slice();
        self.bursts.iter().map(move |burst| {
            let (reads, after) = rest.split_at(burst.reads.min(rest.len()));
            rest = after;
            (burst, reads)
        })
    }

    /// Bytes in all ranges.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        total_bytes(&self.reads)
    }

    /// Which part of the bytes is in files that have changed, as far as that is known without a disk: what the kernel has
    /// to look up counts as unchanged. Stops when the part cannot get above `interesting` any more.
    #[must_use]
    pub fn changed_share(&self, interesting: f64) -> f64 {
        let mut bytes = vec![0u64; self.files.len()];
        for read in &self.reads {
            bytes[read.file] = bytes[read.file].saturating_add(read.bytes());
        }
        let mut files: Vec<(u64, &FileRecord)> = bytes.into_iter().zip(&self.files).collect();
        files.sort_unstable_by_key(|(bytes, _)| std::cmp::Reverse(*bytes));
        let all = self.bytes().max(1) as f64;
        let (mut changed, mut left) = (0u64, self.bytes());
        for (bytes, file) in files {
            if changed.saturating_add(left) as f64 / all <= interesting {
                break;
            }
            left = left.saturating_sub(bytes);
            changed = changed.saturating_add(if file.is_known_to_have_changed() { bytes } else { 0 });
        }
        changed as f64 / all
    }

    /// Bytes in ranges of files that are no longer what was recorded.
    #[must_use]
    pub fn stale_bytes(&self) -> u64 {
        let current: Vec<bool> = self.files.iter().map(FileRecord::is_current).collect();
        let stale = self.reads.iter().filter(|read| !current.get(read.file).is_some_and(|current| *current));
        stale.fold(0, |sum, read| sum.saturating_add(read.bytes()))
    }
}
