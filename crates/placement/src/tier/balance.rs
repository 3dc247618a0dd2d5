//! How much of the accesses should change tier so that latencies become equal: Colloid's two forms.

use super::{LINE_BYTES, Tier, TierCounters};

/// How the size of a shift is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// Two marks around the wanted share, halved like a binary search; with a dead band.
    Watermarks,
    /// In proportion to the difference of the occupancies; no dead band.
    Proportional,
}

/// The smoothed readings of two tiers.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Pair {
    /// Accesses per ns in the default tier.
    pub rate_default: f64,
    /// Accesses per ns in the alternate tier.
    pub rate_alternate: f64,
    /// Latency of the default tier.
    pub latency_default: f64,
    /// Latency of the alternate tier.
    pub latency_alternate: f64,
}

impl Pair {
    /// The share of accesses that the default tier serves.
    #[must_use]
    pub fn share(&self) -> f64 {
        let all = self.rate_default + self.rate_alternate;
        if all > 0.0 { self.rate_default / all } else { 0.0 }
    }
}

/// What should change.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Shift {
    /// Towards the default tier, or away from it.
    pub promote: bool,
    /// The share of all accesses that should change tier; 0 for nothing.
    pub share: f64,
}

impl Shift {
    /// The dynamic migration limit: no more bytes than the shifted accesses themselves read in the quantum.
    #[must_use]
    pub fn bytes_max(&self, pair: &Pair, elapsed_ns: u64) -> f64 {
        let rate = pair.rate_default + pair.rate_alternate;
        self.share * rate * LINE_BYTES * elapsed_ns as f64
    }
}

/// The state of the search for a balance.
#[derive(Debug, Clone)]
pub struct Balance {
    form: Form,
    low: f64,
    high: f64,
}

impl Balance {
    /// Latencies that differ by less than this part of the default tier's are equal.
    pub const DELTA: f64 = 0.05;
    /// Marks closer than this have met.
    pub const EPSILON: f64 = 0.01;

    /// Nothing known: the marks at 0 and 1.
    #[must_use]
    pub fn new(form: Form) -> Self {
        Self { form, low: 0.0, high: 1.0 }
    }

    /// The marks.
    #[must_use]
    pub fn marks(&self) -> (f64, f64) {
        (self.low, self.high)
    }

    /// Takes in a quantum's readings.
    pub fn step(&mut self, pair: &Pair) -> Shift {
        let promote = pair.latency_default < pair.latency_alternate;
        let share = match self.form {
            Form::Watermarks => self.by_watermarks(pair, promote),
            Form::Proportional => proportional(pair),
        };
        Shift { promote, share }
    }

    fn by_watermarks(&mut self, pair: &Pair, promote: bool) -> f64 {
        let p = pair.share();
        if (pair.latency_default - pair.latency_alternate).abs() < Self::DELTA * pair.latency_default {
            return 0.0;
        }
        if promote {
            self.low = p;
        } else {
            self.high = p;
        }
        if self.high - self.low < Self::EPSILON {
            if promote {
                self.high = 1.0;
            } else {
                self.low = 0.0;
            }
        }
        (f64::midpoint(self.low, self.high) - p).abs()
    }
}

fn proportional(pair: &Pair) -> f64 {
    if pair.rate_default <= 0.0 || pair.rate_alternate <= 0.0 {
        return if pair.latency_default == pair.latency_alternate { 0.0 } else { 1.0 };
    }
    let beta = pair.rate_default / pair.rate_alternate;
    let all = pair.rate_default + pair.rate_alternate;
    let over = pair.rate_default * (pair.latency_default - pair.latency_alternate).abs();
    over / (all * beta.mul_add(pair.latency_alternate, pair.latency_default))
}

/// Rates and latencies of all tiers, smoothed exponentially. A tier without a figure keeps its last one.
#[derive(Debug, Clone)]
pub struct Smoothed {
    gain: f64,
    tiers: Vec<Option<(f64, f64)>>,
}

impl Smoothed {
    /// `gain` is the weight of the newest quantum.
    #[must_use]
    pub fn new(tiers: usize, gain: f64) -> Self {
        Self { gain, tiers: vec![None; tiers] }
    }

    /// Changes the weight of the newest quantum, for quanta of another length.
    pub fn set_gain(&mut self, gain: f64) {
        self.gain = gain.clamp(0.0, 1.0);
    }

