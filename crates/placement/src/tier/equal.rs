//! `equal`: N tiers, the latency of the slowest and the fastest made equal, and no move that does not pay.
//!
//! For trackers whose weights are relative, such as access bits: they cannot tell how fast the application is, which
//! the search of `warm` needs. Each page has two decayed rates. The slow one is precise and the fast one is current:
//! where they disagree by more than chance, the fast one counts. A shift starts when latencies differ by more than the
//! outer band and ends at the inner one, so a balanced machine is left alone. A page moves only if the time that its
//! accesses are going to save within `HORIZON_NS` exceeds what copying it costs.

use super::colloid::first;
use super::{Layout, Move, Quantum, Room, Smoothed, Tier, TierPolicy, Tracking};

/// A shift starts at this difference, as a part of the lower latency.
const BAND_OUTER: f64 = 0.05;
/// A shift ends at this difference.
const BAND_INNER: f64 = 0.01;
/// A move must pay for itself within this time.
const HORIZON_NS: f64 = 20e9;
/// Half-lives of the two rates.
const FAST_NS: f64 = 1e9;
/// The slow one's.
const SLOW_NS: f64 = 8e9;
/// The bytes of an access.
const LINE_BYTES: f64 = 64.0;
/// Copies in flight per page: a copy's lines overlap, so a copy takes that much less than its lines' latencies.
const COPY_OVERLAP: f64 = 2.0;
/// Of the share that would equalise the latencies, the part shifted in one quantum.
const STEP: f64 = 0.5;

/// The policy.
#[derive(Debug)]
pub struct Equal {
    layout: Layout,
    fast: Vec<f32>,
    slow: Vec<f32>,
    heat: Vec<f32>,
    seen: Smoothed,
    age_ns: f64,
    shifting: bool,
}

impl Equal {
    /// Nothing known.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let seen = Smoothed::new(layout.capacity_pages.len(), 0.3);
        let none = Vec::new;
        Self { layout, fast: none(), slow: none(), heat: none(), seen, age_ns: 0.0, shifting: false }
    }

    /// Rates per page in samples per ns. The decayed sums are divided by the time that they cover.
    fn count(&mut self, quantum: &Quantum<'_>) {
        for heat in [&mut self.fast, &mut self.slow, &mut self.heat] {
            heat.resize(quantum.residency.len(), 0.0);
        }
        let elapsed = quantum.elapsed_ns as f64;
        self.age_ns += elapsed;
        let decay = |half_life: f64| (-elapsed * std::f64::consts::LN_2 / half_life).exp() as f32;
        let (fast, slow) = (decay(FAST_NS), decay(SLOW_NS));
        self.fast.iter_mut().for_each(|sum| *sum *= fast);
        self.slow.iter_mut().for_each(|sum| *sum *= slow);
        for sample in quantum.samples {
            if let Some(sum) = self.fast.get_mut(sample.page as usize) {
                *sum += sample.weight as f32;
                self.slow[sample.page as usize] += sample.weight as f32;
            }
        }
        let window = |half_life: f64| {
            let whole = half_life / std::f64::consts::LN_2;
            (whole * (1.0 - (-self.age_ns / whole).exp())) as f32
        };
        let (fast, slow) = (window(FAST_NS), window(SLOW_NS));
        for ((heat, now), then) in self.heat.iter_mut().zip(&self.fast).zip(&self.slow) {
            // The fast sum is Poisson: three deviations from what the slow rate lets expect is no chance.
            let expected = then / slow * fast;
            let chance = 3.0 * (expected.max(*now) + 1.0).sqrt();
            *heat = if (now - expected).abs() > chance { now / fast } else { then / slow };
        }
    }

    /// Tiers whose latency is known, fastest first.
    fn order(&self) -> Vec<(Tier, f64)> {
        let mut order: Vec<(Tier, f64)> = (0..self.layout.capacity_pages.len())
            .filter_map(|at| Some((Tier::try_from(at).ok()?, self.seen.tier(at)?.1)))
            .collect();
        order.sort_by(|a, b| a.1.total_cmp(&b.1));
        order
    }

    /// Moves heat from one tier to a faster one.
    fn shift(
        &self,
        quantum: &Quantum<'_>,
        (to, low): (Tier, f64),
        (from, high): (Tier, f64),
        room: &mut Room,
    ) {
        let all: f64 = self.heat.iter().map(|heat| f64::from(*heat)).sum();
        let most = (quantum.move_bytes_max / self.layout.page_bytes.max(1)) as usize;
        let lines = self.layout.page_bytes as f64 / LINE_BYTES;
        let cost = lines * (low + high) / COPY_OVERLAP;
        let pays = |gain: f64| gain * quantum.accesses_per_weight * (high - low) * HORIZON_NS > cost;
        let heat = |page: u32| self.heat[page as usize];
        let at = |tier: Tier| -> Vec<u32> {
            let pages = (0_u32..).zip(quantum.residency);
            pages.filter(|(_, at)| **at == tier).map(|(page, _)| page).collect()
        };
        let mut hot = at(from);
        first(&mut hot, most, |page| -heat(page));
        if hot.first().is_none_or(|page| !pays(f64::from(heat(*page)))) {
            return;
        }
        let mut outs = Vec::new();
        if room.into_tier(to) < hot.len() as u64 {
            outs = at(to);
            first(&mut outs, most, heat);
        }
        let mut outs = outs.into_iter().peekable();
        let mut left = all * STEP * (high - low) / (high + low);
        for page in hot {
            let full = room.into_tier(to) == 0;
            let against = outs.peek().filter(|_| full).map_or(0.0, |out| f64::from(heat(*out)));
            let gain = f64::from(heat(page)) - against;
            if gain > left || !pays(gain) || !room.bring(page, from, to, &mut outs) {
                break;
            }
            left -= gain;
        }
    }
}

impl TierPolicy for Equal {
    fn name(&self) -> &'static str {
        "equal"
    }

    fn quantum_ns(&self) -> u64 {
        10_000_000
    }

    fn tracking(&self) -> Tracking {
        Tracking::Samples { period: 5003 }
    }

    fn decide(&mut self, quantum: &Quantum<'_>) -> Vec<Move> {
        self.count(quantum);
        self.seen.add(quantum.tiers);
        let order = self.order();
        let (Some(&low), Some(&high)) = (order.first(), order.last()) else { return Vec::new() };
        let gap = (high.1 - low.1) / low.1;
        self.shifting = gap > if self.shifting { BAND_INNER } else { BAND_OUTER };
        let mut room = Room::new(&self.layout, quantum);
        if self.shifting {
            // Into the fastest tier, from the slowest first; a middle one is next where the slowest has nothing to give.
            for &slower in order.iter().skip(1).rev() {
                if (slower.1 - low.1) / low.1 > BAND_INNER {
                    self.shift(quantum, low, slower, &mut room);
                }
            }
        }
        room.moves()
    }
}
