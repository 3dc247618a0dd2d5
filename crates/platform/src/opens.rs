//! Which files are opened on this machine, with their paths: fanotify(7).

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::ffi::CString;
use std::fs::{self, File};
use std::io::{self, Read};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Watches opens on whole file systems, by any process.
#[derive(Debug)]
pub struct OpenWatcher {
    queue: File,
}

/// A file by its device and inode, as stat(2) gives them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct FileId {
    /// `st_dev`.
    pub device: u64,
    /// `st_ino`.
    pub inode: u64,
}

/// The start of each event: its length, version, flags, descriptor and process (linux/fanotify.h).
const METADATA_BYTES: usize = 24;

impl AsFd for OpenWatcher {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.queue.as_fd()
    }
}

impl OpenWatcher {
    /// Starts to watch the file systems that hold these directories. One that cannot be watched is left out.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` without CAP_SYS_ADMIN; any if no file system can be watched.
    pub fn new(directories: &[PathBuf]) -> io::Result<Self> {
        let flags =
            libc::FAN_CLASS_NOTIF | libc::FAN_CLOEXEC | libc::FAN_NONBLOCK | libc::FAN_UNLIMITED_QUEUE;
        let opened =
            libc::O_RDONLY | libc::O_CLOEXEC | libc::O_LARGEFILE | libc::O_NOATIME | libc::O_NONBLOCK;
        // SAFETY: takes numbers only.
        let fd = unsafe { libc::fanotify_init(flags, opened as u32) };
        if fd < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the kernel has just given this descriptor to us alone.
        let queue = unsafe { File::from_raw_fd(fd) };
        let mut result = Err(io::Error::from(io::ErrorKind::NotFound));
        for directory in directories {
            let marked = mark(&queue, directory);
            if result.is_err() {
                result = marked;
            }
        }
        result.map(|()| Self { queue })
    }

    /// Adds the regular files that were opened since the last call, until none is left, and tells each open with its
    /// process. Opens of one file that follow each other closely may be told once.
    ///
    /// # Errors
    /// The kernel's.
    pub fn drain(
        &mut self,
        paths: &mut HashMap<FileId, PathBuf>,
        mut opened: impl FnMut(u32, FileId),
    ) -> io::Result<()> {
        let mut buffer = [0u8; 64 * METADATA_BYTES];
        loop {
            let count = match self.queue.read(&mut buffer) {
                Ok(count) => count,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error),
            };
            let mut rest = &buffer[..count];
            while rest.len() >= METADATA_BYTES {
                let length = u32::from_ne_bytes(rest[..4].try_into().expect("four bytes")) as usize;
                let fd = i32::from_ne_bytes(rest[16..20].try_into().expect("four bytes"));
                let process = u32::from_ne_bytes(rest[20..24].try_into().expect("four bytes"));
                if fd >= 0 {
                    // SAFETY: the kernel opened this descriptor for the reader of the event, which nobody else is.
                    let file = note(&unsafe { OwnedFd::from_raw_fd(fd) }, paths);
                    file.into_iter().for_each(|file| opened(process, file));
                }
                rest = rest.get(length.max(METADATA_BYTES)..).unwrap_or(&[]);
            }
        }
    }
}

fn mark(queue: &File, directory: &Path) -> io::Result<()> {
    let path = CString::new(directory.as_os_str().as_bytes())?;
    let how = libc::FAN_MARK_ADD | libc::FAN_MARK_FILESYSTEM;
    // SAFETY: `path` is a C string that outlives the call; the rest are numbers.
    let done =
        unsafe { libc::fanotify_mark(queue.as_raw_fd(), how, libc::FAN_OPEN, libc::AT_FDCWD, path.as_ptr()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}

fn note(fd: &OwnedFd, paths: &mut HashMap<FileId, PathBuf>) -> Option<FileId> {
    let stat = rustix::fs::fstat(fd).ok()?;
    if rustix::fs::FileType::from_raw_mode(stat.st_mode) != rustix::fs::FileType::RegularFile {
        return None;
    }
    let file = FileId { device: stat.st_dev, inode: stat.st_ino };
    if let Entry::Vacant(vacant) = paths.entry(file) {
        vacant.insert(fs::read_link(format!("/proc/self/fd/{}", fd.as_raw_fd())).ok()?);
    }
    Some(file)
}
