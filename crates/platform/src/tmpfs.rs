//! Memory file systems: mounted, measured and unmounted.
//!
//! It does not decide where they lie or how large they are, and never unmounts one that is in use.

use std::io;
use std::path::Path;

use rustix::fs;
use rustix::mount::{self, MountFlags, UnmountFlags};

/// What a file system holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Space {
    /// The most that it can hold.
    pub size_bytes: u64,
    /// What is taken.
    pub used_bytes: u64,
}

/// Mounts a tmpfs with `options` (tmpfs(5)) on a directory; device files and set-user-ID have no effect on it.
///
/// # Errors
/// The kernel's: `PermissionDenied` without `CAP_SYS_ADMIN`, `InvalidInput` for an option that it does not know.
pub fn mount(point: &Path, options: &str) -> io::Result<()> {
    let options = std::ffi::CString::new(options).map_err(|_| io::ErrorKind::InvalidInput)?;
    let flags = MountFlags::NOSUID | MountFlags::NODEV;
    Ok(mount::mount("warmset", point, "tmpfs", flags, options.as_c_str())?)
}

/// Unmounts the file system; what it holds is gone.
///
/// # Errors
/// The kernel's: `ResourceBusy` while a file on it is in use.
pub fn unmount(point: &Path) -> io::Result<()> {
    Ok(mount::unmount(point, UnmountFlags::NOFOLLOW)?)
}

/// The room on the file system that holds `path`.
///
/// # Errors
/// The kernel's, for a missing path.
pub fn space(path: &Path) -> io::Result<Space> {
    let space = fs::statvfs(path)?;
    let blocks = |count: u64| count.saturating_mul(space.f_frsize);
    Ok(Space {
        size_bytes: blocks(space.f_blocks),
        used_bytes: blocks(space.f_blocks.saturating_sub(space.f_bfree)),
    })
}

/// Whether a path is on a tmpfs. One call: the table of mounts is slow to read.
///
/// # Errors
/// The kernel's, for a missing path.
pub fn holds(path: &Path) -> io::Result<bool> {
    const TMPFS_MAGIC: i64 = 0x0102_1994;
    Ok(fs::statfs(path)?.f_type == TMPFS_MAGIC)
}

/// The effective user.
#[must_use]
pub fn user_id() -> u32 {
    rustix::process::geteuid().as_raw()
}

/// The effective group.
#[must_use]
pub fn group_id() -> u32 {
    rustix::process::getegid().as_raw()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn space_is_counted_in_bytes_and_a_missing_path_is_an_error() {
        let dir = tempfile::tempdir().expect("dir");
        let space = space(dir.path()).expect("space");
        assert!(space.size_bytes > space.used_bytes && space.size_bytes > 1 << 20);
        assert!(super::space(&dir.path().join("missing")).is_err());
    }

    #[test]
    fn proc_is_no_tmpfs() {
        assert!(!holds(Path::new("/proc")).expect("proc"));
        assert!(holds(Path::new("/no/such/path")).is_err());
    }

    #[test]
    fn what_is_not_mounted_is_not_unmounted() {
        let dir = tempfile::tempdir().expect("dir");
        assert!(unmount(dir.path()).is_err());
        assert!(mount(dir.path(), "no-such-option=1").is_err());
        assert!(mount(dir.path(), "size=1m\0").is_err());
    }
}
