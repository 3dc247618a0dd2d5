//! `HeMem`: sampled accesses, hot at eight samples, hot pages into the default tier; with or without Colloid.

use super::colloid::{first, select};
use super::{Balance, Form, Layout, Move, PageShares, Quantum, Room, Smoothed, Tier, TierPolicy, Tracking};

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
    /// Bytes that the dynamic limit has allowed and that have not been moved.
    allowed: f64,
}

impl HeMem {
    /// `form`: how Colloid is to find its shift; `None` for `HeMem` alone.
    #[must_use]
    pub fn new(layout: Layout, form: Option<Form>) -> Self {
        let seen = Smoothed::new(2, 0.2);
        Self { layout, heat: Vec::new(), seen, balance: form.map(Balance::new), allowed: 0.0 }
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

    /// The pages of a tier that are hot, or those that are not.
    fn pages(&self, quantum: &Quantum<'_>, tier: Tier, hot: bool) -> Vec<u32> {
        select(quantum.residency, &self.heat, tier, |heat| (heat >= HOT) == hot)
    }

    fn colloid(&mut self, quantum: &Quantum<'_>, pages_max: usize, room: &mut Room) {
        let (Some(pair), Some(balance)) = (self.seen.pair(), &mut self.balance) else { return };
        let shift = balance.step(&pair);
        // Less than a page is kept for later.
        let page = self.layout.page_bytes.max(1) as f64;
        let most = page * pages_max as f64;
        self.allowed = (self.allowed + shift.bytes_max(&pair, quantum.elapsed_ns)).min(most + page);
        let pages = ((self.allowed / page) as usize).min(pages_max);
        if pages > 0 {
            let before = room.count();
            PageShares::new(&self.heat, HOT * 0.5).shift(quantum, shift, pages, room);
            self.allowed = (self.allowed - page * (room.count() - before) as f64).max(0.0);
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
        let pages_max = PAGES_MAX.min((quantum.move_bytes_max / self.layout.page_bytes.max(1)) as usize);
        if self.balance.is_some() {
            let mut room = Room::new(&self.layout, quantum);
            self.colloid(quantum, pages_max, &mut room);
            return room.moves();
        }
        let mut hot = self.pages(quantum, 1, true);
        if hot.is_empty() {
            return Vec::new();
        }
        let mut room = Room::new(&self.layout, quantum);
        first(&mut hot, pages_max, |page| -self.heat[page as usize]);
        let mut outs = self.pages(quantum, 0, false);
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
