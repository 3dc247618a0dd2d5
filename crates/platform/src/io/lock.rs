//! A lock between processes that a dead owner gives up.
//!
//! Invariant: the lock is the kernel's (`flock`), bound to the open file. The file's text only says who has it.

use std::fs::{File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;

use crate::fork::Origin;

/// An exclusive lock; given up when it is dropped or its process ends.
#[derive(Debug)]
pub struct FileLock {
    file: File,
    origin: Origin,
}

/// Outcome of [`FileLock::try_exclusive`].
#[derive(Debug)]
pub enum TryLock {
    /// It is the caller's.
    Taken(FileLock),
    /// Somebody else has it: the process number that it left, if it can be read.
    Busy(Option<u32>),
}

impl FileLock {
    /// Locks `path`, which is created if it is missing (mode 0600), without waiting.
    ///
    /// # Errors
    /// The kernel's, but that somebody else has the lock.
    pub fn try_exclusive(path: &Path) -> io::Result<TryLock> {
        let mut options = OpenOptions::new();
        let mut file = options.read(true).write(true).create(true).truncate(false).mode(0o600).open(path)?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => {}
            Err(Errno::WOULDBLOCK) => {
                let mut text = String::new();
                let _ = file.read_to_string(&mut text);
                return Ok(TryLock::Busy(text.trim().parse().ok()));
            }
            Err(error) => return Err(error.into()),
        }
        file.set_len(0)?;
        file.seek(SeekFrom::Start(0))?;
        writeln!(file, "{}", std::process::id())?;
        Ok(TryLock::Taken(Self { file, origin: Origin::here() }))
    }
}

impl Drop for FileLock {
    fn drop(&mut self) {
        // A forked child may have the same open file: the lock ends with its owner, neither by a child nor after it.
        if self.origin.is_here() {
            let _ = flock(&self.file, FlockOperation::Unlock);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_at_a_time() {
        let dir = tempfile::tempdir().expect("dir");
        let path = dir.path().join("lock");
        let TryLock::Taken(first) = FileLock::try_exclusive(&path).expect("lock") else {
            panic!("it is free")
        };
        let TryLock::Busy(owner) = FileLock::try_exclusive(&path).expect("lock") else {
            panic!("it is taken")
        };
        assert_eq!(owner, Some(std::process::id()));
        drop(first);
        assert!(matches!(FileLock::try_exclusive(&path).expect("lock"), TryLock::Taken(_)));
    }
}
