//! Bytes on the move between memory and disk, and the memory that is theirs meanwhile: what is unsafe about it.
//!
//! Invariant: a transfer's memory is its segment's alone from before it is submitted until its callback has ended the
//! segment's state; the functions say which state that is. Pages are given back only of a slot that its caller has.

use std::io;
use std::sync::atomic::Ordering;

use warmset_platform::io::{DIRECT_ALIGN_BYTES, Done, Op, Request, Urgency};

use crate::FRAME_BYTES;
use crate::backing::Place;
use crate::error::Error;
use crate::failure::invariant;
use crate::segment::Segment;
use crate::shared::Shared;
use crate::sync::now;

impl Shared {
    /// Starts a transfer of the whole segment, which is in `Promoting`, `WritingBack` or `Sealing`, and has a place.
    pub fn submit(&self, segment: &Segment, op: Op, urgency: Urgency, done: Done) -> Result<(), Error> {
        let place = segment.place().ok_or_else(never_written)?;
        let file = segment.region.backing.file(place.device).ok_or_else(never_written)?;
        let len = segment.disk_bytes() as usize;
        invariant(len <= segment.frames() as usize * FRAME_BYTES, || {
            format!("{len} bytes in {} frames", segment.frames())
        });
        let (address, offset) = (segment.address(), place.offset);
        let request = Request { op, file, address, len, offset, urgency, tag: segment.key, done };
        // SAFETY: pool and window are never unmapped. Until `done` ends its state the segment is not freed. In
        // `Promoting` its frames are its own, and nobody has their address; in `WritingBack` it is sealed, and in
        // `Sealing` its writer is in `seal`, so that nobody writes to it.
        unsafe { self.devices.get(place.device).io.submit(request) };
        Ok(())
    }

    /// Reads an absent segment to a slot that the caller has taken for it.
    pub fn read_to_window(&self, segment: &Segment, address: usize) -> Result<(), Error> {
        let place = segment.place().ok_or_else(never_written)?;
        let file = segment.region.backing.file(place.device).ok_or_else(never_written)?;
        let (start, len) = (address as *mut u8, segment.disk_bytes() as usize);
        // SAFETY: the slot was taken by this call under the ledger's lock; nobody else has its address yet, and
        // the window is mapped and writable there.
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

    /// The bytes of a segment whose frames or buffer nobody writes to, as far as they are used.
    pub fn bytes_of(&self, segment: &Segment, used_bytes: u64) -> &[u8] {
        // SAFETY: callers are in a transition (sealing, writing back, promoting) in which the segment's memory is
        // its own and nobody writes to it; `used_bytes` are within it, and it is never unmapped.
        unsafe { std::slice::from_raw_parts(segment.address() as *const u8, used_bytes as usize) }
    }

    /// Bytes past the used ones go to disk with them (transfers are multiples of a block): make them zeros.
    pub fn clear_tail(&self, segment: &Segment, used_bytes: u64) {
        let end = used_bytes.max(1).next_multiple_of(DIRECT_ALIGN_BYTES as u64);
        let tail = (segment.address() + used_bytes as usize) as *mut u8;
        // SAFETY: the segment is unsealed or in `Sealing`, so its frames are the writer's alone, and this call is
        // the writer's; `end` is within its frames, which are a multiple of the block.
        unsafe { std::ptr::write_bytes(tail, 0, (end - used_bytes) as usize) };
    }

    /// A slot's pages go back to the kernel, the slot to the next user.
    pub fn empty_slot(&self, address: usize, frames: u64) {
        let at = address - self.pool.window.base();
        // SAFETY: the slot is the caller's, and nobody has a reference into it any more.
        let discarded = unsafe { self.pool.window.discard(at, frames as usize * FRAME_BYTES) };
        if let Err(error) = discarded {
            tracing::warn!(%error, "pages of a buffer stay");
        }
        if let Ok(mut ledger) = self.lock() {
            ledger.window().give(self.pool.window_slot(address), frames);
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
