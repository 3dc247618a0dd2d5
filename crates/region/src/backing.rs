//! The files behind a region: one in each directory that some of it went to, made when first needed.
//!
//! Invariant: space is allocated on disk before a place is handed out, and goes back when the files close, which is
//! when the region's last segment is gone. A place is one segment's until it is given up.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use warmset_platform::io::{DIRECT_ALIGN_BYTES, DataFile};

use crate::device::{DeviceId, Devices};
use crate::error::Error;
use crate::sync::Mutex;

/// Disk space is taken in steps of a quarter of the file, up to this many bytes: a file has few extents, and
/// takes little more of the quota than it needs.
const STEP_BYTES_MAX: u64 = 16 << 20;

/// Where a segment's bytes are on disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Place {
    pub device: DeviceId,
    pub offset: u64,
}

/// A region's files.
#[derive(Debug)]
pub(crate) struct Backing {
    devices: Arc<Devices>,
    /// The name of a saved region's file, which is only read.
    saved: Option<PathBuf>,
    /// By device.
    files: Box<[Mutex<RegionFile>]>,
}

#[derive(Debug, Default)]
struct RegionFile {
    file: Option<Arc<DataFile>>,
    next_offset: u64,
    allocated_bytes: u64,
    /// Offset and length of what was given up.
    holes: Vec<(u64, u64)>,
}

impl Backing {
    pub fn anonymous(devices: Arc<Devices>) -> Self {
        let files = (0..devices.count()).map(|_| Mutex::default()).collect();
        Self { devices, saved: None, files }
    }

    /// Of a file that is there, and the device whose queue reads it.
    pub fn saved(devices: Arc<Devices>, file: DataFile, path: PathBuf) -> (Self, DeviceId) {
        let device = devices.nearest(&file);
        let mut backing = Self::anonymous(devices);
        backing.saved = Some(path);
        backing.on(device).lock().file = Some(Arc::new(file));
        (backing, device)
    }

    /// Whether others may change the file.
    pub fn is_shared(&self) -> bool {
        self.saved.is_some()
    }

    fn on(&self, device: DeviceId) -> &Mutex<RegionFile> {
        &self.files[usize::from(device)]
    }

    /// The file on a device, if there is one.
    pub fn file(&self, device: DeviceId) -> Option<Arc<DataFile>> {
        self.on(device).lock().file.clone()
    }

    /// Where errors happened.
    pub fn path(&self, place: Place) -> &Path {
        self.saved.as_deref().unwrap_or(&self.devices.get(place.device).dir)
    }

    pub fn allocated_bytes(&self) -> u64 {
        self.files.iter().map(|file| file.lock().allocated_bytes).sum()
    }

    /// Takes disk space for `len` bytes on a device and says where they go.
    pub fn allocate(&self, device: DeviceId, len: u64) -> Result<Place, Error> {
        let mut region = self.on(device).lock();
        if let Some(hole) = region.holes.iter().position(|&(_, bytes)| bytes == len) {
            return Ok(Place { device, offset: region.holes.swap_remove(hole).0 });
        }
        let file = self.open(device, &mut region)?;
        let end = region.next_offset + len;
        if end > region.allocated_bytes {
            let needed = end - region.allocated_bytes;
            let step =
                (region.allocated_bytes / 4).next_multiple_of(DIRECT_ALIGN_BYTES as u64).min(STEP_BYTES_MAX);
            let extend =
                |bytes| self.devices.extend(device, &file, region.allocated_bytes, bytes).map(|()| bytes);
            let taken = extend(needed.max(step)).or_else(|_| extend(needed))?;
            region.allocated_bytes += taken;
        }
        let offset = region.next_offset;
        region.next_offset = end;
        Ok(Place { device, offset })
    }

    /// Nobody's bytes are there any more.
    pub fn give_up(&self, place: Place, len: u64) {
        self.on(place.device).lock().holes.push((place.offset, len));
    }

    /// Closes the files; their space goes back to the disk and the quota. Nobody reads the region any more (the
    /// table that held it may keep its memory for a while, so this does not wait for the drop).
    pub fn close(&self) {
        for file in &self.files {
            let closed = std::mem::take(&mut *file.lock());
            drop(closed.file);
            self.devices.give_back(closed.allocated_bytes);
        }
    }

    /// Nobody closes it until the result is dropped.
    #[cfg(test)]
    pub fn stall(&self) -> impl Sized + '_ {
        self.files[0].lock()
    }

    fn open(&self, device: DeviceId, region: &mut RegionFile) -> Result<Arc<DataFile>, Error> {
        if let Some(file) = &region.file {
            return Ok(Arc::clone(file));
        }
        let dir = &self.devices.get(device).dir;
        let file = DataFile::anonymous(dir).map_err(|error| Error::create_file(dir, error))?;
        Ok(Arc::clone(region.file.insert(Arc::new(file))))
    }
}

impl Drop for Backing {
    fn drop(&mut self) {
        self.close();
    }
}
