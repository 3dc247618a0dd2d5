//! Reading: pins and promotion.
//!
//! Invariant: whoever got `Ready` or `Pending` has exactly one pin. An address is only given out while the
//! state word counts that pin in a readable state.

use std::io;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use warmset_placement::Class;
use warmset_platform::io::{Op, Urgency};

use crate::error::Error;
use crate::fallback::SlotWait;
use crate::ledger::{Ledger, WRITES_STARTED_MAX, Writes};
use crate::room::Room;
use crate::segment::{Moving, Segment};
use crate::shared::{InFlight, Shared};
use crate::space::SpaceWaiter;
use crate::state::{Pinned, State, Unpinned};
use crate::sync::now;
use crate::transfer::{never_written, read_error};

/// Outcome of [`Raw::pin_start`](crate::raw::Raw::pin_start).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PinStart {
    /// One pin; the bytes are there.
    Ready,
    /// One pin; the bytes are on their way.
    Pending,
    /// No pin: there is no room to promote it now.
    NoRoom,
}

/// Outcome of [`Shared::promote`].
#[derive(Debug, PartialEq, Eq)]
enum Promotion {
    /// One pin; the read is in flight.
    Started,
    /// Somebody else promoted or released it.
    Raced,
    NoRoom,
}

impl Shared {
    pub fn pin(&self, segment: &Arc<Segment>) -> Result<usize, Error> {
        let mut wait = SlotWait::default();
        loop {
            match self.pin_or_promote(segment, true)? {
                PinStart::Ready => return Ok(segment.address()),
                PinStart::Pending => return self.wait(segment),
                PinStart::NoRoom => {
                    if let Some(address) = self.show(segment, &mut wait)? {
                        return Ok(address);
                    }
                }
            }
        }
    }

    /// The fast way: a pin on a segment that is there.
    pub fn pin_resident(&self, segment: &Segment) -> Option<usize> {
        (segment.word.pin_ready()).then(|| {
            self.clock.access(segment);
            segment.address()
        })
    }

    /// A pin that never waits for I/O.
    pub fn pin_start(&self, segment: &Arc<Segment>) -> Result<PinStart, Error> {
        self.pin_or_promote(segment, false)
    }

    fn pin_or_promote(&self, segment: &Arc<Segment>, patient: bool) -> Result<PinStart, Error> {
        self.check()?;
        loop {
            let pinned = match segment.word.pin() {
                Pinned::Ready => PinStart::Ready,
                Pinned::Pending => PinStart::Pending,
                Pinned::Absent => match self.promote(segment, patient)? {
                    Promotion::Started => PinStart::Pending,
                    Promotion::NoRoom => return Ok(PinStart::NoRoom),
                    Promotion::Raced => continue,
                },
                Pinned::Unsealed => return Err(Error::misuse("the segment is not sealed yet")),
                Pinned::Gone => return Err(Error::misuse("the segment is released")),
            };
            self.clock.access(segment);
            return Ok(pinned);
        }
    }

    /// Starts a promotion and takes a pin. A patient caller sleeps while write-backs are about to free frames.
    fn promote(&self, segment: &Arc<Segment>, patient: bool) -> Result<Promotion, Error> {
        let waiter = patient.then(|| SpaceWaiter::new(&self.space));
        loop {
            let mut writes = Writes::new();
            let mut ledger = self.lock()?;
            let begun = self.begin_promote(&mut ledger, segment, patient, &mut writes);
            let waiting = waiter.as_ref().filter(|_| matches!(begun, Err(Room::Soon)));
            match waiting.filter(|_| writes.is_empty()) {
                Some(waiter) => {
                    let began = now();
                    waiter.wait(ledger);
                    self.counters.count_wait(began);
                }
                None => drop(ledger),
            }
            if patient {
                self.launch_writes(writes);
            } else {
                self.launch_writes_elsewhere(writes);
            }
            match begun {
                Ok(Some(moving)) => {
                    self.launch_read(moving, if patient { Urgency::Demand } else { Urgency::Prefetch });
                    return Ok(Promotion::Started);
                }
                Ok(None) => return Ok(Promotion::Raced),
                Err(_) if waiting.is_some() => {}
                Err(_) => return Ok(Promotion::NoRoom),
            }
        }
    }

