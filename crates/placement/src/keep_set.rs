//! The keep-set: which segments stay resident and which only pass through.
//!
//! Members are segments with frames. *Keep* members are ordered by hotness, *stream* members by when they were
//! last let go; frames are taken from the latest stream member first, because a passing segment is not needed
//! again soon and its frames are still in the processor's caches. A missing segment is kept if there is room, or if it is clearly
//! hotter than the coldest keep member, which then turns into a stream member. The comparison uses the
//! candidate's score *before* its present access, so that in a cyclic scan both sides are at the end of their
//! cycle and equal: a uniform cycle longer than the budget keeps what it has, and hits budget/size of the time.
//!
//! Among segments about equally hot the one nearer to its region's beginning is kept. A scan of a region then finds
//! what it reads first in memory, and has the rest on its way meanwhile: with whole regions kept and others missing,
//! the disk would idle in the former and the processors in the latter.
//!
//! Invariant: a member is in exactly one of: the keep order, the stream order, parked. Keep orders are lower
//! bounds of the true scores (scores never fall) and are brought up to date when they reach the front.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::score::Score;
use crate::stream_reserve::StreamReserve;

/// Names a segment; grows with the age of the store.
pub type Key = u64;

/// How much hotter a missing segment must be than the one it displaces. Within one cycle of a uniform scan
/// scores differ by less than this even when readers run more than half a cycle apart.
const ADMISSION_RATIO: f64 = 1.5;

/// Up to how much hotter a keep member may be for a missing segment nearer to its region's beginning to displace it:
/// in a uniform cycle one that was just read is twice as hot as one that is about to be.
const EQUAL_RATIO: f64 = 2.1;

/// How many keep members are looked at for that, at most.
const LOOKS_MAX: usize = 64;

/// Why a segment has its frames.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Class {
    /// Stays.
    Keep,
    /// Passes through.
    Stream,
}

/// What the caller says of a proposed victim.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// Its frames can be taken now; it leaves the set.
    Take,
    /// Not now, but soon without anybody's doing (a transfer is in flight).
    Busy,
    /// Pinned by somebody: do not ask again until [`KeepSet::unpark`].
    Pinned,
    /// Stop looking.
    Stop,
}

#[derive(Debug, Clone, Copy)]
enum Place {
    Kept(Score),
    Streaming(u64),
    Parked(Class),
}

#[derive(Debug)]
struct Member {
    frames: u64,
    /// In its region, from its beginning.
    position: u32,
    place: Place,
}

impl Member {
    fn class(&self) -> Class {
        match self.place {
            Place::Kept(_) | Place::Parked(Class::Keep) => Class::Keep,
            Place::Streaming(_) | Place::Parked(Class::Stream) => Class::Stream,
        }
    }
}

/// See the module.
#[derive(Debug)]
pub struct KeepSet {
    members: HashMap<Key, Member>,
    // Among equals (never read) the youngest goes first: what was written early stays.
    keep: BTreeSet<(Score, Reverse<Key>)>,
    stream: BTreeMap<u64, Key>,
    turns: u64,
    keep_frames: u64,
    reserve: StreamReserve,
}

impl KeepSet {
    /// An empty set over `budget_frames`.
    #[must_use]
    pub fn new(budget_frames: u64) -> Self {
        Self {
            members: HashMap::new(),
            keep: BTreeSet::new(),
            stream: BTreeMap::new(),
            turns: 0,
            keep_frames: 0,
            reserve: StreamReserve::new(budget_frames),
        }
    }

    /// Follows a changed budget; the caller then takes victims until it is within it.
    pub fn set_budget(&mut self, budget_frames: u64) {
        self.reserve.set_budget(budget_frames);
    }

    /// Frames that only passing segments may use.
    #[must_use]
    pub fn reserve_frames(&self) -> u64 {
        self.reserve.frames()
    }

    /// Frames of keep members.
    #[must_use]
    pub fn keep_frames(&self) -> u64 {
        self.keep_frames
    }

    /// To be called once per half-life of logical time.
    pub fn relax(&mut self) {
        self.reserve.relax();
    }

