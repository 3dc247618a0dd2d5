//! `HeMem`: sampled accesses, hot at eight samples, hot pages into the default tier; with or without Colloid.

use super::colloid::first;
use super::{Balance, Form, Layout, Move, PageShares, Quantum, Room, Smoothed, TierPolicy, Tracking};

/// A page is hot from this many samples on.
const HOT: f32 = 8.0;
/// All counts are halved when one passes this.
const COOL: f32 = 18.0;
/// Pages moved at most in a quantum.
const PAGES_MAX: usize = 50;

/// The policy.
#[derive(Debug)]
pub struct HeMem {
    layout: Layout,
    heat: Vec<f32>,
    seen: Smoothed,
    balance: Option<Balance>,
}

impl HeMem {
    /// `form`: how Colloid is to find its shift; `None` for `HeMem` alone.
    #[must_use]
    pub fn new(layout: Layout, form: Option<Form>) -> Self {
        Self { layout, heat: Vec::new(), seen: Smoothed::new(2, 0.2), balance: form.map(Balance::new) }
    }

    fn count(&mut self, quantum: &Quantum<'_>) {
        self.heat.resize(quantum.residency.len(), 0.0);
        let mut cool = false;
        for sample in quantum.samples {
            let Some(heat) = self.heat.get_mut(sample.page as usize) else { continue };
            *heat += sample.weight as f32;
            cool |= *heat > COOL;
        }
        if cool {
            self.heat.iter_mut().for_each(|heat| *heat *= 0.5);
        }
    }
}

impl TierPolicy for HeMem {
    fn name(&self) -> &'static str {
        if self.balance.is_some() { "hemem+colloid" } else { "hemem" }
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
        let mut room = Room::new(&self.layout, quantum);
        let pages_max = PAGES_MAX.min((quantum.move_bytes_max / self.layout.page_bytes.max(1)) as usize);
        if let Some(balance) = &mut self.balance {
            if let Some(pair) = self.seen.pair() {
                let shift = balance.step(&pair);
                PageShares::new(&self.heat, HOT * 0.5).shift(quantum, shift, pages_max, &mut room);
            }
            return room.moves();
        }
        let pages = |tier, hot: bool| -> Vec<u32> {
            (0_u32..)
                .zip(quantum.residency)
                .filter(|&(page, &at)| at == tier && (self.heat[page as usize] >= HOT) == hot)
                .map(|(page, _)| page)
                .collect()
        };
        let mut hot = pages(1, true);
        if hot.is_empty() {
            return Vec::new();
        }
        first(&mut hot, pages_max, |page| -self.heat[page as usize]);
        let mut outs = pages(0, false);
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
