//! The directories that cached data goes to: each with a queue of its own, and the space that all of them share.
//!
//! Invariant: bytes are taken from the quota before a file gets them, and go back when the file is closed. It does not
//! choose a directory for anybody (see [`crate::write_back`]), nor say what an error means for others.

use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

use warmset_platform::io::{DataFile, IoQueue};
use warmset_platform::units;

use crate::config::Config;
use crate::error::{Error, is_full_disk};
use crate::names::Names;

/// A directory's number: its place in [`Config::dirs`], those left out that could not be used.
pub(crate) type DeviceId = u8;

/// One directory.
pub(crate) struct Device {
    pub dir: PathBuf,
    pub io: IoQueue,
    /// Of the directory's file system.
    file_system: u64,
}

/// All of them.
pub(crate) struct Devices {
    list: Vec<Device>,
    max_bytes: u64,
    /// What each file system keeps for others.
    reserve_bytes: u64,
    names: Names,
    taken_bytes: AtomicU64,
}

impl Devices {
    /// Finds out now, not at the first demotion, in which directories files can be made, or, with
    /// [`Config::reads_only`], which there are. The others are warned of.
    ///
    /// # Errors
    /// [`Error::Config`] if there is none.
    pub fn open(config: &Config) -> Result<Self, Error> {
        let names = &config.names;
        let (mut list, mut refused) = (Vec::<Device>::new(), Vec::new());
        for dir in &config.dirs {
            match probe(dir, config.reads_only) {
                _ if list.iter().any(|device| device.dir == *dir) => {}
                Ok(file_system) => {
                    list.push(Device { dir: dir.clone(), io: start_queue(config)?, file_system })
                }
                Err(error) => {
                    let what = if config.reads_only { "open" } else { "create files in" };
                    refused.push(format!("cannot {what} {}: {error}", dir.display()));
                }
            }
        }
        if list.is_empty() {
            refused.extend(config.dirs.is_empty().then(|| "no directory is named".to_owned()));
            return Err(Error::config(&names.dir, refused.join("; ")));
        }
        if list.len() > usize::from(DeviceId::MAX) {
            return Err(Error::config(&names.dir, format!("{} directories are more than 255", list.len())));
        }
        for problem in refused {
            tracing::warn!(setting = %names.dir, "{problem}: cached data goes to the other directories");
        }
        Ok(Self {
            list,
            max_bytes: config.flash_bytes_max.unwrap_or(u64::MAX),
            reserve_bytes: config.flash_reserve_bytes,
            names: names.clone(),
            taken_bytes: AtomicU64::new(0),
        })
    }

    pub fn count(&self) -> usize {
        self.list.len()
    }

    pub fn get(&self, device: DeviceId) -> &Device {
        &self.list[usize::from(device)]
    }

    /// The one that shares a disk with a file, as far as that can be told; for its queue.
    pub fn nearest(&self, file: &DataFile) -> DeviceId {
        let file_system = file.file_system().ok();
        let found = self.list.iter().position(|device| Some(device.file_system) == file_system);
        found.unwrap_or(0) as DeviceId
    }

    /// For messages about all of them.
    pub fn names_of_dirs(&self) -> String {
        let dirs: Vec<_> = self.list.iter().map(|device| device.dir.display().to_string()).collect();
        dirs.join(", ")
    }

    /// Bytes on disk, of all regions.
    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    /// Takes space for a file of this device.
    pub fn extend(&self, device: DeviceId, file: &DataFile, offset: u64, bytes: u64) -> Result<(), Error> {
        let dir = &self.get(device).dir;
        self.leave_reserve(dir, file, bytes)?;
        self.take(dir, bytes)?;
        file.allocate(offset, bytes).map_err(|error| {
            self.give_back(bytes);
            if is_full_disk(&error) {
                self.no_space(dir, format!("{error} (for {})", units::bytes(bytes)))
            } else {
                Error::io("allocate space", dir, error)
            }
        })
    }

    /// A file has been closed.
    pub fn give_back(&self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }

    fn take(&self, dir: &Path, bytes: u64) -> Result<(), Error> {
        let taken = self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|&total| total <= self.max_bytes)
        });
        taken.map(drop).map_err(|taken| {
            let limit =
                format!("`{}`, which is {}", self.names.flash_bytes_max, units::bytes(self.max_bytes));
            self.no_space(
                dir,
                format!(
                    "{} are in use, {} more would pass {limit}",
                    units::bytes(taken),
                    units::bytes(bytes)
                ),
            )
        })
    }

    /// Whether the file system has `bytes` beside the reserve. Others may take space at the same time: the reserve is an aim.
    fn leave_reserve(&self, dir: &Path, file: &DataFile, bytes: u64) -> Result<(), Error> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let free = file.free_bytes().map_err(|error| Error::io("ask for free space", dir, error))?;
        if free >= bytes.saturating_add(self.reserve_bytes) {
            return Ok(());
        }
        let reason = format!(
            "{} are needed and {} are free, of which {} stay for others (`{}`)",
            units::bytes(bytes),
            units::bytes(free),
            units::bytes(self.reserve_bytes),
            self.names.flash_reserve_bytes
        );
        Err(self.no_space(dir, reason))
    }

    fn no_space(&self, dir: &Path, reason: String) -> Error {
        Error::no_space(&self.names, dir, reason)
    }
}

impl fmt::Debug for Devices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.list.iter().map(|device| &device.dir)).finish()
    }
}

/// The file system's number, if files can be made there or need not be.
fn probe(dir: &Path, reads_only: bool) -> std::io::Result<u64> {
    if reads_only {
        return DataFile::open_buffered(dir)?.file_system();
    }
    let file = DataFile::anonymous(dir)?;
    if !file.is_direct() {
        tracing::warn!(dir = %dir.display(), "no direct I/O on this file system: reads go through the page cache");
    }
    file.file_system()
}

fn start_queue(config: &Config) -> Result<IoQueue, Error> {
    IoQueue::start(config.io.into(), config.faults.clone())
        .map_err(|error| Error::config(&config.names.io, format!("cannot start: {error}; use `threads`")))
}
