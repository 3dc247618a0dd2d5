//! Which frames of the pool are free, whether pages are behind them, and which others could be.
//!
//! Invariant: a frame is used, warm (free, faulted in), cold (free, no pages) or changing (from one of these two
//! to the other, by the housekeeper), and in exactly one of these. Pure bookkeeping: no address, no system call. Every
//! operation takes time logarithmic in the number of frames, and linear in those it hands out.

use warmset_placement::Key;

use crate::failure::invariant;
use crate::numbers::FrameNumbers;
use crate::runs::Runs;

/// How many frames are compared in search of the run that is cheapest to empty.
const COMPARED_MAX: u64 = 4096;

/// State of all frames.
#[derive(Debug)]
pub(crate) struct FrameMap {
    warm: Runs,
    cold: Runs,
    /// Warm or cold.
    free: Runs,
    /// Not known to be pinned: free, changing, or of a segment that may be a victim.
    movable: Runs,
    /// Whose frame it is; keys count from 0.
    owners: Vec<Option<Key>>,
    total: u64,
    changing: u64,
}

/// A frame whose pages are being faulted in or given back: free, and nobody can take it while this exists.
#[derive(Debug)]
pub(crate) struct Changing(u64);

impl Changing {
    pub fn number(&self) -> u64 {
        self.0
    }
}

impl FrameMap {
    pub fn new(total: u64) -> Self {
        Self::numbered(&FrameNumbers::of([(0, total)]))
    }

    pub fn numbered(numbers: &FrameNumbers) -> Self {
        let end = numbers.end();
        let mut map = Self {
            warm: Runs::new(end, false),
            cold: Runs::new(end, true),
            free: Runs::new(end, true),
            movable: Runs::new(end, true),
            owners: vec![None; end as usize],
            total: numbers.frames(),
            changing: 0,
        };
        for gap in numbers.gaps() {
            for runs in [&mut map.cold, &mut map.free, &mut map.movable] {
                runs.set(gap, 1, false);
            }
        }
        map
    }

    pub fn used(&self) -> u64 {
        self.total - self.free.count() - self.changing
    }

    pub fn warm(&self) -> u64 {
        self.warm.count()
    }

    /// Frames with pages behind them, or about to have or to lose them.
    pub fn faulted(&self) -> u64 {
        self.total - self.cold.count()
    }

    /// Frames that nobody uses and nobody can take: their pages are being faulted in or given back now.
    pub fn changing(&self) -> u64 {
        self.changing
    }

    /// Takes `frames` contiguous frames, warm ones if possible. They are pinned by whoever takes them.
    pub fn take(&mut self, frames: u64) -> Option<u64> {
        let start = self.warm.find(frames).or_else(|| self.free.find(frames))?;
        self.warm.set(start, frames, false);
        self.cold.set(start, frames, false);
        self.free.set(start, frames, false);
        self.movable.set(start, frames, false);
        Some(start)
    }

    /// Says whose they are.
    pub fn assign(&mut self, start: u64, frames: u64, key: Key) {
        for owner in &mut self.owners[start as usize..(start + frames) as usize] {
            invariant(owner.is_none(), || format!("a frame of segments {owner:?} and {key}"));
            *owner = Some(key);
        }
    }

    /// Whether the segment that has these frames may be a victim, as far as that is known.
    pub fn set_movable(&mut self, start: u64, frames: u64, movable: bool) {
        self.movable.set(start, frames, movable);
    }

    /// Gives back frames that were written to.
    pub fn give(&mut self, start: u64, frames: u64) {
        for frame in start..start + frames {
            invariant(!self.free.get(frame), || format!("frame {frame} is given back twice"));
            self.owners[frame as usize] = None;
        }
        self.warm.set(start, frames, true);
        self.free.set(start, frames, true);
        self.movable.set(start, frames, true);
    }

    pub fn is_free(&self, frame: u64) -> bool {
        self.free.get(frame)
    }

    /// The first run of so many frames that demotion could empty, as far as is known of who is pinned.
    pub fn movable_run(&self, frames: u64) -> Option<u64> {
        self.movable.find(frames)
    }

