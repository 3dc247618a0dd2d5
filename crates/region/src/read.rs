//! Reading: holds and promotion.
//!
//! Invariant: whoever got `Ready` or `Pending` has exactly one hold. An address is only given out while the
//! state word counts that hold in a readable state.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use parking_lot::{Condvar, Mutex};
use warmset_placement::Class;
use warmset_platform::io::Op;

use crate::error::Error;
use crate::room::{Patience, Room, WRITES_STARTED_MAX, Writes};
use crate::segment::Segment;
use crate::state::{Hold, State, Unhold};
use crate::store::{Ledger, Shared, Store};

const SHARDS: usize = 16;

/// Where readers wait for a promotion, spread over a few locks.
#[derive(Debug, Default)]
pub(crate) struct Waiters {
    shards: [(Mutex<()>, Condvar); SHARDS],
}

impl Waiters {
    fn shard(&self, segment: &Segment) -> &(Mutex<()>, Condvar) {
        &self.shards[segment.key as usize % SHARDS]
    }

    fn notify(&self, segment: &Segment) {
        let (lock, wake) = self.shard(segment);
        drop(lock.lock());
        wake.notify_all();
    }
}

/// Outcome of [`Store::pin_start`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinStart {
    /// One hold; the bytes are there.
    Ready,
    /// One hold; the bytes are on their way.
    Pending,
    /// No hold: there is no room to promote it now.
    NoRoom,
}

/// Outcome of [`Shared::promote`].
#[derive(Debug, PartialEq, Eq)]
enum Promotion {
    /// One hold; the read is in flight.
    Started,
    /// Somebody else promoted or released it.
    Raced,
    NoRoom,
}

impl Store {
    /// Takes a hold and starts a promotion if needed; never waits for I/O.
    ///
    /// # Errors
    /// [`Error::Misuse`] for a segment that does not exist, is not sealed or is released.
    pub fn pin_start(&self, region: u64, segment: u64) -> Result<PinStart, Error> {
        self.shared.with_segment(region, segment, |segment| self.shared.hold(segment))
    }

    /// Waits for the bytes of a segment that [`Store::pin_start`] gave a hold on; returns their address.
    ///
    /// # Errors
    /// [`Error::Io`] if they cannot be read; the hold is dropped then.
    pub fn pin_wait(&self, region: u64, segment: u64) -> Result<usize, Error> {
        self.shared.wait(&self.shared.segment(region, segment)?)
    }

    /// Takes a hold and returns the address, whatever it takes.
    ///
    /// # Errors
    /// As [`Store::pin_start`] and [`Store::pin_wait`]; [`Error::NoSpace`] when there are neither frames nor
    /// addresses to show it at, which passes when others are unpinned.
    pub fn pin_address(&self, region: u64, segment: u64) -> Result<usize, Error> {
        let absent = self.shared.with_segment(region, segment, |segment| {
            Ok(match self.shared.hold_resident(segment) {
                Some(address) => Err(address),
                None => Ok(Arc::clone(segment)),
            })
        })?;
        absent.map_or_else(Ok, |segment| self.shared.pin(&segment))
    }

    /// Gives a hold back.
    ///
    /// # Errors
    /// [`Error::Misuse`] if there was none.
    pub fn unpin(&self, region: u64, segment: u64) -> Result<(), Error> {
        self.shared.with_segment(region, segment, |segment| self.shared.unhold(segment))
    }
}

impl Shared {
    pub fn pin(&self, segment: &Arc<Segment>) -> Result<usize, Error> {
        loop {
            match self.hold_or_promote(segment, true)? {
                PinStart::Ready => return Ok(segment.address()),
                PinStart::Pending => return self.wait(segment),
                PinStart::NoRoom => {
                    if let Some(address) = self.show(segment)? {
                        return Ok(address);
                    }
                }
            }
        }
    }

