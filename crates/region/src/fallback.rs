//! The last resort of a reader for whom there are no frames: the window.
//!
//! A nameless file is mapped read-only: nobody else can truncate it, so the mapping cannot fault. A saved
//! region's file is read into base pages instead. Invariant: a slot of the window is one reader's until it is the
//! segment's, from `Absent → Mapped` to `Mapped → Absent`, both under the ledger's lock; it is filled and emptied
//! with the lock released.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use crate::FRAME_BYTES;
use crate::error::Error;
use crate::segment::Segment;
use crate::state::State;
use crate::store::Shared;

impl Shared {
    /// Makes an absent segment readable outside the pool and takes a hold; `None` if it is not absent any more.
    pub fn show(&self, segment: &Arc<Segment>) -> Result<Option<usize>, Error> {
        let frames = segment.frames();
        let slot = {
            let mut ledger = self.lock();
            let look = segment.word.look();
            if look.state != State::Absent || look.released {
                return Ok(None);
            }
            ledger.window.take(frames).ok_or_else(|| Error::NoSpace {
                place: "this process's addresses".to_owned(),
                reason: format!("{} bytes are on disk, and all that can be shown is in use", segment.bytes()),
                remedy: "unpin some segments".to_owned(),
            })?
        };
        let address = self.pool.window_address(slot);
        let filled = if segment.region.backing.is_shared() {
            self.read_to_window(segment, address)
        } else {
            self.map_to_window(segment, address)
        };
        let shown = filled.is_ok() && self.take_slot(segment, address);
        if !shown {
            self.empty_slot(address, frames);
            return filled.map(|()| None);
        }
        self.counters.mapped.fetch_add(1, Ordering::Relaxed);
        self.access(segment);
        Ok(Some(address))
    }

    /// The filled slot becomes the segment's, unless another reader was faster.
    fn take_slot(&self, segment: &Segment, address: usize) -> bool {
        let _ledger = self.lock();
        if segment.word.look().state != State::Absent {
            return false;
        }
        // Only with the ledger locked does a segment cease to be absent, but by being freed.
        segment.set_address(address);
        segment.word.map()
    }

    fn map_to_window(&self, segment: &Segment, address: usize) -> Result<(), Error> {
        let (Some(offset), Some(file)) = (segment.offset(), segment.region.backing.file()) else {
            return Err(Error::misuse("the segment was never written"));
        };
        let at = address - self.pool.window.base();
        let mapped = self.pool.window.map_file(at, segment.disk_bytes() as usize, &*file, offset);
        mapped.map_err(|error| Error::io("map cached data", segment.region.backing.path(), error))
    }

    fn read_to_window(&self, segment: &Segment, address: usize) -> Result<(), Error> {
        let (Some(offset), Some(file)) = (segment.offset(), segment.region.backing.file()) else {
            return Err(Error::misuse("the segment was never written"));
        };
        let (start, len) = (address as *mut u8, segment.disk_bytes() as usize);
        // SAFETY: the slot was taken by this call under the ledger's lock; nobody else has its address yet, and
        // the window is mapped and writable there.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, len) };
        let began = Instant::now();
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut bytes[filled..], offset + filled as u64) {
                Ok(0) => return Err(self.read_error(segment, io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.read_error(segment, error)),
            }
        }
        self.counters.count_wait(began);
        self.counters.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
        segment.check(&bytes[..segment.bytes() as usize])
    }

    /// Takes the segment out of the window if nobody holds it.
    pub fn hide(&self, segment: &Segment) {
        let address = {
            let _ledger = self.lock();
            let address = segment.address();
            if !segment.word.unmap() {
                return;
            }
            address
        };
        self.empty_slot(address, segment.frames());
    }

    fn empty_slot(&self, address: usize, frames: u64) {
        let at = address - self.pool.window.base();
        match self.pool.window.unmap_file(at, frames as usize * FRAME_BYTES) {
            Ok(()) => self.lock().window.give(self.pool.window_slot(address), frames),
            // The slot still shows the file: it must not be handed out again, and costs addresses only.
            Err(error) => tracing::warn!(%error, "a mapping cannot be taken down"),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Error, FRAME_BYTES, Store};

    #[test]
    fn without_addresses_nothing_is_lost() {
        let dir = tempfile::tempdir().expect("dir");
        let store = Store::open(Config::new(dir.path(), 4 * FRAME_BYTES as u64)).expect("open");
        let region = store.create_region().expect("region");
        (0..8).for_each(|n| assert_eq!(region.write(&vec![n; FRAME_BYTES]).expect("write"), u64::from(n)));
        let mut pins: Vec<_> = (4..8).map(|n| region.pin(n).expect("pin")).collect();
        let slots = crate::pool::window_frames(4);
        let taken = store.shared.lock().window.take(slots).expect("all of them");

        let error = region.draft(10).expect_err("nowhere");
        assert!(matches!(error, Error::Io { .. }), "{error}");
        assert!(error.to_string().contains("10 more"), "{error}");
        let error = region.pin(0).expect_err("nowhere");
        assert!(error.is_no_space() && error.to_string().contains("unpin some"), "{error}");

        store.shared.lock().window.give(taken, slots);
        assert!(region.pin(0).expect("shown").iter().all(|&byte| byte == 0));
        pins.truncate(0);
        region.write(&[8; 10]).expect("write");
        for n in 0..8 {
            assert!(region.pin(n).expect("pin").iter().all(|&byte| u64::from(byte) == n));
        }
    }
}
