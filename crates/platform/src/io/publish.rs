//! Files that appear under their name whole or not at all.
//!
//! Invariant: until [`Publish::commit`] renames it, the bytes have no name (or, on file systems without
//! nameless files, a hidden one that is removed on drop); after it, they are on the device. Whoever has a hidden name
//! has its file locked, so that the next call for the same target removes those that a killed process has left.

use std::fs::File;
use std::io;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::fs::{self, AtFlags, CWD, FlockOperation, Mode, OFlags};
use rustix::io::Errno;

use crate::fork::Origin;

/// A file being written aside.
#[derive(Debug)]
pub struct Publish {
    file: File,
    target: PathBuf,
    aside: PathBuf,
    has_name: bool,
    origin: Origin,
}

impl Publish {
    /// Starts a file, mode 0600, that will appear as `target`.
    ///
    /// # Errors
    /// The kernel's, for a missing or unwritable directory.
    pub fn begin(target: &Path) -> io::Result<Self> {
        let (flags, mode) = (OFlags::RDWR | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let mut aside = hidden_name(target)?;
        remove_abandoned(target);
        let (fd, has_name) = match fs::open(directory(target), flags | OFlags::TMPFILE, mode) {
            Ok(fd) => {
                lock(&fd);
                (fd, false)
            }
            Err(Errno::OPNOTSUPP | Errno::ISDIR | Errno::INVAL) => {
                let fd = with_free_name(target, &mut aside, |aside| {
                    let fd = fs::open(aside, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
                    lock(&fd);
                    // Somebody may have taken it for abandoned before it was locked.
                    if fs::fstat(&fd)?.st_nlink == 0 { Err(Errno::EXIST) } else { Ok(fd) }
                })?;
                (fd, true)
            }
            Err(error) => return Err(error.into()),
        };
        Ok(Self { file: fd.into(), target: target.to_owned(), aside, has_name, origin: Origin::here() })
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
            with_free_name(&self.target, &mut self.aside, |aside| {
                fs::linkat(CWD, &own, CWD, aside, AtFlags::SYMLINK_FOLLOW)
            })?;
            self.has_name = true;
        }
        fs::rename(&self.aside, &self.target)?;
        self.has_name = false;
        File::open(directory(&self.target))?.sync_all()
    }
}

impl Drop for Publish {
    fn drop(&mut self) {
        // A forked child has a copy of this, and the file is its parent's.
        if self.has_name && self.origin.is_here() {
            // What is left to do after a failure; there is nobody to tell.
            let _ = fs::unlink(&self.aside);
        }
    }
}

/// A name beside `target` that no other call of this process gets.
fn hidden_name(target: &Path) -> io::Result<PathBuf> {
    static SERIAL: AtomicU64 = AtomicU64::new(0);
    let name = target.file_name().ok_or(io::ErrorKind::InvalidInput)?.to_string_lossy();
    let serial = SERIAL.fetch_add(1, Ordering::Relaxed);
    Ok(target.with_file_name(format!(".{name}.{}-{serial}.partial", std::process::id())))
}

/// Says that somebody works on the file. Where a file system has no locks, nothing is ever taken for abandoned.
fn lock(file: impl AsFd) -> bool {
    fs::flock(file, FlockOperation::NonBlockingLockExclusive).is_ok()
}

/// Removes what processes that were killed have left beside `target`.
fn remove_abandoned(target: &Path) {
    if let Some(name) = target.file_name() {
        remove_abandoned_with(directory(target), &format!(".{}.", name.to_string_lossy()));
    }
}

/// Removes what processes that were killed have left in a directory of published files. Only for one in which
/// nobody else has hidden files that end in `.partial`.
pub fn remove_all_abandoned(dir: &Path) {
    remove_abandoned_with(dir, ".");
}

/// What cannot be removed does no harm.
fn remove_abandoned_with(dir: &Path, head: &str) {
    let Ok(entries) = std::fs::read_dir(dir) else { return };
    for entry in entries.flatten() {
        let name = entry.file_name();
        if !name.to_str().is_some_and(|name| name.starts_with(head) && name.ends_with(".partial")) {
            continue;
        }
        let path = dir.join(name);
        let opened = fs::open(&path, OFlags::RDWR | OFlags::CLOEXEC | OFlags::NOFOLLOW, Mode::empty());
        if opened.is_ok_and(lock) {
            let _ = fs::unlink(&path);
        }
    }
}

/// Makes a file as `aside`, or under the next name while a process that died has left one there: process numbers
/// repeat, in a container at every start.
fn with_free_name<T>(
    target: &Path,
    aside: &mut PathBuf,
    make: impl Fn(&Path) -> Result<T, Errno>,
) -> io::Result<T> {
    loop {
        match make(aside) {
            Err(Errno::EXIST) => *aside = hidden_name(target)?,
            made => return Ok(made?),
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

    #[test]
    fn names_that_others_left_are_passed_over_and_removed_once_nobody_works_on_them() {
        let dir = tempfile::tempdir().expect("dir");
        let target = dir.path().join("region");
        let next = hidden_name(&target).expect("a name");
        let name = next.file_name().expect("a file").to_string_lossy().into_owned();
        let (head, rest) = name.rsplit_once('-').expect("a serial number");
        let serial: u64 = rest.trim_end_matches(".partial").parse().expect("a number");
        // Somebody works on them, or has made them read-only.
        let held: Vec<_> = (serial..serial + 40)
            .map(|left| {
                let file =
                    File::create_new(dir.path().join(format!("{head}-{left}.partial"))).expect("create");
                assert!(lock(&file));
                file
            })
            .collect();
        let mut publish = Publish::begin(&target).expect("begin");
        publish.file().write_all(b"whole").expect("write");
        publish.commit().expect("commit");
        assert_eq!(std::fs::read_to_string(&target).expect("read"), "whole");
        let names = || std::fs::read_dir(dir.path()).expect("dir").count();
        assert_eq!(names(), 41, "what somebody works on stays");
        drop(held);
        std::fs::write(dir.path().join(".other.1-1.partial"), "of another file").expect("write");
        drop(Publish::begin(&target).expect("begin"));
        assert_eq!(names(), 2, "what nobody works on goes");
        remove_all_abandoned(dir.path());
        assert_eq!(names(), 1, "of any target");
        assert_eq!(std::fs::read_to_string(&target).expect("read"), "whole");
    }
}