    /// The fast way: a hold on a segment that is there.
    fn hold_resident(&self, segment: &Segment) -> Option<usize> {
        (segment.word.hold_ready()).then(|| {
            self.access(segment);
            segment.address()
        })
    }

    /// A hold that never waits for I/O.
    pub fn hold(&self, segment: &Arc<Segment>) -> Result<PinStart, Error> {
        self.hold_or_promote(segment, false)
    }

    fn hold_or_promote(&self, segment: &Arc<Segment>, patient: bool) -> Result<PinStart, Error> {
        loop {
            let held = match segment.word.hold() {
                Hold::Ready => PinStart::Ready,
                Hold::Pending => PinStart::Pending,
                Hold::Absent => match self.promote(segment, patient) {
                    Promotion::Started => PinStart::Pending,
                    Promotion::NoRoom => return Ok(PinStart::NoRoom),
                    Promotion::Raced => continue,
                },
                Hold::Unsealed => return Err(Error::misuse("the segment is not sealed yet")),
                Hold::Gone => return Err(Error::misuse("the segment is released")),
            };
            self.access(segment);
            return Ok(held);
        }
    }

    /// Starts a promotion and takes a hold. A patient caller sleeps while write-backs are about to free frames.
    fn promote(&self, segment: &Arc<Segment>, patient: bool) -> Promotion {
        let patience = patient.then(|| Patience::new(self));
        loop {
            let mut writes = Writes::new();
            let mut ledger = self.lock();
            let begun = self.begin_promote(&mut ledger, segment, patient, &mut writes);
            let waiting = patience.as_ref().filter(|_| begun == Err(Room::Soon));
            if let Some(patience) = waiting.filter(|_| writes.is_empty()) {
                let began = Instant::now();
                patience.wait(&mut ledger);
                self.counters.count_wait(began);
            }
            drop(ledger);
            self.launch_writes(writes);
            match begun {
                Ok(Promotion::Started) => {
                    self.launch_read(segment);
                    return Promotion::Started;
                }
                Ok(outcome) => return outcome,
                Err(_) if waiting.is_some() => {}
                Err(_) => return Promotion::NoRoom,
            }
        }
    }

    /// Gives an absent segment frames and a hold, or says why there are no frames.
    fn begin_promote(
        &self,
        ledger: &mut Ledger,
        segment: &Arc<Segment>,
        patient: bool,
        writes: &mut Writes,
    ) -> Result<Promotion, Room> {
        let look = segment.word.look();
        if look.state != State::Absent || look.released {
            return Ok(Promotion::Raced);
        }
        self.relax(ledger);
        let frames = segment.frames();
        let start = match self.make_room(ledger, frames, ledger.budget_frames, patient, writes) {
            Room::Frames(start) => start,
            room => return Err(room),
        };
        segment.set_address(self.pool.frame_address(start));
        if !segment.word.begin_promote() {
            ledger.frames.give(start, frames);
            return Ok(Promotion::Raced);
        }
        *segment.failure.lock() = None;
        let Ledger { set, members, stuck, disk_full, .. } = ledger;
        let (class, displaced) =
            set.add_promoted(segment.key, frames, segment.position, segment.score(), |key| {
                members[&key].score()
            });
        members.insert(segment.key, Arc::clone(segment));
        // The rest are stream members now: who needs their frames has them written.
        let more = if *disk_full { 0 } else { WRITES_STARTED_MAX.saturating_sub(writes.len()) };
        let dirty = displaced
            .iter()
            .filter(|key| !stuck.contains(key))
            .map(|key| &members[key])
            .filter(|segment| segment.word.begin_write());
        writes.extend(dirty.take(more).cloned());
        self.counters.promotions.fetch_add(1, Ordering::Relaxed);
        self.counters.streamed.fetch_add(u64::from(class == Class::Stream), Ordering::Relaxed);
        Ok(Promotion::Started)
    }

