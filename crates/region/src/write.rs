//! Writing: reserve, fill, seal; and writing back.
//!
//! Invariant: a sealed segment either has frames or is on disk. Disk space is taken before a transfer starts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use warmset_placement::Class;
use warmset_platform::io::{DIRECT_ALIGN_BYTES, Done, Op, Request};

use crate::FRAME_BYTES;
use crate::error::{Error, is_full_disk};
use crate::room::{Room, WRITES_STARTED_MAX, Writes};
use crate::segment::{Segment, frames_for};
use crate::state::State;
use crate::store::{Ledger, RegionTable, Shared, Store};

/// Failed writes are warned of once in this time.
const FULL_WARNED_EVERY: Duration = Duration::from_secs(60);

impl Store {
    /// Adds an unsealed segment of `bytes` to a region: its index and the address to write to. Until
    /// [`Store::seal`] the bytes are the caller's alone, and the caller must not write after sealing or
    /// after the region's release.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when others would have to go to disk and it is full; [`Error::TooLarge`] for more
    /// than the pool has; [`Error::Io`] when there are no addresses left for bytes in transit, or others cannot
    /// be written; [`Error::Misuse`] for an unknown region or a size of zero.
    pub fn reserve(&self, region: u64, bytes: u64) -> Result<(u64, usize), Error> {
        self.shared.check_open()?;
        let table = self.shared.region(region)?;
        self.shared.reserve(&table, bytes)
    }

    /// Makes the first `used_bytes` of a segment immutable and readable.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] when the segment had to go to disk at once and could not; it is
    /// lost then, the region's other segments are not.
    pub fn seal(&self, region: u64, segment: u64, used_bytes: u64) -> Result<(), Error> {
        self.shared.seal(&self.shared.segment(region, segment)?, used_bytes)
    }
}

impl Shared {
    pub fn reserve(&self, table: &RegionTable, bytes: u64) -> Result<(u64, usize), Error> {
        if table.core.released.load(Ordering::Acquire) {
            return Err(Error::misuse(format!("region {} is released", table.core.id)));
        }
        let bytes_max = self.pool.frames.len() as u64;
        if bytes == 0 {
            return Err(Error::misuse("a segment has at least one byte"));
        }
        if bytes > bytes_max {
            let setting = self.config.names.budget_bytes_max.clone();
            return Err(Error::TooLarge { bytes, bytes_max, setting });
        }
        let segment = self.place(table, bytes)?;
        table.core.live.fetch_add(1, Ordering::AcqRel);
        self.add_live_bytes(bytes);
        let address = segment.address();
        let index = table.segments.push(Arc::clone(&segment));
        if table.core.released.load(Ordering::Acquire) {
            // The region went away meanwhile and its list was walked without this one.
            self.release_segment(&segment);
            return Err(Error::misuse(format!("region {} is released", table.core.id)));
        }
        Ok((index as u64, address))
    }

    /// A new segment, in frames or in the window. While released regions give their space back, it waits for it.
    fn place(&self, table: &RegionTable, bytes: u64) -> Result<Arc<Segment>, Error> {
        loop {
            let returns = self.returns.load(Ordering::Acquire);
            match self.wait_for_room(frames_for(bytes)) {
                Room::Frames(start) => return Ok(self.segment_in_pool(table, bytes, start)),
                Room::Stuck => {
                    let error = self.lock().stuck_error.clone();
                    return Err(
                        error.unwrap_or_else(|| Error::misuse("segments could not be written to disk"))
                    );
                }
                Room::Full | Room::Soon => match self.segment_in_window(table, bytes) {
                    Err(error) if error.is_no_space() && self.wait_for_return(returns) => {}
                    placed => return placed,
                },
            }
        }
    }

    fn segment_in_pool(&self, table: &RegionTable, bytes: u64, start: u64) -> Arc<Segment> {
        let address = self.pool.frame_address(start);
        let segment = Arc::new(self.new_segment(table, bytes, address));
        let mut ledger = self.lock();
        ledger.set.add_written(segment.key, segment.frames(), segment.position);
        ledger.members.insert(segment.key, Arc::clone(&segment));
        drop(ledger);
        segment
    }

    fn new_segment(&self, table: &RegionTable, bytes: u64, address: usize) -> Segment {
        Segment::writing(self.next_key(), table, bytes, address, self.now_ticks())
    }

