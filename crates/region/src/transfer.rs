//! Bytes on the move between memory and disk, and the memory that is theirs meanwhile: what is unsafe about it.
//!
//! Invariant: a transfer's memory is its segment's alone from before it is submitted until its callback has ended the
//! segment's state. Whoever has a [`Moving`] knows that, and whoever has a [`Slot`] that this part of the window is theirs: no
//! caller can ask for a transfer out of state. Two things remain promises of the crate's modules to one another: that a
//! segment's address and bytes lie in what the ledger gave it, and that a pin is ended, or a segment sealed, by whoever has that
//! pin (`handle.rs`, and the callers of `raw.rs`).

use std::io;
use std::sync::atomic::Ordering;

use warmset_platform::io::{Op, Request, Urgency};

use crate::FRAME_BYTES;
use crate::backing::Place;
use crate::error::Error;
use crate::failure::invariant;
use crate::ledger::Slot;
use crate::segment::{Moving, Segment};
use crate::shared::{InFlight, Shared};
use crate::sync::now;

impl Shared {
    /// Starts a transfer of the whole segment, which has a place; `done` gets it back with the outcome. Where it cannot start,
    /// the caller gets it back.
    pub fn submit(
        &self,
        moving: Moving,
        op: Op,
        urgency: Urgency,
        done: impl FnOnce(&Shared, Moving, io::Result<()>) + Send + 'static,
    ) -> Result<(), (Moving, Error)> {
        let segment = moving.segment();
        let found =
            segment.place().and_then(|place| Some((place, segment.region.backing.file(place.device)?)));
        let Some((place, file)) = found else { return Err((moving, never_written())) };
        let len = segment.disk_bytes() as usize;
        invariant(len <= segment.frames() as usize * FRAME_BYTES, || {
            format!("{len} bytes in {} frames", segment.frames())
        });
        let (address, tag) = (segment.address(), segment.key);
        if op == Op::Write {
            let used = segment.bytes() as usize;
            // Bytes past the used ones go to disk with them: they may be somebody else's of before.
            // SAFETY: they are the segment's, as its frames are a multiple of the block, and nobody reads or writes them:
            // its readers see the used ones.
            unsafe { std::ptr::write_bytes((address + used) as *mut u8, 0, len - used) };
        }
        let transfer = InFlight::begin(self.self_reference(), segment);
        let done = Box::new(move |outcome| {
            let shared = &transfer.shared;
            shared.space.health.contain(|| done(shared, moving, outcome));
        });
        let request = Request { op, file, address, len, offset: place.offset, urgency, tag, done };
        // SAFETY: pool and window are never unmapped. Until `done`, which has it, ends its state the segment is not freed. In
        // `Promoting` its frames are its own, and nobody has their address; in `WritingBack` it is sealed, and in
        // `Sealing` its writer is in `seal`, so that nobody writes to it.
        unsafe { self.devices.get(place.device).io.submit(request) };
        Ok(())
    }

    /// Reads an absent segment to a slot that nobody has been shown.
    pub fn read_to_window(&self, segment: &Segment, slot: &mut Slot) -> Result<(), Error> {
        let place = segment.place().ok_or_else(never_written)?;
        let file = segment.region.backing.file(place.device).ok_or_else(never_written)?;
        let (start, len) = (self.pool.window_address(slot.first()) as *mut u8, segment.disk_bytes() as usize);
        invariant(len <= slot.frames() as usize * FRAME_BYTES, || {
            format!("{len} bytes in {} frames of the window", slot.frames())
        });
        // SAFETY: the slot is the caller's alone, it is large enough, and the window is mapped and writable there.
        let bytes = unsafe { std::slice::from_raw_parts_mut(start, len) };
        let began = now();
        let mut filled = 0;
        while filled < len {
            match file.read_at(&mut bytes[filled..], place.offset + filled as u64) {
                Ok(0) => return Err(read_error(segment, place, io::ErrorKind::UnexpectedEof.into())),
                Ok(count) => filled += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(read_error(segment, place, error)),
            }
        }
        self.counters.count_wait(began);
        self.counters.read_bytes.fetch_add(len as u64, Ordering::Relaxed);
        segment.check(&bytes[..segment.bytes() as usize], place)
    }

    /// The bytes of a segment, as far as they are used.
    pub fn bytes_of<'a>(&self, moving: &'a Moving, used_bytes: u64) -> &'a [u8] {
        let segment = moving.segment();
        invariant(used_bytes <= segment.bytes(), || format!("{used_bytes} used of {}", segment.bytes()));
        // SAFETY: its memory is its own, and no transfer writes to it, which would have `moving`; they are within it, and it
        // is never unmapped.
        unsafe { std::slice::from_raw_parts(segment.address() as *const u8, used_bytes as usize) }
    }

    /// A slot's pages go back to the kernel, the slot to the next user.
    pub fn empty_slot(&self, slot: Slot) {
        let at = slot.first() as usize * FRAME_BYTES;
        // SAFETY: the slot is the caller's, and nobody has a reference into it any more.
        let discarded = unsafe { self.pool.window.discard(at, slot.frames() as usize * FRAME_BYTES) };
        if let Err(error) = discarded {
            tracing::warn!(%error, "pages of a buffer stay");
        }
        if let Ok(mut ledger) = self.lock() {
            ledger.give_slot(slot);
        }
        self.space.announce();
    }
}

pub(crate) fn read_error(segment: &Segment, place: Place, error: io::Error) -> Error {
    Error::io("read cached data", segment.region.backing.path(place), error)
}

pub(crate) fn never_written() -> Error {
    Error::misuse("the segment was never written")
}
