//! What a directory's disk offers: O_DIRECT, O_TMPFILE, free space, read-ahead, and its speed as measured.
//!
//! Invariant: nothing is left behind. The measurement writes to an unnamed file, or where the file system has none, to a
//! file whose name is removed right after it was opened.

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use rustix::fs::{self, OFlags};
use rustix::io::Errno;
use serde::Serialize;

use super::{Root, mounts};
use crate::io::open_nameless;

/// Memory, length and offset of a direct read are multiples of this: enough for every logical block size in use.
const ALIGN: usize = 4096;
/// One read or write of the measurement; large enough that the device, not the system call, sets the pace.
const CHUNK_BYTES: usize = 4 << 20;
/// Reads or writes that are under way at once.
const THREADS: usize = 4;
/// The measurement's file: at most this, and at most a quarter of what is free.
const FILE_BYTES_MAX: u64 = 1 << 30;

/// What a directory's file system and device are.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Directory {
    /// The directory, links resolved.
    pub path: PathBuf,
    /// `ext4`, `xfs`, `tmpfs`, ...
    pub fs_type: Option<String>,
    /// Whether programs may be started from it.
    pub noexec: bool,
    /// What an ordinary user can still write.
    pub free_bytes: u64,
    /// Whether a file can be created in it.
    pub writable: Result<(), String>,
    /// Whether a file without a name can be created in it.
    pub unnamed_files: bool,
    /// Whether files can be read and written around the page cache.
    pub direct: bool,
    /// How far the kernel reads ahead on its device.
    pub read_ahead_bytes: Option<u64>,
    /// Whether its device turns.
    pub rotational: Option<bool>,
}

/// Measured throughput.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct Speed {
    /// Sequential direct reads.
    pub read_bytes_per_s: f64,
    /// Sequential direct writes.
    pub write_bytes_per_s: f64,
    /// The size of the file that was written and read.
    pub file_bytes: u64,
}

/// Describes the directory.
///
/// # Errors
/// If it does not exist or is no directory.
pub fn describe(root: &Root, dir: &Path) -> io::Result<Directory> {
    let path = dir.canonicalize()?;
    if !path.is_dir() {
        return Err(io::Error::from(io::ErrorKind::NotADirectory));
    }
    let space = fs::statvfs(&path)?;
    let mounts = mounts::read(root);
    let mount = mounts::holding(&mounts, &path);
    let scratch = open_nameless(&path, OFlags::empty());
    let queue = queue_dir(root, &path);
    let setting = |name: &str| queue.as_ref().and_then(|dir| root.number(dir.join(name)));
    Ok(Directory {
        fs_type: mount.map(|mount| mount.fs_type.clone()),
        noexec: mount.is_some_and(|mount| mount.options.iter().any(|option| option == "noexec")),
        free_bytes: space.f_bavail.saturating_mul(space.f_frsize),
        writable: scratch.as_ref().map(|_| ()).map_err(|&error| io::Error::from(error).to_string()),
        unnamed_files: scratch.is_ok_and(|file| file.from_start),
        direct: open_nameless(&path, OFlags::DIRECT).is_ok_and(|file| writes_directly(&file.fd)),
        read_ahead_bytes: setting("read_ahead_kb").and_then(|kb| u64::try_from(kb).ok()).map(|kb| kb * 1024),
        rotational: setting("rotational").map(|value| value != 0),
        path,
    })
}

/// Writes and reads a file with O_DIRECT, each for about `time` at most.
///
/// # Errors
/// If the directory has no room or refuses O_DIRECT.
pub fn measure(dir: &Path, time: Duration) -> io::Result<Speed> {
    let space = fs::statvfs(dir)?;
    let free_bytes = space.f_bavail.saturating_mul(space.f_frsize);
    let chunks = FILE_BYTES_MAX.min(free_bytes / 4) / CHUNK_BYTES as u64;
    if chunks < THREADS as u64 {
        return Err(io::Error::other(format!("only {free_bytes} bytes are free")));
    }
    let fd = open_nameless(dir, OFlags::DIRECT)?.fd;
    let (written, write_bytes_per_s) =
        paced(chunks, time, |buffer, offset| rustix::io::pwrite(&fd, buffer, offset))?;
    let (_, read_bytes_per_s) =
        paced(written, time, |buffer, offset| rustix::io::pread(&fd, buffer, offset))?;
    Ok(Speed { read_bytes_per_s, write_bytes_per_s, file_bytes: written * CHUNK_BYTES as u64 })
}

