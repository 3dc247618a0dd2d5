//! Access rates per page from samples: two decayed sums per page, and how far to trust a page's own figure.
//!
//! The slow sum is precise and the fast one is current: where they disagree by more than chance, the fast one counts.
//! Rates of counted samples are then drawn towards their mean as far as their spread is no larger than chance (a Poisson
//! count's), so pages that only look hot are not moved.

use super::PageSample;

/// Half-life of the fast sum.
const FAST_NS: f64 = 1e9;
/// Half-life of the slow sum.
const SLOW_NS: f64 = 8e9;
/// Rates are computed again after this time.
const REFRESH_NS: f64 = 5e7;
/// The sums are kept multiplied by a growing scale, so that decay costs nothing per page; they are scaled back here.
const SCALE_MAX: f64 = 1e6;

#[derive(Debug, Clone)]
struct Decayed {
    sums: Vec<f32>,
    half_life_ns: f64,
    scale: f64,
}

impl Decayed {
    fn new(half_life_ns: f64) -> Self {
        Self { sums: Vec::new(), half_life_ns, scale: 1.0 }
    }

    fn pass(&mut self, elapsed_ns: f64) {
        self.scale *= (elapsed_ns / self.half_life_ns).exp2();
        if self.scale > SCALE_MAX {
            let back = (1.0 / self.scale) as f32;
            self.sums.iter_mut().for_each(|sum| *sum *= back);
            self.scale = 1.0;
        }
    }

    /// The time that the sum covers.
    fn window_ns(&self, age_ns: f64) -> f64 {
        let whole = self.half_life_ns / std::f64::consts::LN_2;
        (whole * (1.0 - (-age_ns / whole).exp())).max(1.0)
    }
}

/// Rates of all pages.
#[derive(Debug, Clone)]
pub struct Heat {
    fast: Decayed,
    slow: Decayed,
    age_ns: f64,
    rates: Vec<f32>,
    /// How old `rates` are.
    stale_ns: f64,
    /// Whether rates are drawn to their mean.
    is_drawn: bool,
}

impl Default for Heat {
    fn default() -> Self {
        Self {
            fast: Decayed::new(FAST_NS),
            slow: Decayed::new(SLOW_NS),
            age_ns: 0.0,
            rates: Vec::new(),
            stale_ns: f64::INFINITY,
            is_drawn: true,
        }
    }
}

impl Heat {
    /// For weights that are no counts, such as access bits: chance says nothing about their mean.
    #[must_use]
    pub fn of_relative_weights() -> Self {
        Self { is_drawn: false, ..Self::default() }
    }

    /// Forgets all counts: the pages that were hot are not the ones that are.
    pub fn forget(&mut self) {
        *self = Self { is_drawn: self.is_drawn, ..Self::default() };
    }

    /// Takes in a quantum's samples; those of pages beyond `pages` are passed over.
    pub fn add(&mut self, pages: usize, samples: &[PageSample], elapsed_ns: f64) {
        self.age_ns += elapsed_ns;
        self.stale_ns += elapsed_ns;
        for decayed in [&mut self.fast, &mut self.slow] {
            decayed.sums.resize(pages, 0.0);
            decayed.pass(elapsed_ns);
        }
        let (fast, slow) = (self.fast.scale as f32, self.slow.scale as f32);
        for sample in samples {
            let at = sample.page as usize;
            if let (Some(now), Some(then)) = (self.fast.sums.get_mut(at), self.slow.sums.get_mut(at)) {
                *now += sample.weight as f32 * fast;
                *then += sample.weight as f32 * slow;
            }
        }
    }

    /// The time that the slow sums cover.
    #[must_use]
    pub fn window_ns(&self) -> f64 {
        self.slow.window_ns(self.age_ns)
    }

    /// Weight per ns of each page.
    pub fn rates(&mut self) -> &[f32] {
        if self.stale_ns < REFRESH_NS && self.rates.len() == self.fast.sums.len() {
            return &self.rates;
        }
        self.stale_ns = 0.0;
        let back = [(1.0 / self.fast.scale) as f32, (1.0 / self.slow.scale) as f32];
        let fast = self.fast.window_ns(self.age_ns) as f32;
        let slow = self.slow.window_ns(self.age_ns) as f32;
        let part = fast / slow;
        self.rates.clear();
        self.rates.extend(self.fast.sums.iter().zip(&self.slow.sums).map(|(now, then)| {
            let (now, then) = (now * back[0], then * back[1]);
            let apart = now - then * part;
            // Three deviations of a Poisson count are no chance.
            if apart * apart > 9.0 * ((then * part).max(now) + 1.0) { now / fast } else { then / slow }
        }));
        if self.is_drawn {
            self.draw_to_mean(f64::from(slow));
        }
        &self.rates
    }

    fn draw_to_mean(&mut self, window_ns: f64) {
        let count = self.rates.len().max(1) as f64;
        let (mut sum, mut squares) = (0.0_f64, 0.0_f64);
        for part in self.rates.chunks(64) {
            sum += f64::from(part.iter().sum::<f32>());
            squares += f64::from(part.iter().map(|rate| rate * rate).sum::<f32>());
        }
        let mean = sum / count;
        let variance = squares / count - mean * mean;
        let by_chance = mean / window_ns;
        let trust = if variance > by_chance { (1.0 - by_chance / variance) as f32 } else { 0.0 };
        let mean = mean as f32;
        self.rates.iter_mut().for_each(|rate| *rate = (trust * (*rate - mean) + mean).max(0.0));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn samples(pages: impl Iterator<Item = u32>) -> Vec<PageSample> {
        pages.map(|page| PageSample { page, tier: 0, weight: 1.0 }).collect()
    }

    #[test]
    fn a_page_that_became_hot_is_seen_within_two_seconds() {
        let mut heat = Heat::default();
        for step in 0..200 {
            let hot = if step < 180 { 0..10 } else { 10..20 };
            heat.add(40, &samples(hot.flat_map(|page| [page; 2])), 1e8);
        }
        let rates = heat.rates();
        assert!(rates[12] > rates[2] && rates[12] > 5.0 * rates[30], "{rates:?}");
    }

    #[test]
    fn chance_does_not_make_a_page_hot() {
        let mut heat = Heat::default();
        // Counts as even as chance makes them: a third of the pages per quantum, by a fixed sequence.
        let mut state = 1_u32;
        for _ in 0..300 {
            let mut next = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                (state >> 8) % 300
            };
            let seen: Vec<u32> = (0..100).map(|_| next()).collect();
            heat.add(300, &samples(seen.into_iter()), 1e7);
        }
        let rates = heat.rates();
        let (low, high) =
            rates.iter().fold((f32::MAX, 0.0_f32), |(low, high), r| (low.min(*r), high.max(*r)));
        assert!(high < 2.0 * low, "{low} to {high}");
    }
}
