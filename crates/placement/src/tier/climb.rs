//! The search for the split of accesses over two tiers at which the application is fastest.
//!
//! Equal latencies are near that split and are found quickly; the fastest split is where moving one access more from
//! one tier to the other changes nothing, which latencies alone do not show. So a step is judged by its effect: move
//! a share, let the copies' own traffic pass, measure. A parabola through all measurements nearby says where to go, and
//! that it is no use to go on once it promises less than what the measurements may be off.

/// The smallest share worth a step.
const STEP_MIN: f64 = 0.02;
/// The share that a step begins with when no better is known.
const STEP_FIRST: f64 = 0.1;
/// The largest step after the first.
const STEP_MAX: f64 = 0.4;
/// Measurements this far away say nothing about the curve here.
const NEAR: f64 = 0.35;
/// A step is taken only if it promises more than this part of the deviation of all measurements nearby.
const WORTH: f64 = 0.5;
/// Deviations from which on a slope, and a bend, is no chance.
const SURE: [f64; 2] = [1.0, 2.5];
/// A step is this short at least where it is worth it.
const STEP_WORTH_MIN: f64 = 0.005;
/// Looks at a long step under way before its curve says anything.
const LOOKS_MIN: usize = 5;
/// Measurements after which a search ends in any case.
const POINTS_MAX: usize = 16;
/// Copies' traffic is over after this time.
const SETTLE_NS: f64 = 2e7;
/// How long a measurement takes at least, and at most.
const MEASURE_NS: [f64; 2] = [4e8, 4e9];
/// How many samples it needs, for half a percent of deviation.
const SAMPLES: f64 = 5e4;
/// While a long step is under way it is judged this often.
const WATCH_NS: f64 = 5e8;
/// Deviations of the measurement by which a step under way has to be worse for it to be stopped.
const WATCH_DEVIATIONS: f64 = 3.5;

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
    /// Nothing better is to be expected nearby.
    Done,
}

/// A measurement.
#[derive(Debug, Clone, Copy)]
struct Point {
    /// The share moved up since the search began.
    at: f64,
    value: f64,
    count: f64,
}

/// The search for one pair of tiers.
#[derive(Debug, Clone)]
pub struct Climb {
    phase: Phase,
    /// Whether heat goes to the tier that was faster when the search began.
    up: bool,
    step: f64,
    /// The share that a step begins with when no better is known.
    first: f64,
    left: f64,
    wait_ns: f64,
    now: Mean,
    /// The best seen while this step is under way.
    watched: f64,
    points: Vec<Point>,
    /// The share moved up so far, and between which two more can be moved.
    at: f64,
    ends: [f64; 2],
    /// The first step is under way: a long one, which is judged on the way.
    sweeps: bool,
    /// It was stopped before its end, as it was no use any more.
    fell: bool,
    /// It went to its end, and was of use all the way.
    rose: bool,
    /// Copies are to leave the application alone: the long step is over.
    gentle: bool,
}

impl Climb {
    /// Begins with a step of the size that the difference of the latencies calls for, towards the faster tier; a search
    /// that repeats one begins with a small step.
    #[must_use]
    pub fn new(gap: f64, repeated: bool, first: f64) -> Self {
        let sweeps = gap > 0.3;
        let first = first.clamp(STEP_MIN, STEP_FIRST);
        let small = first.min(STEP_FIRST * if repeated { 0.5 } else { 1.0 });
        let step = if sweeps { 1.0 } else { small };
        Self {
            phase: if sweeps { Phase::Move } else { Phase::Measure },
            up: true,
            step,
            first,
            left: step,
            wait_ns: 0.0,
            now: Mean::default(),
            watched: 0.0,
            points: Vec::new(),
            at: 0.0,
            ends: [f64::NEG_INFINITY, f64::INFINITY],
            sweeps,
            fell: false,
            rose: false,
            gentle: repeated,
        }
    }

