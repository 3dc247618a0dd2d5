//! How many frames of the budget stay out of the keep-set, for segments that only pass through.
//!
//! Invariant: floor ≤ reserve ≤ half the budget. It grows when readers pin more passing segments than it has
//! room for (taking the room from the keep-set each time would make it churn) and falls back slowly.

const FLOOR_FRAMES_MIN: u64 = 8;
const FLOOR_FRAMES_MAX: u64 = 64;

/// The reserve, in frames.
#[derive(Debug, Clone)]
pub struct StreamReserve {
    budget_frames: u64,
    extra_frames: u64,
}

impl StreamReserve {
    /// The reserve of a store with `budget_frames`.
    #[must_use]
    pub fn new(budget_frames: u64) -> Self {
        Self { budget_frames, extra_frames: 0 }
    }

    /// The reserve now.
    #[must_use]
    pub fn frames(&self) -> u64 {
        (self.floor() + self.extra_frames).min((self.budget_frames / 2).max(1))
    }

    /// What remains for the keep-set.
    #[must_use]
    pub fn keep_frames(&self) -> u64 {
        self.budget_frames - self.frames().min(self.budget_frames)
    }

    /// Follows a changed budget.
    pub fn set_budget(&mut self, budget_frames: u64) {
        self.budget_frames = budget_frames;
        self.extra_frames = self.extra_frames.min(budget_frames / 2);
    }

    /// Passing segments needed `frames` more than there were.
    pub fn grow(&mut self, frames: u64) {
        self.extra_frames = (self.extra_frames + frames).min(self.budget_frames / 2);
    }

    /// To be called once per half-life.
    pub fn relax(&mut self) {
        self.extra_frames -= self.extra_frames.div_ceil(8);
    }

    /// A sixteenth of the budget, but enough for a few readers' windows and never more than a quarter.
    fn floor(&self) -> u64 {
        (self.budget_frames / 16).clamp(FLOOR_FRAMES_MIN, FLOOR_FRAMES_MAX).min(self.budget_frames / 4)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_stays_between_its_bounds() {
        for budget in [0, 1, 2, 3, 8, 100, 10_000] {
            let mut reserve = StreamReserve::new(budget);
            let floor = reserve.frames();
            reserve.grow(1 << 40);
            assert!(reserve.frames() <= (budget / 2).max(1));
            assert!(reserve.keep_frames() <= budget);
            for _ in 0..1000 {
                reserve.relax();
            }
            assert_eq!(reserve.frames(), floor);
        }
        assert_eq!(StreamReserve::new(10_000).frames(), FLOOR_FRAMES_MAX);
    }
}
