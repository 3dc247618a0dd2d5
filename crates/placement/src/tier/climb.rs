//! The search for the split of accesses over two tiers at which the application is fastest.
//!
//! Equal latencies are near that split and are found quickly; the fastest split is where moving one access more from
//! one tier to the other changes nothing, which latencies alone do not show. So a step is judged by its effect: move
//! a share, let the copies' own traffic pass, measure, and compare with the measurement before.

/// The smallest share worth a step.
const STEP_MIN: f64 = 0.02;
/// The share that a step begins with when no better is known.
const STEP_FIRST: f64 = 0.1;
/// Copies' traffic is over after this time.
const SETTLE_NS: f64 = 2e7;
/// How long a measurement takes at least, and at most.
const MEASURE_NS: [f64; 2] = [4e8, 4e9];
/// How many samples it needs for half a percent of deviation, and for less after a small step.
const SAMPLES: [f64; 2] = [4e4, 1.2e5];
/// While a long step is under way it is judged this often.
const WATCH_NS: f64 = 5e8;
/// Deviations of the measurement by which a step under way has to be worse for it to be stopped.
const WATCH_DEVIATIONS: f64 = 3.0;

/// A mean with the weight it rests on.
#[derive(Debug, Clone, Copy, Default)]
struct Mean {
    sum: f64,
    time_ns: f64,
    count: f64,
}

impl Mean {
    fn add(&mut self, value: f64, count: f64, elapsed_ns: f64) {
        self.sum += value * elapsed_ns;
        self.time_ns += elapsed_ns;
        self.count += count;
    }

    fn value(&self) -> f64 {
        self.sum / self.time_ns.max(1.0)
    }

    /// The relative deviation of a rate that rests on `count` samples.
    fn deviation(&self) -> f64 {
        if self.count > 0.0 { self.count.sqrt().recip() } else { 0.0 }
    }
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Phase {
    /// A share is being moved.
    Move,
    /// It has been moved; the copies' traffic passes.
    Settle,
    /// The effect is measured.
    Measure,
    /// Nothing better was found nearby.
    Done,
}

/// The search for one pair of tiers.
#[derive(Debug, Clone)]
pub struct Climb {
    phase: Phase,
    /// Whether heat goes to the tier that was faster when the search began.
    up: bool,
    step: f64,
    left: f64,
    wait_ns: f64,
    now: Mean,
    /// The best seen while this step is under way.
    watched: f64,
    /// What was measured before this step.
    before: Option<f64>,
    turns: u32,
    /// Whether it began with a long step, which is judged under way.
    long: bool,
    /// The smallest step was no good and is being taken back.
    last: bool,
}

impl Climb {
    /// Begins with a step of the size that the difference of the latencies calls for, towards the faster tier; a search
    /// that repeats one begins with a small step.
    #[must_use]
    pub fn new(gap: f64, repeated: bool) -> Self {
        let step = if gap > 0.3 { 1.0 } else { STEP_FIRST * if repeated { 0.5 } else { 1.0 } };
        Self {
            phase: if gap > 0.3 { Phase::Move } else { Phase::Measure },
            up: true,
            step,
            left: step,
            wait_ns: 0.0,
            now: Mean::default(),
            watched: 0.0,
            before: None,
            turns: 0,
            long: gap > 0.3,
            last: false,
        }
    }

    /// What is to be moved in this quantum: towards the faster tier or away from it, and the share.
    #[must_use]
    pub fn wanted(&self) -> Option<(bool, f64)> {
        (self.phase == Phase::Move && self.left > 0.0).then_some((self.up, self.left))
    }

    /// Whether nothing better was found nearby.
    #[must_use]
    pub fn done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// Whether the machine is at rest and is being measured.
    #[must_use]
    pub fn measures(&self) -> bool {
        self.phase == Phase::Measure
    }

