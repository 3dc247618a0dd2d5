//! Regions over files that others lay out: each segment is an extent of the file, with checksums of its own.
//!
//! Invariant: as of saved regions, nothing in the file is trusted. An extent lies within the file when it is opened;
//! if the file is cut later, or its bytes change, a read is an error. Extents may overlap: they are only read.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warmset_platform::io::{DIRECT_ALIGN_BYTES, DataFile};
use warmset_platform::units;

use crate::FRAME_BYTES;
use crate::backing::{Backing, Place};
use crate::error::Error;
use crate::handle::Region;
use crate::region_file::Check;
use crate::segment::Segment;
use crate::store::Store;

/// A segment-to-be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extent {
    /// Where it begins in the file, a multiple of 4096.
    pub offset: u64,
    /// How many bytes it has, at least one. Up to the next multiple of 4096 must lie in the file.
    pub bytes: u64,
    /// What is compared whenever it is read from the file.
    pub checks: Vec<Check>,
}

impl Store {
    /// Makes a region of extents of `file`, which is open for reading and never written; `path` is for messages. Its
    /// segments are absent until they are read.
    ///
    /// # Errors
    /// [`Error::BadFile`] for an extent that does not lie in the file; [`Error::Misuse`] for one that is larger than
    /// this store's pool, not aligned, or whose checks are not within it; [`Error::Io`] if the file has no length.
    pub fn open_extents(&self, file: DataFile, path: &Path, extents: Vec<Extent>) -> Result<Region, Error> {
        self.shared.check_open()?;
        let file_bytes = file.len().map_err(|error| Error::io("open a region", path, error))?;
        for extent in &extents {
            self.check_extent(extent, path, file_bytes)?;
        }
        let (backing, device) = Backing::saved(Arc::clone(&self.shared.devices), file, path.to_owned());
        let table = self.shared.regions.add(backing);
        table.core.live.store(extents.len() as u64, Ordering::Release);
        for (position, Extent { offset, bytes, checks }) in extents.into_iter().enumerate() {
            self.shared.clock.add_live_bytes(bytes);
            let (key, now_ticks) = (self.shared.next_key(), self.shared.clock.now());
            let place = Place { device, offset };
            let segment = Segment::extent(key, &table.core, position, place, bytes, checks, now_ticks);
            table.segments.push(Arc::new(segment));
        }
        Ok(Region::of(Arc::clone(&self.shared), table.core.id))
    }

    fn check_extent(&self, extent: &Extent, path: &Path, file_bytes: u64) -> Result<(), Error> {
        let align = DIRECT_ALIGN_BYTES as u64;
        let Extent { offset, bytes, checks } = extent;
        let end = bytes.checked_next_multiple_of(align).and_then(|padded| offset.checked_add(padded));
        if *bytes == 0 || end.is_none_or(|end| end > file_bytes) {
            let problem = format!("it has {file_bytes} bytes, and none for {bytes} at offset {offset}");
            return Err(Error::BadFile { path: path.to_owned(), problem });
        }
        let within = |check: &Check| {
            check.offset >= *offset
                && check.offset.checked_add(check.bytes).is_some_and(|end| end <= offset + bytes)
        };
        if offset % align != 0 || !checks.iter().all(within) {
            return Err(Error::misuse(format!("{bytes} bytes at offset {offset} cannot be a segment")));
        }
        let pool_bytes = self.shared.pool.segment_bytes_max();
        if *bytes > pool_bytes {
            return Err(Error::misuse(format!(
                "{} of {} do not fit in memory at once: `{}` must be at least {}",
                units::bytes(*bytes),
                path.display(),
                self.shared.config.names.budget_bytes_max,
                units::bytes(bytes.next_multiple_of(FRAME_BYTES as u64))
            )));
        }
        Ok(())
    }
}
