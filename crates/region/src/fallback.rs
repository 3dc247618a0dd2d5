//! The last resort of a reader for whom there are no frames: the window.
//!
//! A nameless file is mapped read-only: nobody else can truncate it, so the mapping cannot fault. A saved
//! region's file is read into base pages instead. Invariant: a slot of the window is one segment's from
//! `Absent → Mapped` to `Mapped → Absent`, both under the ledger's lock.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use crate::FRAME_BYTES;
use crate::error::Error;
use crate::segment::Segment;
use crate::state::State;
use crate::store::{Ledger, Shared};

impl Shared {
    /// Makes an absent segment readable outside the pool and takes a hold; `None` if it is not absent any more.
    pub fn show(&self, segment: &Arc<Segment>) -> Result<Option<usize>, Error> {
        let mut ledger = self.lock();
        let look = segment.word.look();
        if look.state != State::Absent || look.released {
            return Ok(None);
        }
        let slot = ledger.window.take(segment.frames()).ok_or_else(|| {
            Error::misuse("no address space is left for segments without frames; unpin some")
        })?;
        segment.set_address(self.pool.window_address(slot));
        let shown = if segment.region.backing.is_shared() {
            self.read_to_window(segment)
        } else {
            self.map_to_window(segment)
        };
        if let Err(error) = shown {
            self.clear_slot(&mut ledger, segment);
            return Err(error);
        }
        if !segment.word.map() {
            self.clear_slot(&mut ledger, segment);
            return Ok(None);
        }
        self.counters.mapped.fetch_add(1, Ordering::Relaxed);
        drop(ledger);
        self.access(segment);
        Ok(Some(segment.address()))
    }

    fn map_to_window(&self, segment: &Segment) -> Result<(), Error> {
        let (Some(offset), Some(file)) = (segment.offset(), segment.region.backing.file()) else {
            return Err(Error::misuse("the segment was never written"));
        };
        let at = segment.address() - self.pool.window.base();
        let mapped = self.pool.window.map_file(at, segment.disk_bytes() as usize, &*file, offset);
        mapped.map_err(|error| Error::io("map cached data", segment.region.backing.path(), error))
    }

    fn read_to_window(&self, segment: &Segment) -> Result<(), Error> {
        let (Some(offset), Some(file)) = (segment.offset(), segment.region.backing.file()) else {
            return Err(Error::misuse("the segment was never written"));
        };
        let (start, len) = (segment.address() as *mut u8, segment.disk_bytes() as usize);
        // SAFETY: the slot was taken for this segment under the ledger's lock; nobody has its address yet, and
        // the window is mapped and writable there.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, len) };
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => return Err(self.read_error(segment, io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.read_error(segment, error)),
            }
        }
        self.counters.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
        self.check_bytes(segment)
    }

    /// Takes the segment out of the window if nobody holds it.
    pub fn hide(&self, segment: &Segment) {
        let mut ledger = self.lock();
        if segment.word.unmap() {
            self.clear_slot(&mut ledger, segment);
        }
    }

    fn clear_slot(&self, ledger: &mut Ledger, segment: &Segment) {
        let slot = self.pool.window_slot(segment.address());
        let at = segment.address() - self.pool.window.base();
        match self.pool.window.unmap_file(at, segment.frames() as usize * FRAME_BYTES) {
            Ok(()) => ledger.window.give(slot, segment.frames()),
            // The slot still shows the file: it must not be handed out again, and costs addresses only.
            Err(error) => tracing::warn!(%error, "a mapping cannot be taken down"),
        }
    }
}
