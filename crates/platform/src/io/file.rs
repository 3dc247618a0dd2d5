//! Data files: private to the user, opened for direct I/O where the file system allows it.
//!
//! Invariant: an anonymous data file has no name, so a killed process leaves nothing behind.

use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, FallocateFlags, Mode, OFlags};
use rustix::io::Errno;

/// Alignment in bytes that offsets, lengths and addresses need for direct I/O.
pub const DIRECT_ALIGN_BYTES: usize = 4096;

/// An open file of cached bytes.
#[derive(Debug)]
pub struct DataFile {
    fd: OwnedFd,
    direct: bool,
}

impl DataFile {
    /// Makes a nameless file in `dir`, mode 0600: `O_TMPFILE`, or create-and-unlink where that is missing.
    ///
    /// # Errors
    /// The kernel's, for a missing or unwritable directory.
    pub fn anonymous(dir: &Path) -> io::Result<Self> {
        Ok(with_direct(OFlags::empty(), |flags| Ok(open_nameless(dir, flags)?.fd))?)
    }

    /// Creates a new named file for writing, mode 0600. The name must be free.
    ///
    /// # Errors
    /// The kernel's.
    pub fn create_new(path: &Path) -> io::Result<Self> {
        let flags = OFlags::RDWR | OFlags::CLOEXEC | OFlags::CREATE | OFlags::EXCL;
        Ok(with_direct(flags, |flags| {
            let tried = fs::open(path, flags, Mode::RUSR | Mode::WUSR);
            if matches!(tried, Err(Errno::INVAL)) {
                remove(path);
            }
            tried
        })?)
    }

    /// Opens a named file for reading.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open(path: &Path) -> io::Result<Self> {
        Ok(with_direct(OFlags::RDONLY | OFlags::CLOEXEC, |flags| fs::open(path, flags, Mode::empty()))?)
    }

    /// The same through the page cache: reads need no alignment.
    ///
    /// # Errors
    /// The kernel's.
    pub fn open_buffered(path: &Path) -> io::Result<Self> {
        Ok(Self { fd: fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?, direct: false })
    }

    /// Opens a file that is open already once more, for direct writes: the name may have changed since, or never been.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reopen(file: impl AsFd) -> io::Result<Self> {
        reopen(file, OFlags::RDWR)
    }

    /// The same for direct reads.
    ///
    /// # Errors
    /// The kernel's.
    pub fn reopen_to_read(file: impl AsFd) -> io::Result<Self> {
        reopen(file, OFlags::RDONLY)
    }

    /// Whether reads and writes go past the page cache.
    #[must_use]
    pub fn is_direct(&self) -> bool {
        self.direct
    }

    /// Length in bytes.
    ///
    /// # Errors
    /// The kernel's.
    pub fn len(&self) -> io::Result<u64> {
        Ok(fs::fstat(&self.fd)?.st_size as u64)
    }

    /// Whether the file has no byte.
    ///
    /// # Errors
    /// The kernel's.
    pub fn is_empty(&self) -> io::Result<bool> {
        Ok(self.len()? == 0)
    }

    /// Takes disk space for `len` bytes from `offset`, so that a later write there cannot lack space.
    /// Where the file system has no `fallocate`, the write itself reports a full disk.
    ///
    /// # Errors
    /// `StorageFull` on a full disk or quota.
    pub fn allocate(&self, offset: u64, len: u64) -> io::Result<()> {
        match fs::fallocate(&self.fd, FallocateFlags::empty(), offset, len) {
            Err(Errno::OPNOTSUPP | Errno::NOSYS) => Ok(()),
            Err(Errno::INTR) => self.allocate(offset, len),
            other => Ok(other?),
        }
    }

    /// The bytes of its file system that this user may still take.
    ///
    /// # Errors
    /// The kernel's.
    pub fn free_bytes(&self) -> io::Result<u64> {
        let found = fs::fstatvfs(&self.fd)?;
        Ok(found.f_bavail.saturating_mul(found.f_frsize))
    }

    /// The number of its file system.
    ///
    /// # Errors
    /// The kernel's.
    pub fn file_system(&self) -> io::Result<u64> {
        Ok(fs::fstat(&self.fd)?.st_dev)
    }

    /// Waits until everything written is on the device.
    ///
    /// # Errors
    /// The kernel's, which may report an earlier write's failure.
    pub fn sync(&self) -> io::Result<()> {
        Ok(fs::fsync(&self.fd)?)
    }

    /// Reads at most `bytes.len()` bytes at `offset`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn read_at(&self, bytes: &mut [u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pread(&self.fd, bytes, offset)?)
    }

    /// Writes at most `bytes.len()` bytes at `offset`.
    ///
    /// # Errors
    /// The kernel's.
    pub fn write_at(&self, bytes: &[u8], offset: u64) -> io::Result<usize> {
        Ok(rustix::io::pwrite(&self.fd, bytes, offset)?)
    }
}