    /// Of the runs of `frames` frames that could be emptied the one that costs least, among a few thousand: `cost` says
    /// what an owner's frame costs; `None` stands for a frame that cannot be had.
    pub fn cheapest_run(&self, frames: u64, cost: impl Fn(Key) -> Option<u64>) -> Option<u64> {
        let first = self.movable.find(frames)?;
        let end = (self.owners.len() as u64).min(first + frames.max(COMPARED_MAX));
        let (mut best, mut sum, mut begin) = (None::<(u64, u64)>, 0, first);
        let mut costs = std::collections::VecDeque::new();
        let mut last = None;
        for frame in first..end {
            let owner = self.owners[frame as usize];
            let price = match (self.movable.get(frame), owner, last) {
                (false, ..) => None,
                (true, None, _) => Some(0),
                (true, Some(key), Some((before, price))) if before == key => price,
                (true, Some(key), _) => cost(key),
            };
            last = owner.map(|key| (key, price));
            let Some(price) = price else {
                costs.clear();
                (sum, begin) = (0, frame + 1);
                continue;
            };
            costs.push_back(price);
            sum += price;
            if costs.len() as u64 > frames {
                sum -= costs.pop_front().unwrap_or(0);
                begin += 1;
            }
            if costs.len() as u64 == frames && best.is_none_or(|(least, _)| sum < least) {
                best = Some((sum, begin));
            }
        }
        best.map(|(_, start)| start)
    }

    /// The segments that have some of these frames.
    pub fn owners(&self, start: u64, frames: u64) -> Vec<Key> {
        let mut keys: Vec<Key> =
            self.owners[start as usize..(start + frames) as usize].iter().copied().flatten().collect();
        keys.dedup();
        keys
    }

    /// Picks a cold frame to be faulted in.
    pub fn begin_fill(&mut self) -> Option<Changing> {
        let frame = self.cold.find(1)?;
        self.cold.set(frame, 1, false);
        self.free.set(frame, 1, false);
        self.changing += 1;
        Some(Changing(frame))
    }

    pub fn end_fill(&mut self, frame: Changing, filled: bool) {
        self.end_change(frame, filled);
    }

    /// Picks a warm frame whose pages are to go back to the kernel; nobody can take it until [`FrameMap::end_drain`].
    pub fn begin_drain(&mut self) -> Option<Changing> {
        let frame = self.warm.last()?;
        self.warm.set(frame, 1, false);
        self.free.set(frame, 1, false);
        self.changing += 1;
        Some(Changing(frame))
    }

    pub fn end_drain(&mut self, frame: Changing, drained: bool) {
        self.end_change(frame, !drained);
    }

