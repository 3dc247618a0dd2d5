//! Writing segments to disk, and where they go there.
//!
//! Invariant: a place is taken before a transfer starts. A segment that no device takes stays in memory, dirty.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warmset_platform::io::{Op, Urgency};

use crate::device::DeviceId;
use crate::error::{Error, is_full_disk};
use crate::ledger::Writes;
use crate::region_file::checksum;
use crate::segment::{Moving, Segment};
use crate::shared::{InFlight, Shared};
use crate::sync::now;
use crate::transfer::never_written;

impl Shared {
    /// Finds a place on disk for a segment that has none, on the first device that has space; tells whom it asked in vain.
    pub fn find_place(
        &self,
        segment: &Segment,
        mut refused: impl FnMut(DeviceId, &Error),
    ) -> Result<(), Error> {
        if segment.place().is_some() {
            return Ok(());
        }
        let mut problem = None;
        let candidates = self.lock()?.disk_mut().candidates();
        for device in candidates {
            match segment.region.backing.allocate(device, segment.disk_bytes()) {
                Ok(place) => {
                    segment.set_place(place);
                    return Ok(());
                }
                Err(error) => {
                    refused(device, &error);
                    // A full one can be helped by the caller; a broken one cannot.
                    problem = problem.filter(Error::is_no_space).or(Some(error));
                }
            }
        }
        Err(problem.unwrap_or_else(never_written))
    }

    /// A device could not take a segment. `returns` is from before it was tried: had space come back since, the failure
    /// would say nothing about now.
    pub fn refused(&self, device: DeviceId, error: &Error, returns: u64) {
        if let Ok(mut ledger) = self.lock() {
            if ledger.disk().returns() == returns {
                ledger.disk_mut().refused(device, error, now());
            }
        }
    }

    /// A segment's bytes could not be written at its place. If there is another device, the place is given up.
    pub fn moves_on(&self, segment: &Segment, error: &Error, returns: u64) -> bool {
        let Some(place) = segment.place() else { return false };
        self.refused(place.device, error, returns);
        let moves = self.lock().is_ok_and(|ledger| ledger.disk().has_other(place.device));
        if moves {
            segment.give_up_place();
        }
        moves
    }

    /// Starts the write-back of segments by the housekeeper: the caller does not wait for files to be made, nor for disk space to be found.
    pub fn launch_writes_elsewhere(&self, writes: Writes) {
        if writes.is_empty() {
            return;
        }
        let count = |moving: Moving| (InFlight::begin(self.self_reference(), moving.segment()), moving);
        let left = self.keeper.launch(writes.into_iter().map(count).collect());
        let (_counted, writes): (Vec<_>, _) = left.into_iter().unzip();
        self.launch_writes(writes);
    }

    /// Starts write-backs. The ledger must not be locked.
    pub fn launch_writes(&self, writes: Writes) {
        if writes.is_empty() {
            return;
        }
        // A store that has failed says so below, to each of them.
        let returns = self.lock().map_or(0, |ledger| ledger.disk().returns());
        for moving in writes {
            let segment = &Arc::clone(moving.segment());
            let launch = InFlight::begin(self.self_reference(), segment);
            let done = move |shared: &Shared, moving: Moving, outcome: io::Result<()>| {
                shared.finish_write(moving, outcome, returns);
            };
            let found = self.find_place(segment, |device, error| self.refused(device, error, returns));
            let submitted = match found {
                Ok(()) => self.submit(moving, Op::Write, Urgency::WriteBack, done),
                Err(error) => Err((moving, error)),
            };
            if let Err((moving, error)) = submitted {
                self.write_failed(moving, &error, returns);
                self.finish_release(segment);
            }
            drop(launch);
        }
    }

    fn finish_write(&self, moving: Moving, outcome: io::Result<()>, returns: u64) {
        let segment = &Arc::clone(moving.segment());
        match outcome {
            Ok(()) => self.write_succeeded(moving),
            Err(error) => {
                let error = self.write_error(segment, error);
                if self.moves_on(segment, &error, returns) {
                    moving.end_write_back(false);
                } else {
                    self.write_failed(moving, &error, returns);
                }
            }
        }
        self.finish_release(segment);
    }

    fn write_succeeded(&self, moving: Moving) {
        let segment = moving.segment();
        self.counters.written_bytes.fetch_add(segment.disk_bytes(), Ordering::Relaxed);
        if !segment.has_checksum() {
            segment.set_checksum(checksum(self.bytes_of(&moving, segment.bytes())));
        }
        if let (Some(place), Ok(mut ledger)) = (segment.place(), self.lock()) {
            ledger.disk_mut().written(place.device);
        }
        moving.end_write_back(true);
    }

    /// No device has taken it.
    fn write_failed(&self, moving: Moving, error: &Error, returns: u64) {
        let region = moving.segment().region.id;
        let warn = {
            let Ok(mut ledger) = self.lock() else { return };
            let warn = ledger.disk_mut().warns(now());
            if ledger.disk().returns() == returns {
                ledger.write_failed(moving.segment(), error);
            }
            moving.end_write_back(false);
            warn
        };
        if warn {
            tracing::warn!(region, %error, "a segment stays in memory");
        }
    }

    pub fn write_error(&self, segment: &Segment, error: io::Error) -> Error {
        let Some(place) = segment.place() else { return never_written() };
        let dir = segment.region.backing.path(place);
        if is_full_disk(&error) {
            Error::no_space(&self.config.names, dir, error.to_string())
        } else {
            Error::io("write cached data", dir, error)
        }
    }
}
