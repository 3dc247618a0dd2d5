//! TPP: pages whose hint fault comes soon are promoted, and the least recently used ones make room.
//!
//! With Colloid, a fault's page share is 1 / (delay · rate), and it moves towards the tier with the lower latency if
//! its share is below what is left to shift. This is the paper's form: the published code only gates promotion, and
//! a gate alone does not move hot pages out of a tier that became slow.

use super::colloid::first;
use super::{Balance, Form, Layout, Move, Quantum, Room, Shift, Smoothed, TierPolicy, Tracking};

/// A page is hot if it is accessed within this time after the scan; adapted between an eighth and twice of this.
const THRESHOLD_NS: f32 = 1e9;
/// The threshold is adapted by an eighth this often.
const ADAPT_NS: u64 = 60_000_000_000;
/// As many bytes per second of hot pages are aimed at; the kernel's default.
const PROMOTED_BYTES_PER_S: f64 = 65_536.0 * 1_048_576.0;
/// Never seen: as cold as it gets.
const NEVER_NS: f32 = f32::MAX;
/// Small pages in a page: the scan sees a small page's delay, a move takes the whole.
const SMALL_PAGE_BYTES: f64 = 4096.0;

/// The policy.
#[derive(Debug)]
pub struct Tpp {
    layout: Layout,
    delay_ns: Vec<f32>,
    threshold_ns: f32,
    hot_bytes: f64,
    adapted_ns: u64,
    seen: Smoothed,
    balance: Option<Balance>,
}

impl Tpp {
    /// `form`: how Colloid is to find its shift; `None` for TPP alone.
    #[must_use]
    pub fn new(layout: Layout, form: Option<Form>) -> Self {
        let seen = Smoothed::new(2, 0.5);
        let balance = form.map(Balance::new);
        let delay_ns = Vec::new();
        Self { layout, delay_ns, threshold_ns: THRESHOLD_NS, hot_bytes: 0.0, adapted_ns: 0, seen, balance }
    }

    /// More candidates than the promotion limit lets through lower the threshold, fewer raise it.
    fn adapt(&mut self, quantum: &Quantum<'_>) {
        let hot = quantum.samples.iter().filter(|sample| (sample.weight as f32) <= self.threshold_ns);
        let far = hot.filter(|sample| sample.tier != 0);
        self.hot_bytes += far.count() as f64 * self.layout.page_bytes as f64;
        let since = quantum.now_ns.saturating_sub(self.adapted_ns);
        if since < ADAPT_NS {
            return;
        }
        let wanted = PROMOTED_BYTES_PER_S * since as f64 / 1e9;
        let step = THRESHOLD_NS / 8.0;
        if self.hot_bytes > 1.1 * wanted {
            self.threshold_ns = (self.threshold_ns - step).max(step);
        } else if self.hot_bytes < 0.9 * wanted {
            self.threshold_ns = (self.threshold_ns + step).min(2.0 * THRESHOLD_NS);
        }
        self.hot_bytes = 0.0;
        self.adapted_ns = quantum.now_ns;
    }

    fn coldest(&self, quantum: &Quantum<'_>, most: usize) -> Vec<u32> {
        let mut outs: Vec<u32> =
            (0_u32..).zip(quantum.residency).filter(|(_, at)| **at == 0).map(|(page, _)| page).collect();
        first(&mut outs, most, |page| -self.delay_ns[page as usize]);
        outs
    }

    fn wanted(&self, page: u32, tier: u8, shift: Option<Shift>, left: &mut f64, rate: f64) -> bool {
        let Some(shift) = shift else { return tier == 1 };
        if shift.promote != (tier == 1) {
            return false;
        }
        let small_pages = self.layout.page_bytes as f64 / SMALL_PAGE_BYTES;
        let share = small_pages / (f64::from(self.delay_ns[page as usize]).max(1.0) * rate);
        if share > *left {
            return false;
        }
        *left -= share;
        true
    }
}

impl TierPolicy for Tpp {
    fn name(&self) -> &'static str {
        if self.balance.is_some() { "tpp+colloid" } else { "tpp" }
    }

    fn quantum_ns(&self) -> u64 {
        500_000_000
    }

    fn tracking(&self) -> Tracking {
        Tracking::HintFaults { scan_bytes_per_s: 256 << 20 }
    }

    fn decide(&mut self, quantum: &Quantum<'_>) -> Vec<Move> {
        self.delay_ns.resize(quantum.residency.len(), NEVER_NS);
        self.seen.add(quantum.tiers);
        self.adapt(quantum);
        for sample in quantum.samples {
            if let Some(delay) = self.delay_ns.get_mut(sample.page as usize) {
                let now = sample.weight as f32;
                *delay = if *delay < self.threshold_ns { f32::midpoint(*delay, now) } else { now };
            }
        }
        let mut shift = None;
        let mut rate = 1.0;
        if let Some(balance) = &mut self.balance {
            let Some(pair) = self.seen.pair() else { return Vec::new() };
            shift = Some(balance.step(&pair));
            rate = pair.rate_default + pair.rate_alternate;
        }
        let mut left = shift.map_or(0.0, |shift| shift.share);
        let mut room = Room::new(&self.layout, quantum);
        let mut outs = self.coldest(quantum, quantum.samples.len()).into_iter().peekable();
        for sample in quantum.samples {
            let page = sample.page;
            let Some(&tier) = quantum.residency.get(page as usize) else { continue };
            let delay = self.delay_ns[page as usize];
            if tier > 1 || delay > self.threshold_ns || !self.wanted(page, tier, shift, &mut left, rate) {
                continue;
            }
            if tier == 0 {
                room.take(page, 0, 1);
            } else if room.into_tier(0) > 0 {
                room.take(page, 1, 0);
            } else if outs.peek().is_some_and(|out| self.delay_ns[*out as usize] > delay) {
                room.bring(page, 1, 0, &mut outs);
            }
        }
        room.moves()
    }
}