    /// Every frame is held: the writer gets a buffer of base pages, and its bytes go straight to disk.
    fn segment_in_window(&self, table: &RegionTable, bytes: u64) -> Result<Arc<Segment>, Error> {
        let slot = self.lock().window.take(frames_for(bytes)).ok_or_else(|| {
            // Not `NoSpace`: what lies in frames or on disk has no part in it.
            let why =
                format!("all addresses for bytes in transit are in use ({bytes} more); seal some first");
            Error::io("buffer cached data", self.quota.dir(), io::Error::new(io::ErrorKind::OutOfMemory, why))
        })?;
        let address = self.pool.window_address(slot);
        let segment = self.new_segment(table, bytes, address);
        if let Err(error) = segment.allocate() {
            self.lock().window.give(slot, segment.frames());
            return Err(error);
        }
        self.counters.bounces.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(segment))
    }

    pub fn seal(&self, segment: &Arc<Segment>, used_bytes: u64) -> Result<(), Error> {
        let mut writes = Writes::new();
        {
            let mut ledger = self.lock();
            self.check_unsealed(segment, used_bytes)?;
            if self.pool.in_window(segment.address()) {
                drop(ledger);
                return self.seal_to_disk(segment, used_bytes);
            }
            // Its bytes stay the writer's while the ledger is locked: a release frees them under the same lock.
            self.clear_tail(segment, used_bytes);
            if !segment.word.seal() {
                return Err(released_meanwhile());
            }
            self.shrink(&mut ledger, segment, used_bytes);
            ledger.set.unpark(segment.key, segment.score());
            let passing = ledger.set.class(segment.key) == Some(Class::Stream);
            let free = ledger.budget_frames.saturating_sub(ledger.frames.used());
            // Past the high watermark: what will have to leave soon is written now, while nobody waits.
            let soon_needed = passing && free < ledger.set.reserve_frames().div_ceil(2);
            if soon_needed && !ledger.disk_full && segment.word.begin_write() {
                writes.push(Arc::clone(segment));
            }
        }
        self.launch_writes(writes);
        self.finish_release(segment);
        Ok(())
    }

    fn check_unsealed(&self, segment: &Segment, used_bytes: u64) -> Result<(), Error> {
        if segment.word.look().state != State::Writing {
            return Err(Error::misuse("the segment is sealed already, or released"));
        }
        match segment.bytes() {
            reserved if used_bytes > reserved => {
                Err(Error::misuse(format!("{used_bytes} bytes used of {reserved} reserved")))
            }
            _ => Ok(()),
        }
    }

    /// Gives the frames behind the used bytes back.
    fn shrink(&self, ledger: &mut Ledger, segment: &Segment, used_bytes: u64) {
        let (before, after) = (segment.frames(), frames_for(used_bytes));
        self.set_used(segment, used_bytes);
        if after < before {
            let start = self.pool.frame_of(segment.address());
            ledger.frames.give(start + after, before - after);
            ledger.set.shrink(segment.key, after);
        }
    }

    /// The ledger is locked: nobody else counts this segment's bytes or frames meanwhile.
    fn set_used(&self, segment: &Segment, used_bytes: u64) {
        self.add_live_bytes(used_bytes);
        self.sub_live_bytes(segment.bytes());
        segment.set_bytes(used_bytes);
    }

    /// Bytes past the used ones go to disk with them (transfers are multiples of a block): make them zeros.
    fn clear_tail(&self, segment: &Segment, used_bytes: u64) {
        let end = used_bytes.max(1).next_multiple_of(DIRECT_ALIGN_BYTES as u64);
        let tail = (segment.address() + used_bytes as usize) as *mut u8;
        // SAFETY: the segment is unsealed or in `Sealing`, so its frames are the writer's alone, and this call is
        // the writer's; `end` is within its frames, which are a multiple of the block.
        unsafe { std::ptr::write_bytes(tail, 0, (end - used_bytes) as usize) };
    }

    /// Writes all that was reserved, so that nothing about the segment changes during the transfer.
    fn seal_to_disk(&self, segment: &Arc<Segment>, used_bytes: u64) -> Result<(), Error> {
        if !segment.word.begin_seal() {
            return Err(released_meanwhile());
        }
        let (slot, frames) = (self.pool.window_slot(segment.address()), segment.frames());
        self.clear_tail(segment, used_bytes);
        let written = self.write_and_wait(segment);
        {
            let _ledger = self.lock();
            segment.word.end_seal(written.is_ok());
            if written.is_ok() {
                self.set_used(segment, used_bytes);
            }
        }
        if written.is_ok() {
            self.free_window(slot, frames);
        } else {
            // It is lost: unsealed for ever, it would keep its buffer, and its region from being evicted.
            segment.word.release();
        }
        // A release meanwhile could not free it.
        self.finish_release(segment);
        written
    }

    fn write_and_wait(&self, segment: &Arc<Segment>) -> Result<(), Error> {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let request = self.request(segment, Op::Write, Box::new(move |outcome| drop(tell.send(outcome))))?;
        // SAFETY: the buffer is in the window, which is never unmapped; its writer is in `seal`, so nobody
        // changes it, and in `Sealing` it is not freed, so it is no other segment's before the outcome is known.
        unsafe { self.io.submit(request) };
        let outcome = told.recv().unwrap_or_else(|_| Err(io::ErrorKind::BrokenPipe.into()));
        self.counters.written_bytes.fetch_add(segment.disk_bytes(), Ordering::Relaxed);
        outcome.map_err(|error| self.write_error(segment, error))
    }

    /// A transfer of the whole segment.
    pub fn request(&self, segment: &Segment, op: Op, done: Done) -> Result<Request, Error> {
        let offset = segment.allocate()?;
        let file =
            segment.region.backing.file().ok_or_else(|| Error::misuse("the segment was never written"))?;
        let len = segment.disk_bytes() as usize;
        debug_assert!(len <= segment.frames() as usize * FRAME_BYTES);
        Ok(Request { op, file, address: segment.address(), len, offset, done })
    }

    /// Starts the write-back of segments that were put in `WritingBack`. The ledger must not be locked.
    pub fn launch_writes(&self, writes: Writes) {
        for segment in writes {
            let shared = self.self_reference();
            self.transfers.fetch_add(1, Ordering::AcqRel);
            let returns = self.returns.load(Ordering::Acquire);
            let done = {
                let segment = Arc::clone(&segment);
                Box::new(move |outcome| shared.finish_write(&segment, outcome, returns))
            };
            match self.request(&segment, Op::Write, done) {
                // SAFETY: the segment is in `WritingBack`: its frames are neither freed nor written to (it is
                // sealed) before `finish_write` ends that state.
                Ok(request) => unsafe { self.io.submit(request) },
                Err(error) => self.write_failed(&segment, error, returns),
            }
        }
    }

    fn finish_write(&self, segment: &Arc<Segment>, outcome: io::Result<()>, returns: u64) {
        match outcome {
            Ok(()) => {
                self.counters.written_bytes.fetch_add(segment.disk_bytes(), Ordering::Relaxed);
                segment.word.end_write(true);
                self.failed_in_row.store(0, Ordering::Relaxed);
                self.finish_transfer(segment);
            }
            Err(error) => self.write_failed(segment, self.write_error(segment, error), returns),
        }
    }

    /// `returns` is from before the write: had space come back since, the failure would say nothing about now.
    fn write_failed(&self, segment: &Arc<Segment>, error: Error, returns: u64) {
        let warn = {
            let mut ledger = self.lock();
            let now = Instant::now();
            let warn = ledger.warned_full.is_none_or(|at| now - at >= FULL_WARNED_EVERY);
            if warn {
                ledger.warned_full = Some(now);
            }
            let in_row = self.failed_in_row.fetch_add(1, Ordering::Relaxed) + 1;
            if self.returns.load(Ordering::Acquire) == returns {
                ledger.disk_full |= error.is_no_space() || in_row >= WRITES_STARTED_MAX;
                ledger.stuck.insert(segment.key);
                ledger.stuck_error = Some(error.clone());
                ledger.stuck_at = Some(now);
            }
            segment.word.end_write(false);
            warn
        };
        if warn {
            tracing::warn!(region = segment.region.id, %error, "a segment stays in memory");
        }
        self.finish_transfer(segment);
    }

    fn write_error(&self, segment: &Segment, error: io::Error) -> Error {
        let dir = segment.region.backing.path();
        if is_full_disk(&error) {
            Error::no_space(&self.config.names, dir, error.to_string())
        } else {
            Error::io("write cached data", dir, error)
        }
    }

    /// The last step of every background transfer.
    pub fn finish_transfer(&self, segment: &Arc<Segment>) {
        self.finish_release(segment);
        self.transfers.fetch_sub(1, Ordering::AcqRel);
        self.announce_space();
    }
}

fn released_meanwhile() -> Error {
    Error::misuse("the segment was released while it was sealed")
}