    /// Adds a segment that is being written, the `position`th of its region. It is parked (its writer has it pinned)
    /// until [`KeepSet::unpark`].
    pub fn add_written(&mut self, key: Key, frames: u64, position: u32) -> Class {
        let class = if self.has_room(frames) { Class::Keep } else { Class::Stream };
        self.insert(key, frames, position, Place::Parked(class));
        class
    }

    /// Adds a segment that is being promoted, with its score before the access that asked for it. Keep members
    /// it displaces become the next stream victims and are returned.
    pub fn add_promoted(
        &mut self,
        key: Key,
        frames: u64,
        position: u32,
        score: Score,
        mut fresh: impl FnMut(Key) -> Score,
    ) -> (Class, Vec<Key>) {
        if self.has_room(frames) {
            self.insert(key, frames, position, Place::Kept(score));
            return (Class::Keep, Vec::new());
        }
        let mut displaced = self.colder(frames, score, &mut fresh);
        if displaced.is_empty() {
            displaced = self.farther(frames, position, score, &mut fresh);
        }
        if displaced.is_empty() {
            let turn = self.next_turn();
            self.insert(key, frames, position, Place::Streaming(turn));
            return (Class::Stream, displaced);
        }
        for &victim in &displaced {
            self.put(victim, Class::Stream, Score::NEVER);
        }
        self.insert(key, frames, position, Place::Kept(score));
        (Class::Keep, displaced)
    }

    /// Offers members to `verdict`, the latest stream member first, then keep members by hotness, until one is taken.
    /// Taking a keep member tells the reserve that passing segments needed more room.
    pub fn take_victim(
        &mut self,
        mut verdict: impl FnMut(Key, Class) -> Verdict,
        mut fresh: impl FnMut(Key) -> Score,
    ) -> Option<Key> {
        let mut before = u64::MAX;
        while let Some((&order, &key)) = self.stream.range(..before).next_back() {
            before = order;
            match verdict(key, Class::Stream) {
                Verdict::Take => return self.remove(key).then_some(key),
                Verdict::Pinned => self.park(key),
                Verdict::Busy => {}
                Verdict::Stop => return None,
            }
        }
        let mut busy: Option<(Score, Reverse<Key>)> = None;
        loop {
            let key = self.coldest(busy, &mut fresh)?;
            match verdict(key.1.0, Class::Keep) {
                Verdict::Take => {
                    let frames = self.members.get(&key.1.0).map_or(0, |member| member.frames);
                    self.reserve.grow(frames);
                    return self.remove(key.1.0).then_some(key.1.0);
                }
                Verdict::Pinned => self.park(key.1.0),
                Verdict::Busy => busy = Some(key),
                Verdict::Stop => return None,
            }
        }
    }

    /// A parked member is no longer pinned; `score` is its hotness now. Unknown keys are ignored.
    pub fn unpark(&mut self, key: Key, score: Score) {
        if let Some(Member { place: Place::Parked(class), .. }) = self.members.get(&key) {
            self.put(key, *class, score);
        }
    }

    /// The segment gave up some of its frames.
    pub fn shrink(&mut self, key: Key, frames: u64) {
        if let Some(member) = self.members.get_mut(&key) {
            if member.class() == Class::Keep {
                self.keep_frames -= member.frames - frames;
            }
            member.frames = frames;
        }
    }

    /// Forgets a segment; true if it was a member.
    pub fn remove(&mut self, key: Key) -> bool {
        let Some(member) = self.members.remove(&key) else { return false };
        self.leave_order(key, member.place);
        if member.class() == Class::Keep {
            self.keep_frames -= member.frames;
        }
        true
    }

    /// The class of a member.
    #[must_use]
    pub fn class(&self, key: Key) -> Option<Class> {
        self.members.get(&key).map(Member::class)
    }

    fn has_room(&self, frames: u64) -> bool {
        self.keep_frames + frames <= self.reserve.keep_frames()
    }

