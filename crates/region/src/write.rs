//! Writing: reserve, fill, seal.
//!
//! Invariant: a sealed segment either has frames or is on disk. Disk space is taken before a transfer starts.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warmset_platform::io::{Op, Urgency};
use warmset_platform::units;

use crate::error::Error;
use crate::fallback::{SlotFound, SlotWait};
use crate::ledger::Writes;
use crate::region_file::checksum;
use crate::regions::RegionTable;
use crate::room::Room;
use crate::segment::{Moving, Segment, frames_for};
use crate::shared::{InFlight, Shared};
use crate::state::State;
use crate::sync::sync_channel;

impl Shared {
    /// Adds an unsealed segment of `bytes`, pinned by its writer: its index, and itself. A release ends the pin of a
    /// writer that is `raw`.
    ///
    /// # Errors
    /// [`Error::NoSpace`] when others would have to go to disk and it is full; [`Error::TooLarge`] for more
    /// than the pool has; [`Error::Io`] when there is no room left for bytes in transit, or others cannot
    /// be written; [`Error::Misuse`] for a released region or a size of zero.
    pub fn reserve(&self, table: &RegionTable, bytes: u64, raw: bool) -> Result<(u64, Arc<Segment>), Error> {
        self.check_open()?;
        if table.core.released.load(Ordering::Acquire) {
            return Err(Error::misuse(format!("region {} is released", table.core.id)));
        }
        let bytes_max = self.pool.segment_bytes_max();
        if bytes == 0 {
            return Err(Error::misuse("a segment has at least one byte"));
        }
        if bytes > bytes_max {
            let setting = self.config.names.budget_bytes_max.clone();
            return Err(Error::TooLarge { bytes, bytes_max, setting });
        }
        let segment = self.place(table, bytes, raw)?;
        table.core.live.fetch_add(1, Ordering::AcqRel);
        self.clock.add_live_bytes(bytes);
        let index = table.segments.push(Arc::clone(&segment));
        if table.core.released.load(Ordering::Acquire) {
            // The region went away meanwhile, and its list may have been walked without this one.
            self.abandon(&segment);
            self.release_segment(&segment);
            return Err(Error::misuse(format!("region {} is released", table.core.id)));
        }
        Ok((index as u64, segment))
    }

    /// A new segment, in frames or in the window. While released regions give their space back, it waits for it.
    fn place(&self, table: &RegionTable, bytes: u64, raw: bool) -> Result<Arc<Segment>, Error> {
        let mut wait = SlotWait::default();
        loop {
            let returns = self.lock()?.disk().returns();
            match self.wait_for_room(frames_for(bytes))? {
                Room::Frames(start) => return self.segment_in_pool(table, bytes, raw, start),
                Room::Stuck => {
                    let error = self.lock()?.disk().error().cloned();
                    return Err(
                        error.unwrap_or_else(|| Error::misuse("segments could not be written to disk"))
                    );
                }
                Room::Full | Room::Soon => match self.segment_in_window(table, bytes, raw, &mut wait) {
                    Err(error) if error.is_no_space() && self.wait_for_return(returns)? => {}
                    Err(error) => return Err(error),
                    Ok(Some(segment)) => return Ok(segment),
                    Ok(None) => {}
                },
            }
        }
    }

    fn segment_in_pool(
        &self,
        table: &RegionTable,
        bytes: u64,
        raw: bool,
        start: u64,
    ) -> Result<Arc<Segment>, Error> {
        let address = self.pool.frame_address(start);
        let segment = Arc::new(self.new_segment(table, bytes, raw, address));
        self.lock()?.add_written(&segment);
        Ok(segment)
    }

    fn new_segment(&self, table: &RegionTable, bytes: u64, raw: bool, address: usize) -> Segment {
        let position = table.segments.count();
        Segment::writing(self.next_key(), &table.core, position, bytes, raw, address, self.clock.now())
    }

    /// Every frame is pinned: the writer gets a buffer of base pages, and its bytes go straight to disk. `None` if there may
    /// be frames by now.
    fn segment_in_window(
        &self,
        table: &RegionTable,
        bytes: u64,
        raw: bool,
        wait: &mut SlotWait,
    ) -> Result<Option<Arc<Segment>>, Error> {
        let frames = frames_for(bytes);
        let slot = match self.take_slot_or_wait(frames, || true, wait)? {
            SlotFound::Taken(slot) => slot,
            SlotFound::LookAgain => return Ok(None),
            SlotFound::Refused => {
                // Not `NoSpace`: what lies in frames or on disk has no part in it.
                let why = format!(
                    "all memory for bytes in transit is in use ({} more); seal some first",
                    units::bytes(bytes)
                );
                let error = io::Error::new(io::ErrorKind::OutOfMemory, why);
                return Err(Error::io("buffer cached data", self.devices.names_of_dirs(), error));
            }
        };
        let address = self.pool.window_address(slot.first());
        let segment = self.new_segment(table, bytes, raw, address);
        if let Err(error) = self.find_place(&segment, |_, _| {}) {
            self.empty_slot(slot);
            return Err(error);
        }
        self.lock()?.lend_slot(&segment, slot);
        self.counters.bounces.fetch_add(1, Ordering::Relaxed);
        Ok(Some(Arc::new(segment)))
    }