/// Runs `transfer` over up to `chunks` chunks from several threads; returns how many leading chunks are done for sure,
/// and the bytes per second.
fn paced<F>(chunks: u64, time: Duration, transfer: F) -> io::Result<(u64, f64)>
where
    F: Fn(&mut [u8], u64) -> Result<usize, Errno> + Sync,
{
    let started = Instant::now();
    let per_thread = chunks / THREADS as u64;
    let done: Vec<Result<u64, Errno>> = thread::scope(|scope| {
        let workers: Vec<_> = (0..THREADS as u64)
            .map(|worker| {
                let transfer = &transfer;
                scope.spawn(move || {
                    let mut memory = vec![0x5a_u8; CHUNK_BYTES + ALIGN];
                    let start = memory.as_ptr().align_offset(ALIGN);
                    let buffer = &mut memory[start..start + CHUNK_BYTES];
                    let mut done = 0;
                    while done < per_thread && (done == 0 || started.elapsed() < time) {
                        // Threads interleave chunk by chunk, so that the file is one sequential stream.
                        let chunk = done * THREADS as u64 + worker;
                        if transfer(buffer, chunk * CHUNK_BYTES as u64)? != buffer.len() {
                            return Err(Errno::IO);
                        }
                        done += 1;
                    }
                    Ok(done)
                })
            })
            .collect();
        workers.into_iter().map(|worker| worker.join().unwrap_or(Err(Errno::IO))).collect()
    });
    let seconds = started.elapsed().as_secs_f64().max(1e-9);
    let done = done.into_iter().collect::<Result<Vec<u64>, Errno>>()?;
    let leading = done.iter().min().copied().unwrap_or(0) * THREADS as u64;
    let total: u64 = done.iter().sum();
    Ok((leading, (total * CHUNK_BYTES as u64) as f64 / seconds))
}

fn writes_directly(fd: impl AsFd) -> bool {
    let memory = vec![0_u8; 2 * ALIGN];
    let start = memory.as_ptr().align_offset(ALIGN);
    rustix::io::pwrite(fd, &memory[start..start + ALIGN], 0) == Ok(ALIGN)
}

/// The directory of settings of the device that holds `path`; a partition's are its disk's.
fn queue_dir(root: &Root, path: &Path) -> Option<PathBuf> {
    let device = fs::fstat(File::open(path).ok()?).ok()?.st_dev;
    let device = PathBuf::from(format!("/sys/dev/block/{}:{}", fs::major(device), fs::minor(device)));
    [device.join("queue"), device.join("../queue")].into_iter().find(|dir| root.join(dir).is_dir())
}

/// Whether the disk with this number (`st_dev`) has heads that move; a partition's own directory is inside its disk's.
#[must_use]
pub fn is_rotational(device: u64) -> bool {
    let root = Root::live();
    let link = format!("/sys/dev/block/{}:{}", fs::major(device), fs::minor(device));
    ["queue/rotational", "../queue/rotational"]
        .iter()
        .find_map(|setting| root.number(Path::new(&link).join(setting)))
        .is_some_and(|value| value != 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_measurement_leaves_nothing_behind() {
        let dir = std::env::temp_dir().join(format!("warmset-disk-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        let known = describe(&Root::live(), &dir).unwrap();
        assert_eq!(known.writable, Ok(()));
        if known.direct {
            let speed = measure(&dir, Duration::from_millis(20)).unwrap();
            assert!(speed.read_bytes_per_s > 0.0 && speed.write_bytes_per_s > 0.0);
        }
        assert_eq!(std::fs::read_dir(&dir).unwrap().count(), 0);
        std::fs::remove_dir(&dir).unwrap();
    }

    #[test]
    fn a_missing_directory_and_a_file_are_errors() {
        assert!(describe(&Root::live(), Path::new("/nonexistent/warmset")).is_err());
        assert!(describe(&Root::live(), Path::new("/proc/self/status")).is_err());
    }
}