    /// The coldest keep members that together make room for `frames`, if `score` clearly beats each of them.
    fn colder(&mut self, frames: u64, score: Score, fresh: &mut impl FnMut(Key) -> Score) -> Vec<Key> {
        let mut victims = Vec::new();
        let mut after = None;
        let mut missing = (self.keep_frames + frames).saturating_sub(self.reserve.keep_frames());
        while missing > 0 {
            match self.coldest(after, fresh) {
                Some(cold) if score.beats(cold.0, ADMISSION_RATIO) => {
                    missing = missing.saturating_sub(self.members.get(&cold.1.0).map_or(0, |m| m.frames));
                    victims.push(cold.1.0);
                    after = Some(cold);
                }
                _ => return Vec::new(),
            }
        }
        victims
    }

    /// Of the coldest keep members those farthest from their regions' beginnings that together make room for
    /// `frames`, if all are farther than `position` and none is clearly hotter than `score`.
    fn farther(
        &mut self,
        frames: u64,
        position: u32,
        score: Score,
        fresh: &mut impl FnMut(Key) -> Score,
    ) -> Vec<Key> {
        let mut found = Vec::new();
        let mut after = None;
        for _ in 0..if score == Score::NEVER { 0 } else { LOOKS_MAX } {
            let Some(cold) = self.coldest(after, fresh).filter(|cold| !cold.0.beats(score, EQUAL_RATIO))
            else {
                break;
            };
            after = Some(cold);
            let key = cold.1.0;
            if let Some(member) = self.members.get(&key).filter(|member| member.position > position) {
                found.push((member.position, key, member.frames));
            }
        }
        found.sort_unstable_by(|one, other| other.cmp(one));
        let mut missing = (self.keep_frames + frames).saturating_sub(self.reserve.keep_frames());
        let mut victims = Vec::new();
        for (_, key, frames) in found {
            if missing > 0 {
                victims.push(key);
                missing = missing.saturating_sub(frames);
            }
        }
        if missing == 0 { victims } else { Vec::new() }
    }

    /// The keep member with the lowest true score that comes after `after` in the order.
    fn coldest(
        &mut self,
        after: Option<(Score, Reverse<Key>)>,
        fresh: &mut impl FnMut(Key) -> Score,
    ) -> Option<(Score, Reverse<Key>)> {
        use std::ops::Bound::{Excluded, Unbounded};
        loop {
            let entry = *self.keep.range((after.map_or(Unbounded, Excluded), Unbounded)).next()?;
            let now = fresh(entry.1.0);
            if now <= entry.0 {
                return Some(entry);
            }
            self.put(entry.1.0, Class::Keep, now);
        }
    }

    /// A member is pinned: it is not offered again until [`KeepSet::unpark`]. Unknown keys are ignored.
    pub fn park(&mut self, key: Key) {
        if let Some(class) = self.class(key) {
            self.move_to(key, Place::Parked(class));
        }
    }

    fn next_turn(&mut self) -> u64 {
        self.turns += 1;
        self.turns
    }

    fn put(&mut self, key: Key, class: Class, score: Score) {
        let place = match class {
            Class::Keep => Place::Kept(score),
            Class::Stream => Place::Streaming(self.next_turn()),
        };
        self.move_to(key, place);
    }

    fn move_to(&mut self, key: Key, place: Place) {
        let Some(member) = self.members.get(&key) else { return };
        let (frames, position) = (member.frames, member.position);
        self.remove(key);
        self.insert(key, frames, position, place);
    }

    fn insert(&mut self, key: Key, frames: u64, position: u32, place: Place) {
        let member = Member { frames, position, place };
        if member.class() == Class::Keep {
            self.keep_frames += frames;
        }
        match place {
            Place::Kept(score) => drop(self.keep.insert((score, Reverse(key)))),
            Place::Streaming(order) => drop(self.stream.insert(order, key)),
            Place::Parked(_) => {}
        }
        let before = self.members.insert(key, member);
        debug_assert!(before.is_none(), "segment {key} is a member twice");
    }

    fn leave_order(&mut self, key: Key, place: Place) {
        match place {
            Place::Kept(score) => drop(self.keep.remove(&(score, Reverse(key)))),
            Place::Streaming(order) => drop(self.stream.remove(&order)),
            Place::Parked(_) => {}
        }
    }
}
