//! The file behind a region, and the quota that all such files share.
//!
//! Invariant: bytes are taken from the quota and allocated on disk before an offset is handed out, and go
//! back when the file closes, which is when the region's last segment is gone. Offsets are never reused.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use warmset_platform::io::{DIRECT_ALIGN_BYTES, DataFile};

use crate::config::{Config, Names};
use crate::error::{Error, is_full_disk};

/// Disk space is taken in steps of a quarter of the file, up to this many bytes: a file has few extents, and
/// takes little more of the quota than it needs.
const STEP_BYTES_MAX: u64 = 16 << 20;

/// Bytes on disk, shared by all regions of a store.
#[derive(Debug)]
pub(crate) struct FlashQuota {
    dir: PathBuf,
    max_bytes: u64,
    /// What the file system keeps for others.
    reserve_bytes: u64,
    names: Names,
    taken_bytes: AtomicU64,
}

impl FlashQuota {
    pub fn new(config: &Config) -> Self {
        Self {
            dir: config.dir.clone(),
            max_bytes: config.flash_bytes_max.unwrap_or(u64::MAX),
            reserve_bytes: config.flash_reserve_bytes,
            names: config.names.clone(),
            taken_bytes: AtomicU64::new(0),
        }
    }

    pub fn taken_bytes(&self) -> u64 {
        self.taken_bytes.load(Ordering::Relaxed)
    }

    pub fn dir(&self) -> &Path {
        &self.dir
    }

    fn take(&self, bytes: u64) -> Result<(), Error> {
        let taken = self.taken_bytes.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |taken| {
            taken.checked_add(bytes).filter(|&total| total <= self.max_bytes)
        });
        taken.map(drop).map_err(|taken| {
            let limit = format!("`{}` = {}", self.names.flash_bytes_max, self.max_bytes);
            self.no_space(format!("{taken} bytes are in use, {bytes} more pass {limit}"))
        })
    }

    /// Whether the file system has `bytes` beside the reserve. Others may take space at the same time: the reserve is an aim.
    fn leaves_reserve(&self, file: &DataFile, bytes: u64) -> Result<(), Error> {
        if self.reserve_bytes == 0 {
            return Ok(());
        }
        let free = file.free_bytes().map_err(|error| Error::io("ask for free space", &self.dir, error))?;
        if free >= bytes.saturating_add(self.reserve_bytes) {
            return Ok(());
        }
        let kept = format!("`{}` = {}", self.names.flash_reserve_bytes, self.reserve_bytes);
        Err(self.no_space(format!(
            "{bytes} bytes are needed and {free} are free, of which {kept} stay for others"
        )))
    }

    fn no_space(&self, reason: String) -> Error {
        Error::no_space(&self.names, &self.dir, reason)
    }

    fn give_back(&self, bytes: u64) {
        self.taken_bytes.fetch_sub(bytes, Ordering::Relaxed);
    }
}

/// A region's file; an anonymous one is made when first needed.
#[derive(Debug)]
pub(crate) struct Backing {
    quota: Arc<FlashQuota>,
    /// The name of a saved region's file, which is only read.
    saved: Option<PathBuf>,
    place: Mutex<Place>,
}

#[derive(Debug, Default)]
struct Place {
    file: Option<Arc<DataFile>>,
    next_offset: u64,
    allocated_bytes: u64,
}

impl Backing {
    pub fn anonymous(quota: Arc<FlashQuota>) -> Self {
        Self { quota, saved: None, place: Mutex::default() }
    }

    pub fn saved(quota: Arc<FlashQuota>, file: DataFile, path: PathBuf) -> Self {
        let place = Place { file: Some(Arc::new(file)), next_offset: 0, allocated_bytes: 0 };
        Self { quota, saved: Some(path), place: Mutex::new(place) }
    }

    /// Whether others may change the file.
    pub fn is_shared(&self) -> bool {
        self.saved.is_some()
    }

    /// The file, if there is one.
    pub fn file(&self) -> Option<Arc<DataFile>> {
        self.place.lock().file.clone()
    }

    /// Where errors happened.
    pub fn path(&self) -> &Path {
        self.saved.as_deref().unwrap_or(self.quota.dir())
    }

    pub fn allocated_bytes(&self) -> u64 {
        self.place.lock().allocated_bytes
    }

    /// Takes disk space for `len` bytes and says where they go.
    pub fn allocate(&self, len: u64) -> Result<u64, Error> {
        let mut place = self.place.lock();
        let file = self.open(&mut place)?;
        let end = place.next_offset + len;
        if end > place.allocated_bytes {
            let needed = end - place.allocated_bytes;
            let step =
                (place.allocated_bytes / 4).next_multiple_of(DIRECT_ALIGN_BYTES as u64).min(STEP_BYTES_MAX);
            self.extend(&mut place, &file, needed.max(step))
                .or_else(|_| self.extend(&mut place, &file, needed))?;
        }
        let offset = place.next_offset;
        place.next_offset = end;
        Ok(offset)
    }

    /// Closes the file; its space goes back to the disk and the quota. Nobody reads the region any more (the
    /// table that held it may keep its memory for a while, so this does not wait for the drop).
    pub fn close(&self) {
        let place = std::mem::take(&mut *self.place.lock());
        drop(place.file);
        self.quota.give_back(place.allocated_bytes);
    }

    /// Nobody closes it until the result is dropped.
    #[cfg(test)]
    pub fn stall(&self) -> impl Sized + '_ {
        self.place.lock()
    }

    fn open(&self, place: &mut Place) -> Result<Arc<DataFile>, Error> {
        if let Some(file) = &place.file {
            return Ok(Arc::clone(file));
        }
        let file = DataFile::anonymous(self.quota.dir())
            .map_err(|error| Error::io("create a data file", self.quota.dir(), error))?;
        Ok(Arc::clone(place.file.insert(Arc::new(file))))
    }

    fn extend(&self, place: &mut Place, file: &DataFile, bytes: u64) -> Result<(), Error> {
        self.quota.leaves_reserve(file, bytes)?;
        self.quota.take(bytes)?;
        file.allocate(place.allocated_bytes, bytes).map_err(|error| {
            self.quota.give_back(bytes);
            if is_full_disk(&error) {
                self.quota.no_space(format!("{error} (for {bytes} bytes)"))
            } else {
                Error::io("allocate space", self.quota.dir(), error)
            }
        })?;
        place.allocated_bytes += bytes;
        Ok(())
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.close();
    }
}
