//! The ledger: who has which frame, who goes next, and what is known of the disk. One lock guards it.
//!
//! Invariant: a member of the keep-set has frames, which are assigned to it and to nobody else; a member that is known
//! to be pinned, or stuck, is parked, and its frames are not movable. No operation walks all members. A thread that
//! panics while the ledger is locked leaves it half changed: nobody gets it any more (see `space.rs`).

use std::collections::HashMap;
use std::sync::Arc;

use warmset_placement::{Class, KeepSet, Key, TICKS_PER_HALF_LIFE, Verdict};

use crate::error::Error;
use crate::failure::{broken, invariant};
use crate::frames::FrameMap;
use crate::numbers::FrameNumbers;
use crate::pool::{Pool, frames_beside_window, window_frames};
use crate::segment::{Moving, Segment, frames_for};
use crate::state::{Demote, State};
use crate::sync::now;
use crate::write_back::WriteBack;

/// Dirty victims put in flight at once: enough to keep the device busy while the caller waits for the first.
pub(crate) const WRITES_STARTED_MAX: usize = 16;

/// Write-backs that must be launched once the ledger is unlocked.
pub(crate) type Writes = Vec<Moving>;

/// A part of the window that nobody else has.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub(crate) struct Slot {
    first: u64,
    frames: u64,
}

impl Slot {
    /// The number of its first frame's worth.
    pub fn first(&self) -> u64 {
        self.first
    }

    pub fn frames(&self) -> u64 {
        self.frames
    }
}

/// What became of a try to free frames.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Evicted {
    /// So many segments lost their frames: at least one.
    Some(u64),
    /// Transfers are in flight that will free some.
    Soon,
    /// What could be demoted cannot be written.
    Stuck,
    /// Everything is pinned.
    Nothing,
}

pub(crate) struct Ledger {
    frames: FrameMap,
    window: FrameMap,
    /// What segments have of the window.
    slots: HashMap<Key, Slot>,
    set: KeepSet,
    /// Members of `set`.
    members: HashMap<Key, Arc<Segment>>,
    /// Bytes of the members.
    resident_bytes: u64,
    /// Of the pool.
    budget_frames: u64,
    /// Frames' worth of the window that may be in use at this budget.
    window_limit: u64,
    disk: WriteBack,
    relaxed_ticks: u64,
    numbers: FrameNumbers,
}

impl Ledger {
    /// `budget_frames` is that of pool and window.
    pub fn new(pool: &Pool, devices: usize, budget_frames: u64) -> Self {
        let window_limit = window_frames(budget_frames);
        let budget_frames = frames_beside_window(budget_frames);
        Self {
            frames: FrameMap::numbered(&pool.numbers),
            window: FrameMap::new((pool.window.len() / crate::FRAME_BYTES) as u64),
            slots: HashMap::new(),
            set: KeepSet::new(budget_frames),
            members: HashMap::new(),
            resident_bytes: 0,
            budget_frames,
            window_limit,
            disk: WriteBack::new(devices),
            relaxed_ticks: 0,
            numbers: pool.numbers.clone(),
        }
    }

    pub fn frames(&self) -> &FrameMap {
        &self.frames
    }

    /// For the housekeeper, who faults frames in and gives their pages back.
    pub fn frames_mut(&mut self) -> &mut FrameMap {
        &mut self.frames
    }

    /// Takes a slot for so many frames' worth, unless more of the window would be in use than the budget leaves it.
    pub fn take_slot(&mut self, frames: u64) -> Option<Slot> {
        let fits = self.window.used() + frames <= self.window_limit;
        let first = if fits { self.window.take(frames) } else { None };
        first.map(|first| Slot { first, frames })
    }

    /// The next user may have it.
    pub fn give_slot(&mut self, slot: Slot) {
        self.window.give(slot.first, slot.frames);
    }

    /// The slot is where the segment's address is now.
    pub fn lend_slot(&mut self, segment: &Segment, slot: Slot) {
        let before = self.slots.insert(segment.key, slot);
        invariant(before.is_none(), || format!("segment {} is in the window twice", segment.key));
    }

    /// The slot of a segment that has no use for one any more: it is absent, and only with the ledger locked does it cease to
    /// be, or freed, which it stays.
    pub fn take_back_slot(&mut self, segment: &Segment) -> Option<Slot> {
        let gone = matches!(segment.word.look().state, State::Absent | State::Freed);
        if gone { self.slots.remove(&segment.key) } else { None }
    }

    /// Whether an empty window had so many frames' worth.
    pub fn window_could_have(&self, frames: u64) -> bool {
        frames <= self.window_limit
    }

    pub fn window_frames_used(&self) -> u64 {
        self.window.used()
    }

    pub fn disk(&self) -> &WriteBack {
        &self.disk
    }

    pub fn disk_mut(&mut self) -> &mut WriteBack {
        &mut self.disk
    }

    pub fn budget_frames(&self) -> u64 {
        self.budget_frames
    }

    pub fn is_over_budget(&self) -> bool {
        self.frames.used() > self.budget_frames
    }

