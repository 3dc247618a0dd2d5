//! Which frames of the pool are free, and whether pages are behind them.
//!
//! Invariant: a frame is used, warm (free, faulted in), cold (free, no pages) or changing (from one of these two
//! to the other, by the housekeeper), and in exactly one of these. Pure bookkeeping: no address, no system call.

/// State of all frames.
#[derive(Debug)]
pub(crate) struct FrameMap {
    warm: BitSet,
    cold: BitSet,
    total: u64,
    changing: u64,
}

impl FrameMap {
    pub fn new(total: u64) -> Self {
        Self { warm: BitSet::new(total, false), cold: BitSet::new(total, true), total, changing: 0 }
    }

    pub fn used(&self) -> u64 {
        self.total - self.warm.count - self.cold.count - self.changing
    }

    pub fn warm(&self) -> u64 {
        self.warm.count
    }

    /// Frames with pages behind them, or about to have or to lose them.
    pub fn faulted(&self) -> u64 {
        self.total - self.cold.count
    }

    /// Frames that nobody uses and nobody can take: their pages are being faulted in or given back now.
    pub fn changing(&self) -> u64 {
        self.changing
    }

    /// Takes `frames` contiguous frames, warm ones if possible.
    pub fn take(&mut self, frames: u64) -> Option<u64> {
        let start = self.warm.find_run(frames, None);
        let start = start.or_else(|| self.warm.find_run(frames, Some(&self.cold)))?;
        self.take_at(start, frames);
        Some(start)
    }

    fn take_at(&mut self, start: u64, frames: u64) {
        for frame in start..start + frames {
            if !self.warm.clear(frame) {
                let cold = self.cold.clear(frame);
                debug_assert!(cold, "frame {frame} is taken twice");
            }
        }
    }

    /// Gives back frames that were written to.
    pub fn give(&mut self, start: u64, frames: u64) {
        for frame in start..start + frames {
            debug_assert!(!self.is_free(frame), "frame {frame} is free already");
            self.warm.set(frame);
        }
    }

    pub fn is_free(&self, frame: u64) -> bool {
        self.warm.get(frame) || self.cold.get(frame)
    }

    /// Picks a cold frame to be faulted in.
    pub fn begin_fill(&mut self) -> Option<u64> {
        let frame = self.cold.find_run(1, None)?;
        self.cold.clear(frame);
        self.changing += 1;
        Some(frame)
    }

    pub fn end_fill(&mut self, frame: u64, filled: bool) {
        self.changing -= 1;
        if filled { self.warm.set(frame) } else { self.cold.set(frame) }
    }

    /// Picks a warm frame whose pages are to go back to the kernel; nobody can take it until [`FrameMap::end_drain`].
    pub fn begin_drain(&mut self) -> Option<u64> {
        let frame = self.warm.last()?;
        self.warm.clear(frame);
        self.changing += 1;
        Some(frame)
    }

    pub fn end_drain(&mut self, frame: u64) {
        self.changing -= 1;
        self.cold.set(frame);
    }
}

/// A set of frame numbers with a hint for the next search.
#[derive(Debug)]
struct BitSet {
    words: Vec<u64>,
    len: u64,
    count: u64,
    hint: usize,
}

impl BitSet {
    fn new(len: u64, full: bool) -> Self {
        let words = vec![0; len.div_ceil(64) as usize];
        let mut set = Self { words, len, count: 0, hint: 0 };
        if full {
            (0..len).for_each(|bit| set.set(bit));
        }
        set
    }

    fn get(&self, bit: u64) -> bool {
        self.words[(bit / 64) as usize] >> (bit % 64) & 1 == 1
    }

    fn set(&mut self, bit: u64) {
        let word = (bit / 64) as usize;
        self.count += u64::from(!self.get(bit));
        self.words[word] |= 1 << (bit % 64);
        self.hint = self.hint.min(word);
    }

    /// True if the bit was set.
    fn clear(&mut self, bit: u64) -> bool {
        let was = self.get(bit);
        self.words[(bit / 64) as usize] &= !(1 << (bit % 64));
        self.count -= u64::from(was);
        was
    }

    fn last(&self) -> Option<u64> {
        let word = self.words.iter().rposition(|&word| word != 0)?;
        Some(word as u64 * 64 + 63 - u64::from(self.words[word].leading_zeros()))
    }

    /// The first run of `len` bits that are set here or in `other`.
    fn find_run(&mut self, len: u64, other: Option<&BitSet>) -> Option<u64> {
        if len == 1 && other.is_none() {
            return self.first();
        }
        let mut run = 0;
        for bit in 0..self.len {
            let set = self.get(bit) || other.is_some_and(|other| other.get(bit));
            run = if set { run + 1 } else { 0 };
            if run == len {
                return Some(bit + 1 - len);
            }
        }
        None
    }

    fn first(&mut self) -> Option<u64> {
        while self.hint < self.words.len() {
            let word = self.words[self.hint];
            if word != 0 {
                return Some(self.hint as u64 * 64 + u64::from(word.trailing_zeros()));
            }
            self.hint += 1;
        }
        self.hint = 0;
        if self.count == 0 { None } else { self.first() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
    fn filling_and_draining_keep_count() {
        let mut map = FrameMap::new(70);
        let frame = map.begin_fill().expect("cold");
        assert_eq!(map.faulted(), 1);
        map.end_fill(frame, true);
        assert_eq!((map.warm(), map.used()), (1, 0));
        let drained = map.begin_drain().expect("warm");
        assert_eq!((map.changing(), map.used()), (1, 0), "nobody uses it");
        assert_eq!(map.take(70), None, "and nobody can take it");
        map.end_drain(drained);
        assert_eq!(map.changing(), 0);
        assert_eq!((map.warm(), map.faulted()), (0, 0));
    }
}
