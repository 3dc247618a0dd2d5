//! `equal`: N tiers, the latency of the slowest and the fastest made equal, and no move that does not pay.
//!
//! For trackers whose weights are relative, such as access bits: they cannot tell how fast the application is, which
//! the search of `warm` needs. A shift starts when latencies differ by more than the
//! outer band and ends at the inner one, so a balanced machine is left alone. A page moves only if the time that its
//! accesses are going to save within `HORIZON_NS` exceeds what copying it costs.

use super::colloid::{first, select, sum};
use super::{Heat, LINE_BYTES, Layout, Move, Quantum, Room, Smoothed, Tier, TierPolicy, Tracking};

/// A shift starts at this difference, as a part of the lower latency.
const BAND_OUTER: f64 = 0.05;
/// A shift ends at this difference.
const BAND_INNER: f64 = 0.01;
/// A move must pay for itself within this time.
const HORIZON_NS: f64 = 20e9;
/// Copies in flight per page: a copy's lines overlap, so a copy takes that much less than its lines' latencies.
const COPY_OVERLAP: f64 = 2.0;
/// Of the share that would equalise the latencies, the part shifted in one quantum.
const STEP: f64 = 0.5;

/// The policy.
#[derive(Debug)]
pub struct Equal {
    layout: Layout,
    heat: Heat,
    seen: Smoothed,
    shifting: bool,
}

impl Equal {
    /// Nothing known.
    #[must_use]
    pub fn new(layout: Layout) -> Self {
        let seen = Smoothed::new(layout.tiers, 0.3);
        Self { layout, heat: Heat::of_relative_weights(), seen, shifting: false }
    }

    /// Moves heat from one tier to a faster one.
    fn shift(
        &mut self,
        quantum: &Quantum<'_>,
        (to, low): (Tier, f64),
        (from, high): (Tier, f64),
        room: &mut Room,
    ) {
        let most = (quantum.move_bytes_max / self.layout.page_bytes.max(1)) as usize;
        let lines = self.layout.page_bytes as f64 / LINE_BYTES;
        let cost = lines * (low + high) / COPY_OVERLAP;
        let pays = |gain: f64| gain * quantum.accesses_per_weight * (high - low) * HORIZON_NS > cost;
        let rates = self.heat.rates();
        let heat = |page: u32| rates[page as usize];
        let at = |tier: Tier| select(quantum.residency, rates, tier, |_| true);
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
        let mut left = sum(rates) * STEP * (high - low) / (high + low);
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

    fn tiers_max(&self) -> usize {
        usize::MAX
    }

    fn decide(&mut self, quantum: &Quantum<'_>) -> Vec<Move> {
        self.heat.add(quantum.residency.len(), quantum.samples, quantum.elapsed_ns as f64);
        self.seen.add(quantum.tiers);
        let order = self.seen.by_latency();
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