    /// Frames of pool and window. The caller then evicts until the pool is within it.
    pub fn set_budget(&mut self, frames: u64) {
        self.window_limit = window_frames(frames);
        self.budget_frames = frames_beside_window(frames);
        self.set.set_budget(self.budget_frames);
    }

    /// Bytes of segments that have frames.
    pub fn resident_bytes(&self) -> u64 {
        self.resident_bytes
    }

    /// Frames that only passing segments may use.
    pub fn reserve_frames(&self) -> u64 {
        self.set.reserve_frames()
    }

    /// Lets the stream reserve fall back once per half-life.
    pub fn relax(&mut self, now_ticks: u64) {
        if now_ticks.saturating_sub(self.relaxed_ticks) >= TICKS_PER_HALF_LIFE {
            self.relaxed_ticks = now_ticks;
            self.set.relax();
        }
    }

    fn start_of(&self, segment: &Segment) -> u64 {
        frame_of(&self.numbers, segment)
    }

    /// A segment that is being written has got frames. Its writer has it pinned.
    pub fn add_written(&mut self, segment: &Arc<Segment>) {
        self.set.add_written(segment.key, segment.frames(), segment.position);
        self.add(segment);
    }

    /// A segment that is being promoted has got frames: whether it stays, and who passes through now in its place.
    pub fn add_promoted(&mut self, segment: &Arc<Segment>) -> (Class, Vec<Arc<Segment>>) {
        let Ledger { set, members, .. } = self;
        let frames = segment.frames();
        let (class, displaced) =
            set.add_promoted(segment.key, frames, segment.position, segment.score(), |key| {
                members[&key].score()
            });
        let displaced = displaced.iter().map(|key| Arc::clone(&members[key])).collect();
        self.add(segment);
        let start = self.start_of(segment);
        self.frames.set_movable(start, frames, true);
        (class, displaced)
    }

    fn add(&mut self, segment: &Arc<Segment>) {
        self.frames.assign(self.start_of(segment), segment.frames(), segment.key);
        self.resident_bytes += segment.bytes();
        let before = self.members.insert(segment.key, Arc::clone(segment));
        invariant(before.is_none(), || format!("segment {} has frames twice", segment.key));
    }

    /// A segment loses its frames.
    pub fn remove(&mut self, segment: &Segment) {
        self.set.remove(segment.key);
        self.take_frames_of(segment);
    }

    /// It has left the set already.
    fn take_frames_of(&mut self, segment: &Segment) {
        let was = self.members.remove(&segment.key);
        invariant(was.is_some(), || format!("segment {} has no frames to give", segment.key));
        self.disk.forget(segment.key);
        self.resident_bytes -= segment.bytes();
        self.frames.give(self.start_of(segment), segment.frames());
    }

    /// A segment was sealed with so many bytes used, set by `set_bytes`; nobody has it pinned now. Tells whether it is
    /// likely to be written soon: the high watermark is passed, and it does not stay.
    pub fn seal(&mut self, segment: &Segment, used_bytes: u64, set_bytes: impl FnOnce()) -> bool {
        let (before, after) = (segment.frames(), frames_for(used_bytes));
        self.resident_bytes = self.resident_bytes + used_bytes - segment.bytes();
        set_bytes();
        if after < before {
            self.frames.give(self.start_of(segment) + after, before - after);
            self.set.shrink(segment.key, after);
        }
        self.unpark(segment);
        let free = self.budget_frames.saturating_sub(self.frames.used());
        self.set.class(segment.key) == Some(Class::Stream) && free < self.reserve_frames().div_ceil(2)
    }

    /// Nobody has it pinned any more. Ignored if it has no frames.
    pub fn unpark(&mut self, segment: &Segment) {
        if self.members.contains_key(&segment.key) {
            self.set.unpark(segment.key, segment.score());
            self.frames.set_movable(self.start_of(segment), segment.frames(), true);
        }
    }

    fn park(&mut self, segment: &Segment) {
        self.set.park(segment.key);
        self.frames.set_movable(self.start_of(segment), segment.frames(), false);
    }

    /// No device has taken this segment.
    pub fn write_failed(&mut self, segment: &Segment, error: &Error) {
        self.disk.failed(segment.key, error);
        if self.members.contains_key(&segment.key) {
            self.park(segment);
        }
    }

    /// Some of what was stuck may be tried again.
    fn bring_back_stuck(&mut self) {
        self.disk.retry_if_due(now());
        for key in self.disk.come_back() {
            if let Some(segment) = self.members.get(&key).map(Arc::clone) {
                self.unpark(&segment);
            }
        }
    }

    /// Takes the frames of one segment, or starts writing some. With `patient`, keep members are spared while passing
    /// ones are on their way out.
    pub fn evict_one(&mut self, patient: bool, writes: &mut Writes) -> Evicted {
        loop {
            self.bring_back_stuck();
            match self.try_evict(patient, writes) {
                // What may be tried again comes back a batch at a time.
                Evicted::Stuck if self.disk.has_stuck() && !self.disk.fails() => {}
                outcome => return outcome,
            }
        }
    }