    /// What is to be moved in this quantum: towards the faster tier or away from it, and the share.
    #[must_use]
    pub fn wanted(&self) -> Option<(bool, f64)> {
        (self.phase == Phase::Move && self.left > 0.0).then_some((self.up, self.left))
    }

    /// Whether nothing better is to be expected nearby.
    #[must_use]
    pub fn done(&self) -> bool {
        self.phase == Phase::Done
    }

    /// For how long the machine has been at rest and measured, if it is.
    #[must_use]
    pub fn measured_ns(&self) -> Option<f64> {
        (self.phase == Phase::Measure).then_some(self.now.time_ns)
    }

    /// How far from where it began it has come.
    #[must_use]
    pub fn distance(&self) -> f64 {
        self.at.abs()
    }

    /// Whether the long first step is under way.
    #[must_use]
    pub fn sweeps(&self) -> bool {
        self.sweeps
    }

    /// Whether most is done already, so that pages are better moved slowly.
    #[must_use]
    pub fn is_gentle(&self) -> bool {
        self.gentle
    }

    /// Whether it ended because no more could be moved towards the faster tier.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.ends[1] - self.at < STEP_MIN || (self.rose && self.up)
    }

    /// Says what was moved; `more` is whether there is more that is worth moving.
    pub fn moved(&mut self, share: f64, more: bool) {
        self.left -= share;
        self.at += if self.up { share } else { -share };
        if self.phase == Phase::Move && (self.left < STEP_MIN * 0.1 || !more) {
            if self.left > STEP_MIN * 0.5 && !self.sweeps {
                self.ends[usize::from(self.up)] = self.at;
            }
            self.settle();
        }
    }

    fn settle(&mut self) {
        self.phase = Phase::Settle;
        self.wait_ns = SETTLE_NS;
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
                    let count = self.now.count;
                    self.now = Mean::default();
                    if worse || (self.sweeps && self.is_over_the_top(value, count)) {
                        self.fell = true;
                        self.settle();
                    }
                }
            }
            Phase::Measure => {
                self.now.add(goodness, count, elapsed_ns);
                let time = self.now.time_ns;
                if time >= MEASURE_NS[1] || (time >= MEASURE_NS[0] && self.now.count >= SAMPLES) {
                    self.judge();
                }
            }
        }
    }

    /// Takes in a look at a long step under way: whether the curve of the looks turns down here.
    fn is_over_the_top(&mut self, value: f64, count: f64) -> bool {
        self.points.push(Point { at: self.at, value, count });
        let (slope, bend) = self.curve();
        let on = if self.up { slope } else { -slope };
        self.near().count() >= LOOKS_MIN && bend < 0.0 && on <= 0.0
    }

    fn judge(&mut self) {
        if self.sweeps {
            let slope = if self.up { self.curve().0 } else { -self.curve().0 };
            self.rose = !self.fell && slope > 0.0 && self.near().count() >= LOOKS_MIN;
            // Copies slowed the application down all the way: those looks do not compare.
            self.points.clear();
        }
        self.points.push(Point { at: self.at, value: self.now.value(), count: self.now.count });
        if self.sweeps {
            // The long step was judged under way; small ones now find the best nearby.
            (self.sweeps, self.gentle) = (false, true);
            let on = if self.up { 1.0 } else { -1.0 };
            return self.go(self.first.min(STEP_FIRST * 0.5) * if self.fell { -on } else { on });
        }
        let last = if self.up { self.step } else { -self.step };
        let wanted = match self.points.len() {
            1 => last,
            // Straight on if that was better, else to the other side of where it began.
            2 if self.curve().0 * last > 0.0 => last,
            2 if self.rose => 0.0,
            2 if (self.points[1].at - self.points[0].at).abs() < STEP_WORTH_MIN => -last,
            2 => -2.0 * last,
            _ => self.best(),
        };
        let wanted = wanted.clamp((self.ends[0] - self.at).min(0.0), (self.ends[1] - self.at).max(0.0));
        let least = if self.points.len() < 3 { STEP_MIN } else { STEP_WORTH_MIN };
        if wanted.abs() < least || self.points.len() >= POINTS_MAX || !self.is_worth(wanted) {
            self.phase = Phase::Done;
        } else {
            self.go(wanted);
        }
    }

    /// The step to the best point of the curve, at most twice the last one.
    fn best(&self) -> f64 {
        let (slope, bend) = self.curve();
        let most = (2.0 * self.step).max(self.first.min(STEP_FIRST * 0.5)).min(if self.gentle {
            STEP_FIRST
        } else {
            STEP_MAX
        });
        if bend < 0.0 { (-0.5 * slope / bend).clamp(-most, most) } else { most.copysign(slope) }
    }

    /// Whether a step promises more than chance.
    fn is_worth(&self, step: f64) -> bool {
        let (slope, bend) = self.curve();
        let count: f64 = self.near().map(|point| point.count).sum();
        let value = self.points.last().map_or(0.0, |point| point.value);
        self.points.len() < 3 || slope * step + bend * step * step > WORTH * value / count.max(1.0).sqrt()
    }

    fn near(&self) -> impl Iterator<Item = &Point> {
        self.points.iter().filter(|point| (point.at - self.at).abs() <= NEAR)
    }

    /// The curve here, fitted to the measurements nearby: its slope and its bend, which is 0 where they show none.
    fn curve(&self) -> (f64, f64) {
        let (mut s, mut t) = ([0.0; 5], [0.0; 3]);
        for point in self.near() {
            let mut part = point.count.max(1.0);
            for (power, sum) in s.iter_mut().enumerate() {
                *sum += part;
                if let Some(sum) = t.get_mut(power) {
                    *sum += part * point.value;
                }
                part *= point.at - self.at;
            }
        }
        let minor = s[0] * s[2] - s[1] * s[1];
        if minor <= s[0] * s[0] * STEP_MIN * STEP_MIN * 0.01 {
            return (0.0, 0.0);
        }
        // A point's variance is its square over its count.
        let value = self.points.last().map_or(0.0, |point| point.value);
        let straight = (s[0] * t[1] - s[1] * t[0]) / minor;
        let is_sure = self.points.len() < 3 || straight.abs() > SURE[0] * value * (s[0] / minor).sqrt();
        let line = (if is_sure { straight } else { 0.0 }, 0.0);
        let mut places: Vec<f64> = self.near().map(|point| point.at).collect();
        places.sort_by(f64::total_cmp);
        places.dedup_by(|a, b| (*a - *b).abs() < STEP_MIN * 0.5);
        if places.len() < 3 {
            return line;
        }
        // Cramer's rule on the normal equations.
        let rows = [[s[0], s[1], s[2]], [s[1], s[2], s[3]], [s[2], s[3], s[4]]];
        let whole = determinant(rows);
        let with = |column: usize| {
            let mut rows = rows;
            rows.iter_mut().zip(t).for_each(|(row, value)| row[column] = value);
            determinant(rows) / whole
        };
        let bend = with(2);
        if bend < -SURE[1] * value * (minor / whole).abs().sqrt() { (with(1), bend) } else { line }
    }

    fn go(&mut self, step: f64) {
        self.up = step > 0.0;
        self.step = step.abs();
        self.left = self.step;
        self.phase = Phase::Move;
        self.now = Mean::default();
        self.watched = 0.0;
    }
}

fn determinant([a, b, c]: [[f64; 3]; 3]) -> f64 {
    a[0] * (b[1] * c[2] - b[2] * c[1]) - a[1] * (b[0] * c[2] - b[2] * c[0])
        + a[2] * (b[0] * c[1] - b[1] * c[0])
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Runs the search on a known curve whose best share is `best`; gives the share it ends at.
    fn search(best: f64, start: f64, gap: f64) -> f64 {
        let mut share = start;
        let mut climb = Climb::new(gap, false, STEP_FIRST);
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