impl AsFd for DataFile {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
}

fn reopen(file: impl AsFd, access: OFlags) -> io::Result<DataFile> {
    let path = format!("/proc/self/fd/{}", file.as_fd().as_raw_fd());
    Ok(with_direct(access | OFlags::CLOEXEC, |flags| fs::open(path.as_str(), flags, Mode::empty()))?)
}

/// A file without a name.
pub(crate) struct Nameless {
    pub fd: OwnedFd,
    /// Whether it never had one: the file system knows `O_TMPFILE`.
    pub from_start: bool,
}

/// Opens a file without a name for reading and writing, or one whose name is gone before this returns.
pub(crate) fn open_nameless(dir: &Path, flags: OFlags) -> Result<Nameless, Errno> {
    let flags = flags | OFlags::RDWR | OFlags::CLOEXEC;
    match fs::open(dir, flags | OFlags::TMPFILE, Mode::RUSR | Mode::WUSR) {
        Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => open_unlinked(dir, flags),
        other => Ok(Nameless { fd: other?, from_start: true }),
    }
}

/// Numbers the names that files have for a moment.
static SERIAL: AtomicU64 = AtomicU64::new(0);

fn open_unlinked(dir: &Path, flags: OFlags) -> Result<Nameless, Errno> {
    loop {
        let path = short_name(dir, SERIAL.fetch_add(1, Ordering::Relaxed));
        match fs::open(&path, flags | OFlags::CREATE | OFlags::EXCL, Mode::RUSR | Mode::WUSR) {
            Ok(fd) => {
                fs::unlink(&path)?;
                return Ok(Nameless { fd, from_start: false });
            }
            // Somebody else's: process ids repeat, in another container with this directory for one.
            Err(Errno::EXIST) => {}
            Err(error) => {
                // A try with O_DIRECT may create the name and then fail.
                if error == Errno::INVAL {
                    remove(&path);
                }
                return Err(error);
            }
        }
    }
}

fn short_name(dir: &Path, serial: u64) -> PathBuf {
    dir.join(format!(".warmset-{}-{serial}", std::process::id()))
}

/// Takes away a name that a failed open may have left; there may be none.
fn remove(path: &Path) {
    let _ = fs::unlink(path);
}

/// Opens with `O_DIRECT`, and without it where the file system refuses it.
fn with_direct(flags: OFlags, open: impl Fn(OFlags) -> Result<OwnedFd, Errno>) -> Result<DataFile, Errno> {
    match open(flags | OFlags::DIRECT) {
        Err(Errno::INVAL) => Ok(DataFile { fd: open(flags)?, direct: false }),
        other => Ok(DataFile { fd: other?, direct: true }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_anonymous_file_is_private_and_nameless() {
        let dir = tempfile::tempdir().expect("dir");
        let file = DataFile::anonymous(dir.path()).expect("file");
        file.allocate(0, 1 << 20).expect("space");
        let stat = fs::fstat(&file).expect("stat");
        assert_eq!(stat.st_mode & 0o777, 0o600);
        assert_eq!(stat.st_nlink, 0);
        assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 0);
        let unlinked = open_unlinked(dir.path(), OFlags::RDWR | OFlags::CLOEXEC).expect("file");
        assert_eq!(fs::fstat(&unlinked.fd).expect("stat").st_nlink, 0);
        assert!(!unlinked.from_start);
    }

    #[test]
    fn a_name_that_is_taken_stays() {
        let dir = tempfile::tempdir().expect("dir");
        let next = SERIAL.load(Ordering::Relaxed);
        for serial in next..next + 100 {
            std::fs::write(short_name(dir.path(), serial), "theirs").expect("write");
        }
        let file = open_unlinked(dir.path(), OFlags::RDWR | OFlags::CLOEXEC).expect("a free name");
        assert_eq!(fs::fstat(&file.fd).expect("stat").st_nlink, 0);
        for serial in next..next + 100 {
            assert_eq!(std::fs::read(short_name(dir.path(), serial)).expect("still there"), b"theirs");
        }
    }

    #[test]
    fn a_missing_directory_is_an_error() {
        let error = DataFile::anonymous(Path::new("/nonexistent/warmset")).expect_err("no such directory");
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
    }
}