    /// The writer of an unsealed segment gives it up.
    pub fn abandon(&self, segment: &Arc<Segment>) {
        segment.word.abandon();
        self.finish_release(segment);
    }

    /// Makes the first `used_bytes` immutable and readable.
    ///
    /// # Errors
    /// [`Error::NoSpace`] or [`Error::Io`] when the segment had to go to disk at once and could not; it is
    /// lost then, the region's other segments are not.
    pub fn seal(&self, segment: &Arc<Segment>, used_bytes: u64) -> Result<(), Error> {
        let mut writes = Writes::new();
        {
            let mut ledger = self.lock()?;
            self.check_unsealed(segment, used_bytes)?;
            if self.pool.in_window(segment.address()) {
                drop(ledger);
                return self.seal_to_disk(segment, used_bytes);
            }
            if !segment.word.seal() {
                return Err(released_meanwhile());
            }
            let soon_needed = ledger.seal(segment, used_bytes, || self.set_used(segment, used_bytes));
            // Past the high watermark: what will have to leave soon is written now, while nobody waits.
            if soon_needed && !ledger.disk().disk_is_full() {
                writes.extend(Moving::write_back(segment));
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

    /// The ledger is locked: nobody else counts this segment's bytes or frames meanwhile.
    fn set_used(&self, segment: &Segment, used_bytes: u64) {
        self.clock.add_live_bytes(used_bytes);
        self.clock.sub_live_bytes(segment.bytes());
        segment.set_bytes(used_bytes);
    }

    /// Writes all that was reserved, so that nothing about the segment changes during the transfer.
    fn seal_to_disk(&self, segment: &Arc<Segment>, used_bytes: u64) -> Result<(), Error> {
        let transfer = InFlight::begin(self.self_reference(), segment);
        let moving = Moving::seal(segment).ok_or_else(released_meanwhile)?;
        segment.set_checksum(checksum(self.bytes_of(&moving, used_bytes)));
        let (moving, written) = self.write_and_wait(moving);
        let slot = {
            let ledger = self.lock();
            // What could not be written is lost: unsealed for ever, it would keep its buffer, and its region from
            // being evicted.
            moving.into_iter().for_each(|moving| moving.end_seal(written.is_ok()));
            if written.is_ok() {
                self.set_used(segment, used_bytes);
            }
            ledger.ok().and_then(|mut ledger| ledger.take_back_slot(segment))
        };
        slot.into_iter().for_each(|slot| self.empty_slot(slot));
        // A release meanwhile could not free it.
        self.finish_release(segment);
        drop(transfer);
        written
    }

    /// `None` comes back if the queue has dropped the transfer: nobody knows whether it is over, and its memory stays as it is.
    fn write_and_wait(&self, mut moving: Moving) -> (Option<Moving>, Result<(), Error>) {
        let segment = &Arc::clone(moving.segment());
        let returns = || Ok(self.lock()?.disk().returns());
        loop {
            let returns = match returns() {
                Ok(returns) => returns,
                Err(failed) => return (Some(moving), Err(failed)),
            };
            let (tell, told) = sync_channel(1);
            let done = move |_: &Shared, moving, outcome| drop(tell.send((moving, outcome)));
            if let Err((moving, error)) = self.submit(moving, Op::Write, Urgency::Demand, done) {
                return (Some(moving), Err(error));
            }
            let Ok((back, outcome)) = told.recv() else {
                return (None, Err(self.write_error(segment, io::ErrorKind::BrokenPipe.into())));
            };
            moving = back;
            self.counters.written_bytes.fetch_add(segment.disk_bytes(), Ordering::Relaxed);
            let Err(error) = outcome else { return (Some(moving), Ok(())) };
            let error = self.write_error(segment, error);
            if !self.moves_on(segment, &error, returns) {
                return (Some(moving), Err(error));
            }
            if let Err(error) = self.find_place(segment, |device, error| self.refused(device, error, returns))
            {
                return (Some(moving), Err(error));
            }
        }
    }
}

fn released_meanwhile() -> Error {
    Error::misuse("the segment was released while it was sealed")
}
