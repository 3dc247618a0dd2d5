//! What can go wrong, said so that the user knows which setting or file to look at.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use warmset_platform::units;

use crate::names::Names;

/// An error of the store.
#[derive(Debug, Clone, thiserror::Error)]
pub enum Error {
    /// A setting is malformed or impossible on this machine.
    #[error("{setting}: {problem}")]
    Config {
        /// What it is called where the store was opened (see [`Names`]).
        setting: String,
        /// What is wrong with it and what would be right.
        problem: String,
    },
    /// No space for bytes that have to go to disk, or to be shown from there.
    #[error("no space for cached data in {place}: {reason}; {remedy}")]
    NoSpace {
        /// The directory of the data files, or whatever else is full.
        place: String,
        /// Which limit was hit.
        reason: String,
        /// What can be done about it.
        remedy: String,
    },
    /// More bytes in one piece than this store can ever hold.
    #[error("a segment of {} is more than the pool, which has {}; raise `{setting}`", units::bytes(*bytes), units::bytes(*bytes_max))]
    TooLarge {
        /// Those of the segment.
        bytes: u64,
        /// Those of the pool.
        bytes_max: u64,
        /// What the pool's size is called where the store was opened.
        setting: String,
    },
    /// Reading or writing a data file failed.
    #[error("cannot {action} in {path}: {source}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// The directory or file.
        path: PathBuf,
        /// The kernel's error.
        source: Arc<io::Error>,
    },
    /// The call does not fit the state of what it names.
    #[error("{0}")]
    Misuse(String),
    /// A check inside the store failed: what it holds cannot be trusted any more, and it serves nothing.
    #[error("the store has failed and serves nothing any more: {problem}; open a new one")]
    Failed {
        /// Which check.
        problem: String,
    },
    /// Bytes that come back from disk are not those that were written there.
    #[error("cached data is damaged in {place}: {problem}; check the disk, and compute the data again")]
    Damaged {
        /// The directory of the data files.
        place: PathBuf,
        /// What is wrong.
        problem: String,
    },
    /// A region file is not what it should be.
    #[error("{path} is not a readable region file: {problem}")]
    BadFile {
        /// The file.
        path: PathBuf,
        /// What is wrong.
        problem: String,
    },
}

impl Error {
    pub(crate) fn config(setting: &str, problem: impl Into<String>) -> Self {
        Error::Config { setting: setting.to_owned(), problem: problem.into() }
    }

    pub(crate) fn no_space(names: &Names, dir: &Path, reason: impl Into<String>) -> Self {
        let remedy = format!(
            "free space there, choose another `{}`, raise `{}`, lower `{}`, or cache less",
            names.dir, names.flash_bytes_max, names.flash_reserve_bytes
        );
        Error::NoSpace { place: dir.display().to_string(), reason: reason.into(), remedy }
    }

    pub(crate) fn io(action: &'static str, path: impl Into<PathBuf>, source: io::Error) -> Self {
        Error::Io { action, path: path.into(), source: Arc::new(source) }
    }

    pub(crate) fn create_file(dir: &Path, source: io::Error) -> Self {
        Self::io("create a data file", dir, source)
    }

    pub(crate) fn misuse(what: impl Into<String>) -> Self {
        Error::Misuse(what.into())
    }

    /// Whether this is [`Error::NoSpace`].
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        matches!(self, Error::NoSpace { .. })
    }
}

/// Whether the kernel's error means a full disk or quota.
pub(crate) fn is_full_disk(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
