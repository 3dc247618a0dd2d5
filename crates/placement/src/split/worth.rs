//! What a byte is worth on either side of the split, in shares of time.
//!
//! Invariant: every figure is finite and not negative, whatever was read.

use super::{FRAME_BYTES, SplitTick};

/// Ticks over which a cost is averaged.
const SMOOTHING_TICKS: u32 = 2;

/// A cost below this share of time is taken for this much: nothing is free for certain.
const COST_NOISE: f64 = 0.001;

/// The costs since the last move, smoothed.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Worth {
    /// Share of time in collections.
    pub collect: f64,
    /// Share of a thread's time spent waiting.
    pub wait: f64,
    /// Passes over all cached bytes, per second.
    passes: f64,
    /// Wait per absent byte and pass, from the last time that bytes were absent: what is known of the pool's
    /// worth while everything fits.
    wait_per_pass: f64,
    ticks: u32,
}

impl Worth {
    /// Takes up one tick's costs.
    pub fn learn(&mut self, tick: &SplitTick) {
        self.ticks = self.ticks.saturating_add(1);
        let weight = 1.0 / f64::from(self.ticks.min(SMOOTHING_TICKS));
        let elapsed = tick.elapsed_ns.max(1) as f64;
        let threads = tick.threads.max(1) as f64;
        let follow = |old: f64, now: f64| old + (now - old) * weight;
        self.collect = follow(self.collect, (tick.collect_ns as f64 / elapsed).min(1.0));
        self.wait = follow(self.wait, (tick.wait_ns as f64 / elapsed / threads).min(1.0));
        let passes = if tick.passes.is_finite() { tick.passes.max(0.0) } else { 0.0 };
        self.passes = follow(self.passes, passes * 1e9 / elapsed);
        if self.wait >= COST_NOISE && self.passes > 0.0 && tick.absent_bytes >= FRAME_BYTES {
            self.wait_per_pass = self.wait / self.passes / tick.absent_bytes as f64;
        }
    }

    /// After a move the costs of before say nothing; what a pass costs still does.
    pub fn restart(&mut self) {
        self.ticks = 0;
    }

    pub fn ticks(&self) -> u32 {
        self.ticks
    }

    /// Share of time that one more byte of heap saves: collections come as often as the free part fills.
    pub fn heap_byte(&self, free_bytes: u64) -> f64 {
        self.collect.max(COST_NOISE) / free_bytes as f64
    }

    /// Share of time that one more byte of pool saves, or one less costs.
    pub fn pool_byte(&self, tick: &SplitTick) -> f64 {
        if tick.absent_bytes >= FRAME_BYTES {
            self.wait.max(COST_NOISE) / tick.absent_bytes as f64
        } else {
            self.wait_per_pass * self.passes
        }
    }
}
