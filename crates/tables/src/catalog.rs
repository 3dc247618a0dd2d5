//! The directory of a store: which names there are, and who may write.
//!
//! Invariant: a name is one plain file name without its suffix, so it cannot lead out of the directory.

use std::fs::{self, DirBuilder, File};
use std::io;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, Weak};

use warmset_platform::fork::Origin;
use warmset_platform::io::{FileLock, TryLock, remove_all_abandoned};

use crate::error::Error;
use crate::held::lock;

const SUFFIX: &str = ".arrow";
const LOCK: &str = ".warmset.lock";
/// File names have at most 255 bytes, and one that is written aside has a longer one for a moment.
const NAME_BYTES_MAX: usize = 200;

/// Which file it was, to see whether another has taken its name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Identity {
    device: u64,
    inode: u64,
    modified: (i64, i64),
    bytes: u64,
}

impl Identity {
    pub fn of(file: &fs::Metadata) -> Self {
        let modified = (file.mtime(), file.mtime_nsec());
        Self { device: file.dev(), inode: file.ino(), modified, bytes: file.size() }
    }
}

#[derive(Debug)]
pub(crate) struct Catalog {
    dir: PathBuf,
    /// The lock while somebody in this process writes.
    lock: Mutex<Weak<FileLock>>,
    origin: Origin,
}

impl Catalog {
    /// Makes the directory if it is missing.
    pub fn open(dir: &Path) -> Result<Self, Error> {
        let made = DirBuilder::new().recursive(true).mode(0o700).create(dir);
        made.map_err(|error| Error::io("create the directory", dir, error))?;
        Self::find(dir)
    }

    /// The directory must be there.
    pub fn find(dir: &Path) -> Result<Self, Error> {
        let dir = dir.canonicalize().map_err(|error| Error::io("find", dir, error))?;
        Ok(Self { dir, lock: Mutex::default(), origin: Origin::here() })
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    pub fn path(&self, name: &str) -> Result<PathBuf, Error> {
        let problem = if name.is_empty() {
            "it is empty"
        } else if name.starts_with('.') {
            "it starts with a dot"
        } else if name.contains(['/', '\0', '\n']) {
            "it has a slash, a null or a line break"
        } else if name.len() > NAME_BYTES_MAX {
            "it has more than 200 bytes"
        } else {
            return Ok(self.dir.join(format!("{name}{SUFFIX}")));
        };
        Err(Error::Invalid(format!("{name:?} cannot be a name: {problem}")))
    }

    pub fn missing(&self, name: &str) -> Error {
        Error::Missing { name: name.to_owned(), dir: self.dir.clone() }
    }

    /// Who has this name now.
    pub fn identity(&self, name: &str) -> Result<Identity, Error> {
        let path = self.path(name)?;
        match fs::metadata(&path) {
            Ok(found) => Ok(Identity::of(&found)),
            Err(error) if error.kind() == io::ErrorKind::NotFound => Err(self.missing(name)),
            Err(error) => Err(Error::io("open", &path, error)),
        }
    }

    /// Names in order.
    pub fn names(&self) -> Result<Vec<String>, Error> {
        let failed = |error| Error::io("list", &self.dir, error);
        let mut names = Vec::new();
        for entry in fs::read_dir(&self.dir).map_err(failed)? {
            let file_name = entry.map_err(failed)?.file_name();
            let name = file_name.to_str().and_then(|name| name.strip_suffix(SUFFIX));
            names.extend(name.filter(|name| self.path(name).is_ok()).map(str::to_owned));
        }
        names.sort();
        Ok(names)
    }

    /// The right to write, shared by all writers of this process. Who gets it removes what a killed writer has left.
    pub fn lock(&self) -> Result<Arc<FileLock>, Error> {
        if !self.origin.is_here() {
            // It would be the parent's.
            let owner =
                "the process that this one was forked from, whose store this is: open one here".to_owned();
            return Err(Error::Busy { dir: self.dir.clone(), owner });
        }
        let mut slot = lock(&self.lock);
        if let Some(lock) = slot.upgrade() {
            return Ok(lock);
        }
        let path = self.dir.join(LOCK);
        match FileLock::try_exclusive(&path).map_err(|error| Error::io("lock", &path, error))? {
            TryLock::Taken(lock) => {
                remove_all_abandoned(&self.dir);
                let lock = Arc::new(lock);
                *slot = Arc::downgrade(&lock);
                Ok(lock)
            }
            TryLock::Busy(owner) => {
                let owner = owner.map_or("another process".to_owned(), |pid| format!("process {pid}"));
                Err(Error::Busy { dir: self.dir.clone(), owner })
            }
        }
    }

    /// Takes a name away; who has the file open keeps it.
    pub fn remove(&self, name: &str) -> Result<(), Error> {
        let _lock = self.lock()?;
        let path = self.path(name)?;
        match fs::remove_file(&path) {
            Ok(()) => {}
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.missing(name)),
            Err(error) => return Err(Error::io("remove", &path, error)),
        }
        File::open(&self.dir)
            .and_then(|dir| dir.sync_all())
            .map_err(|error| Error::io("write", &self.dir, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_stay_in_the_directory() {
        let dir = tempfile::tempdir().expect("dir");
        let catalog = Catalog::open(&dir.path().join("a/b")).expect("made");
        for name in ["", ".", "..", "../x", "a/b", ".hidden", "a\0b", "a\nb", &"x".repeat(201)] {
            assert!(matches!(catalog.path(name), Err(Error::Invalid(_))), "{name:?}");
        }
        for name in ["trips", "2026-11 (täglich)", "a.b"] {
            let path = catalog.path(name).expect("a name");
            assert_eq!(path.parent(), Some(catalog.dir()));
            fs::write(path, "").expect("write");
        }
        assert_eq!(catalog.names().expect("names"), ["2026-11 (täglich)", "a.b", "trips"]);
        catalog.remove("trips").expect("removed");
        fs::write(catalog.dir().join(".trips.arrow.1-1.partial"), "of a killed writer").expect("write");
        assert!(matches!(catalog.remove("trips"), Err(Error::Missing { .. })));
        let mut left: Vec<_> = fs::read_dir(catalog.dir())
            .expect("dir")
            .map(|entry| entry.expect("entry").file_name())
            .collect();
        left.sort();
        assert_eq!(left, [".warmset.lock", "2026-11 (täglich).arrow", "a.b.arrow"]);
    }
}