    /// Gives an absent segment frames and a pin, or says why there are no frames; `None` if it is not absent any more.
    fn begin_promote(
        &self,
        ledger: &mut Ledger,
        segment: &Arc<Segment>,
        patient: bool,
        writes: &mut Writes,
    ) -> Result<Option<Moving>, Room> {
        let look = segment.word.look();
        if look.state != State::Absent || look.released {
            return Ok(None);
        }
        ledger.relax(self.clock.now());
        let (frames, budget_frames) = (segment.frames(), ledger.budget_frames());
        let start = match self.make_room(ledger, frames, budget_frames, patient, writes) {
            Room::Frames(start) => start,
            room => return Err(room),
        };
        segment.set_address(self.pool.frame_address(start));
        let Some(moving) = Moving::promotion(segment) else {
            ledger.give(start, frames);
            return Ok(None);
        };
        *segment.failure.lock() = None;
        let (class, displaced) = ledger.add_promoted(segment);
        // The rest are stream members now: who needs their frames has them written.
        let may_go = displaced.iter().filter(|segment| ledger.may_write(segment));
        let dirty = may_go.filter_map(Moving::write_back);
        writes.extend(dirty.take(WRITES_STARTED_MAX.saturating_sub(writes.len())));
        self.counters.promotions.fetch_add(1, Ordering::Relaxed);
        self.counters.streamed.fetch_add(u64::from(class == Class::Stream), Ordering::Relaxed);
        Ok(Some(moving))
    }

    fn launch_read(&self, moving: Moving, urgency: Urgency) {
        let launch = InFlight::begin(self.self_reference(), moving.segment());
        let done = |shared: &Shared, moving: Moving, outcome: io::Result<()>| {
            let checked = shared.check_read(&moving, outcome);
            shared.finish_read(moving, checked);
        };
        if let Err((moving, error)) = self.submit(moving, Op::Read, urgency, done) {
            self.finish_read(moving, Err(error));
        }
        drop(launch);
    }

    fn check_read(&self, moving: &Moving, outcome: io::Result<()>) -> Result<(), Error> {
        let segment = moving.segment();
        let place = segment.place().ok_or_else(never_written)?;
        outcome.map_err(|error| read_error(segment, place, error))?;
        segment.check(self.bytes_of(moving, segment.bytes()), place)
    }

    fn finish_read(&self, moving: Moving, outcome: Result<(), Error>) {
        let segment = &Arc::clone(moving.segment());
        match outcome {
            Ok(()) => {
                self.counters.read_bytes.fetch_add(segment.disk_bytes(), Ordering::Relaxed);
                moving.end_promotion(true);
            }
            Err(error) => {
                *segment.failure.lock() = Some(error);
                let ledger = self.lock();
                if let Ok(mut ledger) = ledger {
                    ledger.remove(segment);
                    moving.end_promotion(false);
                }
            }
        }
        self.waiters.notify(segment);
        self.finish_release(segment);
    }

    /// Waits for the bytes of a segment that is pinned; returns their address. After an error the pin is gone.
    pub fn wait(&self, segment: &Arc<Segment>) -> Result<usize, Error> {
        loop {
            if let Err(failed) = self.check() {
                segment.word.unpin();
                return Err(failed);
            }
            let look = segment.word.look();
            if look.pins == 0 {
                return Err(Error::misuse("the segment is not pinned: call pin_start first"));
            }
            match look.state {
                State::Promoting => self.sleep_until_read(segment),
                State::Absent | State::Freed | State::Writing | State::Sealing => {
                    let failure = segment.failure.lock().clone();
                    // No failure: another reader has just started a second try.
                    if let Some(failure) = failure {
                        self.unpin(segment)?;
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
        let began = now();
        if let Some(place) = segment.place() {
            self.devices.get(place.device).io.hasten(segment.key);
        }
        let (lock, wake) = self.waiters.shard(segment);
        let mut guard = lock.lock();
        while segment.word.look().state == State::Promoting && self.check().is_ok() {
            wake.wait(&mut guard);
        }
        self.counters.count_wait(began);
    }

    /// Drops a reader's pin.
    pub fn unpin(&self, segment: &Arc<Segment>) -> Result<(), Error> {
        match segment.word.unpin() {
            Unpinned::Done => {}
            Unpinned::Underflow => {
                return Err(Error::misuse("the segment is not pinned: one unpin too many"));
            }
            // Nothing moves any more in a store that has failed.
            Unpinned::Last { .. } if self.check().is_err() => {}
            Unpinned::Last { was_parked, released, mapped } => {
                if mapped {
                    self.hide(segment);
                }
                if was_parked {
                    self.unpark(segment);
                }
                // A release while it was shown could not free it.
                if released || mapped {
                    self.finish_release(segment);
                }
            }
        }
        Ok(())
    }

    fn unpark(&self, segment: &Segment) {
        let over_budget = self.lock().is_ok_and(|mut ledger| {
            ledger.unpark(segment);
            ledger.is_over_budget()
        });
        if over_budget {
            self.keeper.wake();
        }
        self.space.announce();
    }
}
