//! When a collection that was not due is worth asking for.
//!
//! Invariant: what is asked for takes at most a twentieth of the time, and a heap that gave nothing back, or took it
//! again at once, is asked less and less often.

use super::SplitTick;

/// A collection must save this many times its own cost while the heap does without what it gave back.
const GAIN_MIN: f64 = 2.0;

/// How long a heap does without what it gave back: until one was seen, at least, and ever at most. A heap that has
/// not grown for longer is taken to go on like that.
const STAY_NS_FIRST: u64 = 5_000_000_000;
const STAY_NS_MAX: u64 = 60_000_000_000;

/// Until one was measured: nanoseconds per live byte, about a second per GiB.
const COST_NS_PER_LIVE_BYTE: u64 = 1;

/// Time between two of them, at least, in units of their cost.
const COST_SPACING: u64 = 20;

const PAUSE_TICKS_MIN: u32 = 5;
const PAUSE_TICKS_MAX: u32 = 640;

/// Ticks after which a heap has given back what it will, or taken it again.
const VERDICT_TICKS: u32 = 5;

/// Collections in a row that gave nothing back of what was free: such a heap never does.
const IN_VAIN_MAX: u32 = 3;

#[derive(Debug, Clone)]
pub(super) struct Asking {
    cost_ns: Option<u64>,
    waiting_for: Option<Asked>,
    /// The heap has no more than this as long as it does without half of what it gave back.
    without: Option<u64>,
    /// How long it did without, lately.
    stay_ns: Option<u64>,
    /// Since the heap last grew, and what it had then.
    calm_ns: u64,
    calm_bytes: u64,
    /// Since the last one.
    ticks: u32,
    elapsed_ns: u64,
    pause_ticks: u32,
    /// The last one gave nothing back, but showed that less lives than was thought.
    learned: bool,
    /// In a row, those after which the heap never had less, though much of it was free.
    in_vain: u32,
}

#[derive(Debug, Clone, Copy)]
struct Asked {
    committed_bytes: u64,
    live_bytes: u64,
    wanted_bytes: u64,
    /// The least that the heap had since.
    least_bytes: u64,
}

impl Default for Asking {
    fn default() -> Self {
        Self {
            cost_ns: None,
            waiting_for: None,
            without: None,
            stay_ns: None,
            calm_ns: 0,
            calm_bytes: 0,
            ticks: 0,
            // The first one is not too soon after another.
            elapsed_ns: u64::MAX,
            pause_ticks: 0,
            learned: false,
            in_vain: 0,
        }
    }
}

impl Asking {
    /// Whether the heap gives nothing back, whatever is done.
    pub fn is_stiff(&self) -> bool {
        self.in_vain >= IN_VAIN_MAX
    }

    /// The heap was seen to give memory back by itself.
    pub fn has_shrunk(&mut self) {
        self.in_vain = 0;
    }

    /// `worth`: share of time that the wanted bytes would save. `live_bytes`: what lives for certain.
    /// `spare_bytes`: what the heap could do without. `over`: the heap has more than there is.
    pub fn decide(
        &mut self,
        tick: &SplitTick,
        worth: f64,
        wanted_bytes: u64,
        live_bytes: u64,
        spare_bytes: u64,
        over: bool,
    ) -> bool {
        self.ticks = self.ticks.saturating_add(1);
        self.elapsed_ns = self.elapsed_ns.saturating_add(tick.elapsed_ns);
        if tick.asked_ns > 0 {
            self.cost_ns = Some(tick.asked_ns);
        }
        self.judge(tick, spare_bytes);
        self.follow_stay(tick);
        let cost_ns = self.cost_ns.unwrap_or(live_bytes.saturating_mul(COST_NS_PER_LIVE_BYTE)).max(1);
        let too_soon = self.waiting_for.is_some()
            || self.ticks < self.pause_ticks.max(PAUSE_TICKS_MIN)
            || self.elapsed_ns < cost_ns.saturating_mul(COST_SPACING);
        let stay_ns = self.stay_ns.unwrap_or(self.calm_ns.clamp(STAY_NS_FIRST, STAY_NS_MAX));
        let pays = worth * stay_ns as f64 >= GAIN_MIN * cost_ns as f64;
        if too_soon || !(pays || over) {
            return false;
        }
        self.waiting_for = Some(Asked {
            committed_bytes: tick.heap_committed_bytes,
            live_bytes: tick.heap_live_bytes,
            wanted_bytes,
            least_bytes: tick.heap_committed_bytes,
        });
        self.without = None;
        (self.ticks, self.elapsed_ns) = (0, 0);
        true
    }

    /// Does the heap do without what it was asked for, or turn out to live on less than was thought?
    fn judge(&mut self, tick: &SplitTick, spare_bytes: u64) {
        let Some(asked) = &mut self.waiting_for else { return };
        asked.least_bytes = asked.least_bytes.min(tick.heap_committed_bytes);
        if self.ticks < VERDICT_TICKS {
            return;
        }
        let returned = asked.committed_bytes.saturating_sub(tick.heap_committed_bytes);
        let dead = asked.live_bytes.saturating_sub(tick.heap_live_bytes);
        let enough = (asked.wanted_bytes / 4).max(1);
        if asked.committed_bytes - asked.least_bytes >= enough {
            self.in_vain = 0;
        } else if spare_bytes >= asked.wanted_bytes.max(1) {
            self.in_vain += 1;
        }
        if returned >= enough {
            self.pause_ticks = PAUSE_TICKS_MIN;
            self.without = Some(asked.committed_bytes - returned / 2);
        } else {
            // What is known now to be dead may be given back next time.
            let doubled = (self.pause_ticks.max(PAUSE_TICKS_MIN) * 2).min(PAUSE_TICKS_MAX);
            self.pause_ticks = if dead >= enough && !self.learned { self.pause_ticks } else { doubled };
            self.learned = dead >= enough && !self.learned;
        }
        self.waiting_for = None;
    }

    /// How long what was given back is worth something.
    fn follow_stay(&mut self, tick: &SplitTick) {
        let committed = tick.heap_committed_bytes;
        self.calm_ns =
            if committed > self.calm_bytes { 0 } else { self.calm_ns.saturating_add(tick.elapsed_ns) };
        self.calm_bytes = committed;
        let Some(without) = self.without else { return };
        let before = self.stay_ns.unwrap_or(self.elapsed_ns);
        if committed > without {
            self.stay_ns = Some(before.midpoint(self.elapsed_ns).min(STAY_NS_MAX));
            self.without = None;
        } else {
            self.stay_ns = Some(before.max(self.elapsed_ns).min(STAY_NS_MAX));
        }
    }
}
