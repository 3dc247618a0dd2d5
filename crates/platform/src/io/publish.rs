//! Files that appear under their name whole or not at all.
//!
//! Invariant: until [`Publish::commit`] renames it, the bytes have no name (or, on file systems without
//! nameless files, a hidden one that is removed on drop); after it, they are on the device.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, CWD, Mode, OFlags};

/// A file being written aside.
#[derive(Debug)]
pub struct Publish {
    file: File,
    target: PathBuf,
    aside: PathBuf,
    has_name: bool,
}

impl Publish {
    /// Starts a file, mode 0600, that will appear as `target`.
    ///
    /// # Errors
    /// The kernel's, for a missing or unwritable directory.
    pub fn begin(target: &Path) -> io::Result<Self> {
        static SERIAL: AtomicU64 = AtomicU64::new(0);
        let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
        let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
        let aside = target.with_file_name(format!(".{name}.{}-{serial}.partial", std::process::id()));
        let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let (fd, has_name) = match fs::open(directory(target), flags | OFlags::TMPFILE, mode) {
            Ok(fd) => (fd, false),
            Err(rustix::io::Errno::OPNOTSUPP | rustix::io::Errno::ISDIR | rustix::io::Errno::INVAL) => {
                (fs::open(&aside, flags | OFlags::CREATE | OFlags::EXCL, mode)?, true)
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { file: fd.into(), target: target.to_owned(), aside, has_name })
    }

    /// The file, to write to.
    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Syncs the bytes and gives them their name, in place of what had it before.
    ///
    /// # Errors
    /// The kernel's; the name is as it was then.
    pub fn commit(mut self) -> io::Result<()> {
        self.file.sync_all()?;
        if !self.has_name {
            let own = format!("/proc/self/fd/{}", self.file.as_raw_fd());
            fs::linkat(CWD, own, CWD, &self.aside, AtFlags::SYMLINK_FOLLOW)?;
            self.has_name = true;
        }
        fs::rename(&self.aside, &self.target)?;
        self.has_name = false;
        File::open(directory(&self.target))?.sync_all()
    }
}

impl Drop for Publish {
    fn drop(&mut self) {
        if self.has_name {
            // What is left to do after a failure; there is nobody to tell.
            let _ = fs::unlink(&self.aside);
        }
    }
}

fn directory(target: &Path) -> &Path {
    match target.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

#[cfg(test)]
mod tests {
    use std::io::Write;

    use super::*;

    #[test]
    fn a_file_appears_whole_and_replaces() {
        let dir = tempfile::tempdir().expect("dir");
        let target = dir.path().join("region");
        for text in ["first", "second"] {
            let mut publish = Publish::begin(&target).expect("begin");
            publish.file().write_all(text.as_bytes()).expect("write");
            publish.commit().expect("commit");
            assert_eq!(std::fs::read_to_string(&target).expect("read"), text);
        }
        let mut dropped = Publish::begin(&target).expect("begin");
        dropped.file().write_all(b"third").expect("write");
        drop(dropped);
        assert_eq!(std::fs::read_to_string(&target).expect("read"), "second");
        assert_eq!(std::fs::read_dir(dir.path()).expect("dir").count(), 1, "nothing is left aside");
    }
}