    /// Takes in a quantum. A figure that is no number or is negative is passed over.
    pub fn add(&mut self, counters: &[TierCounters]) {
        for (kept, new) in self.tiers.iter_mut().zip(counters) {
            let Some(latency) = new.latency_ns.filter(|latency| latency.is_finite() && *latency > 0.0) else {
                continue;
            };
            let rate = if new.rate_per_ns.is_finite() { new.rate_per_ns.max(0.0) } else { continue };
            let (old_rate, old_latency) = kept.unwrap_or((rate, latency));
            let mix = |old: f64, now: f64| self.gain.mul_add(now - old, old);
            *kept = Some((mix(old_rate, rate), mix(old_latency, latency)));
        }
    }

    /// Rate and latency of a tier, once known.
    #[must_use]
    pub fn tier(&self, tier: usize) -> Option<(f64, f64)> {
        self.tiers.get(tier).copied().flatten()
    }

    /// Tiers whose latency is known, fastest first.
    #[must_use]
    pub fn by_latency(&self) -> Vec<(Tier, f64)> {
        let mut order: Vec<(Tier, f64)> = (0..self.tiers.len())
            .filter_map(|at| Some((Tier::try_from(at).ok()?, self.tier(at)?.1)))
            .collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        order
    }

    /// Tier 0 against tier 1, once both are known.
    #[must_use]
    pub fn pair(&self) -> Option<Pair> {
        let (rate_default, latency_default) = self.tier(0)?;
        let (rate_alternate, latency_alternate) = self.tier(1)?;
        Some(Pair { rate_default, rate_alternate, latency_default, latency_alternate })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pair(share: f64, latency_default: f64, latency_alternate: f64) -> Pair {
        Pair { rate_default: share, rate_alternate: 1.0 - share, latency_default, latency_alternate }
    }

    #[test]
    fn within_the_dead_band_nothing_moves_and_the_marks_stay() {
        let mut balance = Balance::new(Form::Watermarks);
        assert!(balance.step(&pair(0.4, 100.0, 104.0)).share.abs() < 1e-12);
        assert_eq!(balance.marks(), (0.0, 1.0));
    }

    #[test]
    fn marks_close_in_on_a_fixed_balance() {
        // Latencies are equal at a share of 0.3.
        let mut balance = Balance::new(Form::Watermarks);
        let mut share = 0.95;
        for _ in 0..12 {
            let shift = balance.step(&pair(share, 100.0 + 200.0 * share, 160.0));
            share += if shift.promote { shift.share } else { -shift.share };
        }
        assert!((share - 0.3).abs() < 0.05, "{share}");
    }

    #[test]
    fn marks_that_met_open_again_on_the_side_that_is_wanted() {
        let mut balance = Balance { form: Form::Watermarks, low: 0.5, high: 0.505 };
        let shift = balance.step(&pair(0.502, 300.0, 100.0));
        assert_eq!(balance.marks(), (0.0, 0.502));
        assert!(!shift.promote && (shift.share - 0.251).abs() < 1e-9);
    }

    #[test]
    fn the_proportional_form_is_zero_only_at_equal_latencies() {
        let mut balance = Balance::new(Form::Proportional);
        assert!(balance.step(&pair(0.4, 100.0, 100.0)).share.abs() < 1e-12);
        let shift = balance.step(&pair(0.4, 102.0, 100.0));
        assert!(!shift.promote && shift.share > 0.0 && shift.share < 0.02);
    }

    #[test]
    fn a_shift_moves_no_more_bytes_than_its_accesses_read() {
        let shift = Shift { promote: true, share: 0.1 };
        // A tenth of 1 line per ns, for a microsecond.
        assert!((shift.bytes_max(&pair(0.4, 100.0, 200.0), 1000) - 6400.0).abs() < 1e-9);
    }

    #[test]
    fn figures_that_are_no_numbers_are_passed_over() {
        let mut smoothed = Smoothed::new(1, 0.5);
        smoothed.add(&[TierCounters { rate_per_ns: 1.0, latency_ns: Some(100.0) }]);
        for latency in [None, Some(f64::NAN), Some(-5.0)] {
            smoothed.add(&[TierCounters { rate_per_ns: 1.0, latency_ns: latency }]);
        }
        assert_eq!(smoothed.tier(0), Some((1.0, 100.0)));
    }
}