    fn try_evict(&mut self, patient: bool, writes: &mut Writes) -> Evicted {
        let Ledger { set, members, frames, disk, numbers, .. } = self;
        let mut soon = false;
        let verdict = |key: Key, class: Class| {
            if writes.len() >= WRITES_STARTED_MAX || (class == Class::Keep && patient && soon) {
                return Verdict::Stop;
            }
            let segment = &members[&key];
            match segment.word.demote() {
                Demote::Demoted => return Verdict::Take,
                Demote::Parked => {}
                Demote::Dirty if !may_write(disk, segment) => disk.stick(key),
                outcome => {
                    if outcome == Demote::Dirty {
                        writes.extend(Moving::write_back(segment));
                    }
                    soon = true;
                    return Verdict::Busy;
                }
            }
            frames.set_movable(frame_of(numbers, segment), segment.frames(), false);
            Verdict::Pinned
        };
        match set.take_victim(verdict, |key| members[&key].score()) {
            Some(key) => {
                let segment = Arc::clone(&members[&key]);
                self.take_frames_of(&segment);
                Evicted::Some(1)
            }
            None if soon => Evicted::Soon,
            None if self.disk.has_stuck() => Evicted::Stuck,
            None => Evicted::Nothing,
        }
    }

    /// Whether this dirty segment may be written now.
    pub fn may_write(&self, segment: &Segment) -> bool {
        may_write(&self.disk, segment)
    }

    /// There are enough free frames but no run of them: empties one, the cheapest of some that nobody has pinned a part of.
    pub fn clear_run(&mut self, frames: u64, writes: &mut Writes) -> Evicted {
        self.bring_back_stuck();
        while self.could_have(frames) {
            let (members, disk) = (&self.members, &self.disk);
            let cost = |key: Key| {
                let look = members[&key].word.look();
                let price = if look.state == State::Dirty { 3 } else { 1 };
                (look.pins == 0 && (look.state != State::Dirty || may_write(disk, &members[&key])))
                    .then_some(price)
            };
            let start = self.frames.cheapest_run(frames, cost);
            if let Some(outcome) = start.and_then(|start| self.clear(start, frames, writes)) {
                return outcome;
            }
        }
        if self.disk.has_stuck() { Evicted::Stuck } else { Evicted::Nothing }
    }

    /// Whether demotion could make a run of so many frames: if not, it would be in vain. Whoever is found to hold a part
    /// of one is parked, so that no run is looked at twice for the same reason.
    pub fn could_have(&mut self, frames: u64) -> bool {
        if frames > self.budget_frames {
            return false;
        }
        while let Some(start) = self.frames.movable_run(frames) {
            if !self.park_obstacles(start, frames) {
                return true;
            }
        }
        false
    }

    /// Parks those of some frames' segments that are pinned or cannot be written; true if there were any.
    fn park_obstacles(&mut self, start: u64, frames: u64) -> bool {
        let mut any = false;
        for key in self.frames.owners(start, frames) {
            let segment = Arc::clone(&self.members[&key]);
            let pinned = segment.word.park_if_pinned();
            if !pinned && segment.word.look().state == State::Dirty && !self.may_write(&segment) {
                self.disk.stick(key);
            } else if !pinned {
                continue;
            }
            self.park(&segment);
            any = true;
        }
        any
    }

    /// `None` if somebody has pinned a part of the run.
    fn clear(&mut self, start: u64, frames: u64, writes: &mut Writes) -> Option<Evicted> {
        let mut demoted = 0;
        for key in self.frames.owners(start, frames) {
            let segment = Arc::clone(&self.members[&key]);
            match segment.word.demote() {
                Demote::Demoted => {
                    self.remove(&segment);
                    demoted += 1;
                }
                Demote::Parked => {
                    self.park(&segment);
                    return None;
                }
                Demote::Dirty if !self.may_write(&segment) => {
                    self.disk.stick(key);
                    self.park(&segment);
                    return None;
                }
                Demote::Dirty => writes.extend(Moving::write_back(&segment)),
                Demote::Busy => {}
            }
        }
        // What is being written, read or freed, or changed by the housekeeper, is free soon.
        let free = (start..start + frames).all(|frame| self.frames.is_free(frame));
        Some(if free { Evicted::Some(demoted) } else { Evicted::Soon })
    }

    /// Takes a run of free frames.
    pub fn take(&mut self, frames: u64) -> Option<u64> {
        self.frames.take(frames)
    }

    /// Gives frames back that were taken for a segment that did not get them.
    pub fn give(&mut self, start: u64, frames: u64) {
        self.frames.give(start, frames);
    }
}

/// Its first frame.
fn frame_of(numbers: &FrameNumbers, segment: &Segment) -> u64 {
    let frame = numbers.at(segment.address());
    frame.unwrap_or_else(|| broken(format!("segment {} has no frames", segment.key)))
}

fn may_write(disk: &WriteBack, segment: &Segment) -> bool {
    disk.may_write(segment.key, segment.place().map(|place| place.device))
}
