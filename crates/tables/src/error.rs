//! What can go wrong with named tables.

use std::io;
use std::path::{Path, PathBuf};

use arrow_schema::ArrowError;
use warmset_platform::units;

/// An error of a store of tables.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Of the region store.
    #[error(transparent)]
    Region(#[from] warmset_region::Error),
    /// Of Arrow: a type that cannot be written, or columns that do not fit the schema.
    #[error("{0}")]
    Arrow(#[from] ArrowError),
    /// Of the file system.
    #[error("cannot {action} {}: {source}", path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// With which file or directory.
        path: PathBuf,
        /// Why not.
        source: io::Error,
    },
    /// A file that is damaged, or not one of a store.
    #[error("{}: {problem}", path.display())]
    BadFile {
        /// Which one.
        path: PathBuf,
        /// What is wrong with it.
        problem: String,
    },
    /// No table or array has this name.
    #[error("there is no `{name}` in {}", dir.display())]
    Missing {
        /// What was asked for.
        name: String,
        /// Where.
        dir: PathBuf,
    },
    /// Another process writes.
    #[error("{} is being written to by {owner}: one process at a time writes to a store; try again when it has finished", dir.display())]
    Busy {
        /// The store's directory.
        dir: PathBuf,
        /// Who writes.
        owner: String,
    },
    /// It does not fit in the store's memory at once.
    #[error(
        "{what} has {}, which do not fit in this store's memory of {} at once: {remedy}",
        units::bytes(*bytes),
        units::bytes(*memory_bytes)
    )]
    TooLarge {
        /// What.
        what: String,
        /// Its size.
        bytes: u64,
        /// The store's budget.
        memory_bytes: u64,
        /// What to do.
        remedy: &'static str,
    },
    /// A name, a type or a call that cannot be.
    #[error("{0}")]
    Invalid(String),
}

impl Error {
    pub(crate) fn io(action: &'static str, path: &Path, source: io::Error) -> Self {
        Error::Io { action, path: path.to_owned(), source }
    }

    pub(crate) fn bad(path: &Path, problem: impl Into<String>) -> Self {
        Error::BadFile { path: path.to_owned(), problem: problem.into() }
    }

    /// Whether it means a full disk or quota, or that all memory is held.
    #[must_use]
    pub fn is_no_space(&self) -> bool {
        match self {
            Error::Region(error) => error.is_no_space(),
            Error::Io { source, .. } => is_full(source),
            Error::TooLarge { .. } => true,
            _ => false,
        }
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded)
}
