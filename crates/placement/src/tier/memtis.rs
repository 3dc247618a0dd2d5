//! MEMTIS: a histogram of access counts sets the hot threshold so that hot pages fill the default tier.

use super::colloid::first;
use super::{Balance, Form, Layout, Move, PageShares, Quantum, Room, Smoothed, TierPolicy, Tracking};

/// Counts are halved after this many samples.
const COOLING_SAMPLES: f64 = 2_000_000.0;
/// Bins of the histogram: powers of two.
const BINS: usize = 16;
/// The part of the default tier that is kept free.
const RESERVE: f64 = 0.03;

/// With Colloid, moved at most in a quantum: 1,310,720 small pages.
const SHIFT_BYTES_MAX: f64 = 1_310_720.0 * 4096.0;

/// Sampling may take this part of a core.
const SAMPLING_PART: f64 = 0.03;
/// What a sample costs; assumed.
const SAMPLE_NS: f64 = 250.0;
/// The sampling period stays within these.
const PERIODS: [f64; 2] = [199.0, 100_003.0];

/// The policy. Pages are not split here: samples name pages, not parts of them. What splits cost is the simulator's.
#[derive(Debug)]
pub struct Memtis {
    layout: Layout,
    heat: Vec<f32>,
    samples: f64,
    period: f64,
    seen: Smoothed,
    balance: Option<Balance>,
}

impl Memtis {
    /// `form`: how Colloid is to find its shift; `None` for MEMTIS alone.
    #[must_use]
    pub fn new(layout: Layout, form: Option<Form>) -> Self {
        let seen = Smoothed::new(2, 0.7);
        Self { layout, heat: Vec::new(), samples: 0.0, period: 5003.0, seen, balance: form.map(Balance::new) }
    }

    /// Samples more or less often, by at most a fifth at a time, until they take their part of a core.
    fn adapt(&mut self, quantum: &Quantum<'_>) {
        let part = quantum.samples.len() as f64 * SAMPLE_NS / quantum.elapsed_ns.max(1) as f64;
        let wanted = self.period * (part / SAMPLING_PART).clamp(0.8, 1.25);
        if part > 0.0 && (part / SAMPLING_PART - 1.0).abs() > 0.05 {
            self.period = wanted.clamp(PERIODS[0], PERIODS[1]);
        }
    }

    fn count(&mut self, quantum: &Quantum<'_>) {
        self.heat.resize(quantum.residency.len(), 0.0);
        for sample in quantum.samples {
            if let Some(heat) = self.heat.get_mut(sample.page as usize) {
                *heat += sample.weight as f32;
                self.samples += sample.weight;
            }
        }
        if self.samples >= COOLING_SAMPLES {
            self.samples = 0.0;
            self.heat.iter_mut().for_each(|heat| *heat *= 0.5);
        }
    }

    /// The smallest bin such that the pages in it and above fit into the default tier.
    fn threshold(&self, quantum: &Quantum<'_>) -> usize {
        let room = quantum.capacity_pages.first().copied().unwrap_or(0) as f64 * (1.0 - RESERVE);
        let mut bins = [0_u64; BINS];
        self.heat.iter().for_each(|heat| bins[bin(*heat)] += 1);
        let mut above = 0;
        for at in (1..BINS).rev() {
            above += bins[at];
            if above as f64 > room {
                return (at + 1).min(BINS - 1);
            }
        }
        1
    }
}

fn bin(heat: f32) -> usize {
    (((heat + 1.0) as u32).max(1).ilog2() as usize).min(BINS - 1)
}

impl TierPolicy for Memtis {
    fn name(&self) -> &'static str {
        if self.balance.is_some() { "memtis+colloid" } else { "memtis" }
    }

    fn quantum_ns(&self) -> u64 {
        500_000_000
    }

    fn tracking(&self) -> Tracking {
        Tracking::Samples { period: self.period as u64 }
    }

    fn decide(&mut self, quantum: &Quantum<'_>) -> Vec<Move> {
        self.count(quantum);
        self.adapt(quantum);
        self.seen.add(quantum.tiers);
        let mut room = Room::new(&self.layout, quantum);
        let pages_max = (quantum.move_bytes_max / self.layout.page_bytes.max(1)) as usize;
        if let Some(balance) = &mut self.balance {
            if let Some(pair) = self.seen.pair() {
                let shift = balance.step(&pair);
                let bytes_max = shift.bytes_max(&pair, quantum.elapsed_ns).min(SHIFT_BYTES_MAX);
                let pages_max = pages_max.min((bytes_max / self.layout.page_bytes.max(1) as f64) as usize);
                PageShares::new(&self.heat, 2.0).shift(quantum, shift, pages_max, &mut room);
            }
            return room.moves();
        }
        let threshold = self.threshold(quantum);
        let pages = |tier, hot: bool| -> Vec<u32> {
            (0_u32..)
                .zip(quantum.residency)
                .filter(|&(page, &at)| at == tier && (bin(self.heat[page as usize]) >= threshold) == hot)
                .map(|(page, _)| page)
                .collect()
        };
        let (mut hot, mut outs) = (pages(1, true), pages(0, false));
        first(&mut hot, pages_max, |page| -self.heat[page as usize]);
        first(&mut outs, pages_max, |page| self.heat[page as usize]);
        let mut outs = outs.into_iter();
        for page in hot {
            if !room.bring(page, 1, 0, &mut outs) {
                break;
            }
        }
        room.moves()
    }
}