    fn end_change(&mut self, Changing(frame): Changing, warm: bool) {
        invariant(self.changing > 0 && !self.free.get(frame), || format!("frame {frame} did not change"));
        self.changing -= 1;
        self.free.set(frame, 1, true);
        if warm { self.warm.set(frame, 1, true) } else { self.cold.set(frame, 1, true) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::failure::panic_text;

    #[test]
    fn runs_are_found_and_given_back() {
        let mut map = FrameMap::new(100);
        assert_eq!(map.take(3), Some(0));
        let frame = map.take(1).expect("a frame");
        assert_eq!((frame, map.used()), (3, 4));
        map.give(0, 3);
        assert_eq!(map.take(1), Some(0), "warm frames first");
        assert_eq!(map.take(96), Some(4));
        assert_eq!((map.used(), map.take(3)), (98, None));
        assert_eq!(map.take(2), Some(1));
        assert_eq!(map.take(1), None);
    }

    #[test]
    fn no_run_lies_on_two_nodes() {
        let mut map = FrameMap::numbered(&FrameNumbers::of([(0, 5), (1 << 30, 4)]));
        assert_eq!((map.used(), map.faulted()), (0, 0));
        assert_eq!((map.take(6), map.movable_run(6)), (None, None));
        assert_eq!((map.take(4), map.take(4), map.take(2)), (Some(0), Some(6), None));
        assert_eq!((map.take(1), map.take(1)), (Some(4), None));
        assert_eq!((map.used(), map.faulted()), (9, 9));
        map.give(6, 4);
        let drained = map.begin_drain().expect("warm");
        assert_eq!(drained.number(), 9);
        map.end_drain(drained, true);
        assert_eq!((map.used(), map.faulted()), (5, 8));
        assert_eq!(map.begin_fill().map(|frame| frame.number()), Some(9), "the gap is no frame");
    }

    #[test]
    fn filling_and_draining_keep_count() {
        let mut map = FrameMap::new(70);
        let frame = map.begin_fill().expect("cold");
        assert_eq!((map.faulted(), map.changing(), map.used()), (1, 1, 0));
        map.end_fill(frame, true);
        assert_eq!((map.warm(), map.used()), (1, 0));
        let drained = map.begin_drain().expect("warm");
        assert_eq!((map.changing(), map.used()), (1, 0), "nobody uses it");
        assert_eq!(map.take(70), None, "and nobody can take it");
        map.end_drain(drained, false);
        assert_eq!((map.warm(), map.faulted()), (1, 1), "the kernel refused it");
        let drained = map.begin_drain().expect("warm");
        map.end_drain(drained, true);
        assert_eq!((map.warm(), map.faulted(), map.changing()), (0, 0, 0));
        let frame = map.begin_fill().expect("cold");
        map.end_fill(frame, false);
        assert_eq!((map.warm(), map.faulted()), (0, 0));
    }

    #[test]
    fn the_run_that_costs_least_is_emptied_and_held_ones_are_not() {
        let mut map = FrameMap::new(12);
        let starts: Vec<_> = (0..12).map(|_| map.take(1).expect("free")).collect();
        starts.iter().for_each(|&frame| map.assign(frame, 1, frame));
        assert!(map.movable_run(1).is_none(), "what was just taken is pinned");
        starts.iter().for_each(|&frame| map.set_movable(frame, 1, true));
        map.give(8, 1);
        let cost = |key| Some(if key < 6 { 5 } else { 1 });
        assert_eq!(map.cheapest_run(3, cost), Some(6));
        assert_eq!(map.owners(6, 3), [6, 7]);
        map.set_movable(7, 1, false);
        assert_eq!(map.cheapest_run(3, cost), Some(8));
        assert_eq!(map.cheapest_run(3, |key| (key < 6).then_some(1)), Some(0));
        assert_eq!(map.cheapest_run(8, cost), None);
        assert_eq!((map.movable_run(8), map.movable_run(7)), (None, Some(0)));
    }

    #[test]
    fn the_run_that_costs_least_may_end_with_the_last_frame_of_the_last_pool() {
        let mut map = FrameMap::numbered(&FrameNumbers::of([(0, 2), (1 << 30, 2)]));
        assert_eq!([0; 4].map(|_| map.take(1)), [Some(0), Some(1), Some(3), Some(4)]);
        map.assign(0, 1, 0);
        map.assign(3, 2, 1);
        map.set_movable(0, 1, true);
        map.set_movable(3, 2, true);
        assert_eq!(map.cheapest_run(2, |_| Some(1)), Some(3));
        assert_eq!(map.cheapest_run(1, |key| Some(9 - key)), Some(3));
    }

    #[test]
    #[should_panic(expected = "frame 3 is given back twice")]
    fn a_frame_is_given_back_once() {
        let mut map = FrameMap::new(8);
        map.take(4);
        map.give(3, 1);
        map.give(2, 2);
    }

    #[test]
    fn what_has_not_begun_to_change_does_not_end() {
        let mut map = FrameMap::new(8);
        let begun = map.begin_fill().expect("cold");
        let outcome = |map: &mut FrameMap, frame| {
            let ended = std::panic::AssertUnwindSafe(|| map.end_fill(Changing(frame), true));
            std::panic::catch_unwind(ended).expect_err("it is no such frame")
        };
        let panic = outcome(&mut map, 5);
        assert_eq!(panic_text(&*panic), "frame 5 did not change", "it is free");
        map.end_fill(begun, true);
        let used = map.take(1).expect("free");
        let panic = outcome(&mut map, used);
        assert_eq!(panic_text(&*panic), format!("frame {used} did not change"), "somebody has it");
    }

    #[test]
    #[should_panic(expected = "a frame of segments Some(1) and 2")]
    fn a_frame_has_one_owner() {
        let mut map = FrameMap::new(8);
        let start = map.take(4).expect("free");
        map.assign(start, 4, 1);
        map.assign(start + 3, 1, 2);
    }
}