    fn launch_read(&self, segment: &Arc<Segment>) {
        let shared = self.self_reference();
        self.transfers.fetch_add(1, Ordering::AcqRel);
        let done = {
            let segment = Arc::clone(segment);
            Box::new(move |outcome: io::Result<()>| {
                let outcome = outcome.map_err(|error| shared.read_error(&segment, error));
                let checked = outcome.and_then(|()| shared.check_bytes(&segment));
                shared.finish_read(&segment, checked);
            })
        };
        match self.request(segment, Op::Read, done) {
            // SAFETY: the segment is in `Promoting`: its frames are its own, nobody has their address, and they
            // are not freed before `finish_read` ends that state.
            Ok(request) => unsafe { self.io.submit(request) },
            Err(error) => self.finish_read(segment, Err(error)),
        }
    }

    pub fn read_error(&self, segment: &Segment, error: io::Error) -> Error {
        Error::io("read cached data", segment.region.backing.path(), error)
    }

    /// Compares the bytes of a segment that was read to its address with its checksum.
    fn check_bytes(&self, segment: &Segment) -> Result<(), Error> {
        // SAFETY: the segment's address was set for this read and is nobody else's until the caller ends the
        // transition; `bytes` are within its frames.
        segment.check(unsafe {
            std::slice::from_raw_parts(segment.address() as *const u8, segment.bytes() as usize)
        })
    }

    fn finish_read(&self, segment: &Arc<Segment>, outcome: Result<(), Error>) {
        match outcome {
            Ok(()) => {
                self.counters.read_bytes.fetch_add(segment.disk_bytes(), Ordering::Relaxed);
                segment.word.end_promote(true);
            }
            Err(error) => {
                *segment.failure.lock() = Some(error);
                let mut ledger = self.lock();
                ledger.set.remove(segment.key);
                ledger.members.remove(&segment.key);
                ledger.frames.give(self.pool.frame_of(segment.address()), segment.frames());
                segment.word.end_promote(false);
            }
        }
        self.waiters.notify(segment);
        self.finish_transfer(segment);
    }

    pub fn wait(&self, segment: &Arc<Segment>) -> Result<usize, Error> {
        loop {
            let look = segment.word.look();
            if look.holds == 0 {
                return Err(Error::misuse("the segment is not held: call pin_start first"));
            }
            match look.state {
                State::Promoting => self.sleep_until_read(segment),
                State::Absent | State::Freed | State::Writing | State::Sealing => {
                    let failure = segment.failure.lock().clone();
                    // No failure: another reader has just started a second try.
                    if let Some(failure) = failure {
                        self.unhold(segment)?;
                        return Err(failure);
                    }
                }
                State::Dirty | State::WritingBack | State::Clean | State::Mapped => {
                    return Ok(segment.address());
                }
            }
        }
    }

    fn sleep_until_read(&self, segment: &Segment) {
        let began = Instant::now();
        let (lock, wake) = self.waiters.shard(segment);
        let mut guard = lock.lock();
        while segment.word.look().state == State::Promoting {
            wake.wait(&mut guard);
        }
        self.counters.count_wait(began);
    }

    pub fn unhold(&self, segment: &Arc<Segment>) -> Result<(), Error> {
        match segment.word.unhold() {
            Unhold::Done => {}
            Unhold::Underflow => return Err(Error::misuse("the segment is not held: one unpin too many")),
            Unhold::Last { was_parked, released, mapped } => {
                if mapped {
                    self.hide(segment);
                }
                if was_parked {
                    self.unpark(segment);
                }
                // A release during the mapping could not free it.
                if released || mapped {
                    self.finish_release(segment);
                }
            }
        }
        Ok(())
    }

    fn unpark(&self, segment: &Segment) {
        let over_budget = {
            let mut ledger = self.lock();
            ledger.set.unpark(segment.key, segment.score());
            ledger.frames.used() > ledger.budget_frames
        };
        if over_budget {
            self.keeper.wake();
        }
        self.announce_space();
    }
}