    /// Says what was moved; `more` is whether there is more that is worth moving.
    pub fn moved(&mut self, share: f64, more: bool) {
        self.left -= share;
        if self.phase == Phase::Move && (self.left < STEP_MIN * 0.1 || !more) {
            self.phase = if self.last { Phase::Done } else { Phase::Settle };
            self.wait_ns = SETTLE_NS;
            if self.last {
                return;
            }
            // Nothing moved at all: this direction is at its end.
            if self.left >= self.step {
                self.turn();
            }
        }
    }

    /// Takes in how fast the application was in a quantum (larger is better) and on how many samples that rests.
    pub fn saw(&mut self, goodness: f64, count: f64, elapsed_ns: f64) {
        match self.phase {
            Phase::Done => {}
            Phase::Settle => {
                self.wait_ns -= elapsed_ns;
                if self.wait_ns <= 0.0 {
                    self.phase = Phase::Measure;
                    self.now = Mean::default();
                }
            }
            Phase::Move => {
                self.now.add(goodness, count, elapsed_ns);
                if self.now.time_ns >= WATCH_NS {
                    let value = self.now.value();
                    let worse = value < self.watched * (1.0 - WATCH_DEVIATIONS * self.now.deviation());
                    self.watched = self.watched.max(value);
                    self.now = Mean::default();
                    if worse {
                        self.step -= self.left;
                        self.left = 0.0;
                        self.phase = Phase::Settle;
                        self.wait_ns = SETTLE_NS;
                    }
                }
            }
            Phase::Measure => {
                self.now.add(goodness, count, elapsed_ns);
                let wanted = SAMPLES[usize::from(self.step < STEP_FIRST)];
                let time = self.now.time_ns;
                if time >= MEASURE_NS[1] || (time >= MEASURE_NS[0] && self.now.count >= wanted) {
                    self.judge();
                }
            }
        }
    }

    fn judge(&mut self) {
        let value = self.now.value();
        let before = self.before.replace(value);
        match before {
            // The first measurement, or the one after a long first step, which was judged under way.
            // A long step was judged under way; small ones now find the best nearby.
            None if self.long => self.turn_with(STEP_FIRST),
            None => self.go(self.step),
            Some(before) if value > before => {
                self.go(if self.turns == 0 { self.step * 2.0 } else { self.step });
            }
            Some(_) => self.turn(),
        }
    }

    fn turn(&mut self) {
        self.turn_with(self.step.min(2.0 * STEP_FIRST) * 0.5);
    }

    fn turn_with(&mut self, step: f64) {
        self.turns += 1;
        self.up = !self.up;
        self.last = step < STEP_MIN;
        self.go(if self.last { self.step - self.left.max(0.0) } else { step });
    }

    fn go(&mut self, step: f64) {
        self.step = step;
        self.left = step;
        self.phase = Phase::Move;
        self.now = Mean::default();
        self.watched = 0.0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search on a known curve whose best share is `best`; gives the share it ends at.
    fn search(best: f64, start: f64, gap: f64) -> f64 {
        let mut share = start;
        let mut climb = Climb::new(gap, false);
        for _ in 0..10_000 {
            if let Some((up, left)) = climb.wanted() {
                let step = left.min(0.005).min(if up { 1.0 - share } else { share });
                share += if up { step } else { -step };
                climb.moved(step, step > 1e-9);
            }
            climb.saw(1.0 - (share - best).powi(2), 1e6, 1e7);
            if climb.done() {
                break;
            }
        }
        assert!(climb.done());
        share
    }

    #[test]
    fn the_best_share_is_found_from_either_side_and_at_the_ends() {
        for (best, start, gap) in [
            (0.7, 0.05, 2.0),
            (0.7, 0.9, 0.4),
            (0.3, 0.5, 0.1),
            (1.0, 0.2, 0.5),
            (0.0, 0.1, 0.1),
            (0.5, 0.5, 0.0),
        ] {
            let found = search(best, start, gap);
            assert!((found - best).abs() < 0.1, "best {best} from {start}: {found}");
        }
    }
}
