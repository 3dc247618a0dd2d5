//! When a collection that was not due is worth asking for.
//!
//! Invariant: what is asked for takes at most a twentieth of the time, and a heap that gave nothing back is
//! asked less and less often.

use super::SplitTick;

/// A collection must save this many times its own cost within the horizon.
const GAIN_MIN: f64 = 2.0;
const HORIZON_NS: f64 = 60e9;

/// Until one was measured: nanoseconds per live byte, about a second per GiB.
const COST_NS_PER_LIVE_BYTE: u64 = 1;

/// Time between two of them, at least, in units of their cost.
const COST_SPACING: u64 = 20;

const PAUSE_TICKS_MIN: u32 = 5;
const PAUSE_TICKS_MAX: u32 = 640;

/// Ticks after which a heap has given back what it will; a concurrent cycle takes a few.
const VERDICT_TICKS: u32 = 3;

#[derive(Debug, Clone)]
pub(super) struct Asking {
    cost_ns: Option<u64>,
    waiting_for: Option<Asked>,
    /// Since the last one.
    ticks: u32,
    elapsed_ns: u64,
    pause_ticks: u32,
    /// The last one gave nothing back, but showed that less lives than was thought.
    learned: bool,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    committed_bytes: u64,
    live_bytes: u64,
    wanted_bytes: u64,
}

impl Default for Asking {
    fn default() -> Self {
        // The first one is not too soon after another.
        let elapsed_ns = u64::MAX;
        Self { cost_ns: None, waiting_for: None, ticks: 0, elapsed_ns, pause_ticks: 0, learned: false }
    }
}

impl Asking {
    /// `worth`: share of time that the wanted bytes would save. `over`: the heap has more than there is.
    pub fn decide(&mut self, tick: &SplitTick, worth: f64, wanted_bytes: u64, over: bool) -> bool {
        self.ticks = self.ticks.saturating_add(1);
        self.elapsed_ns = self.elapsed_ns.saturating_add(tick.elapsed_ns);
        if tick.asked_ns > 0 {
            self.cost_ns = Some(tick.asked_ns);
        }
        self.judge(tick);
        let cost_ns =
            self.cost_ns.unwrap_or(tick.heap_live_bytes.saturating_mul(COST_NS_PER_LIVE_BYTE)).max(1);
        let too_soon = self.waiting_for.is_some()
            || self.ticks < self.pause_ticks.max(PAUSE_TICKS_MIN)
            || self.elapsed_ns < cost_ns.saturating_mul(COST_SPACING);
        let pays = worth * HORIZON_NS >= GAIN_MIN * cost_ns as f64;
        if too_soon || !(pays || over) {
            return false;
        }
        self.waiting_for = Some(Asked {
            committed_bytes: tick.heap_committed_bytes,
            live_bytes: tick.heap_live_bytes,
            wanted_bytes,
        });
        (self.ticks, self.elapsed_ns) = (0, 0);
        true
    }

    /// Did the heap give back what it was asked for, or turn out to live on less than was thought?
    fn judge(&mut self, tick: &SplitTick) {
        let Some(asked) = self.waiting_for else { return };
        let returned = asked.committed_bytes.saturating_sub(tick.heap_committed_bytes);
        let dead = asked.live_bytes.saturating_sub(tick.heap_live_bytes);
        let enough = (asked.wanted_bytes / 4).max(1);
        if returned >= enough {
            self.pause_ticks = PAUSE_TICKS_MIN;
            self.waiting_for = None;
        } else if self.ticks >= VERDICT_TICKS {
            // What is known now to be dead may be given back next time.
            let doubled = (self.pause_ticks.max(PAUSE_TICKS_MIN) * 2).min(PAUSE_TICKS_MAX);
            self.pause_ticks = if dead >= enough && !self.learned { self.pause_ticks } else { doubled };
            self.learned = dead >= enough && !self.learned;
            self.waiting_for = None;
        }
    }
}
