//! Machines that are a few numbers: costs that follow the split as those of real jobs do, with noise, and heaps that
//! grow when they like.

use warmset_placement::{Split, SplitDecision, SplitLimits, SplitTick};

pub const MIB: u64 = 1 << 20;
pub const FRAME: u64 = 2 * MIB;
pub const SECOND: u64 = 1_000_000_000;
pub const LOOK: u64 = SECOND / 10;
pub const POOL_MIN: u64 = 16 * MIB;

/// A job's phase: how fast it makes garbage, what lives, what is cached and how often it is scanned.
#[derive(Debug, Clone, Copy)]
pub struct Phase {
    pub live: u64,
    pub cached: u64,
    /// Share of time in collections, times the MiB of heap that are free.
    pub collect: f64,
    /// Share of time waiting, per absent MiB.
    pub wait: f64,
}

/// A heap and a pool that obey at their own pace.
pub struct Machine {
    pub split: Split,
    pub limits: SplitLimits,
    pub total: u64,
    pub committed: u64,
    /// Usage after the last collection of any kind: garbage that grew old is in it.
    pub live_seen: u64,
    pub pool: u64,
    pub budget: u64,
    pub decision: SplitDecision,
    pub asked_ns: u64,
    pub asks: u64,
    pub random: u64,
    pub noise: f64,
    /// Whether an asked collection gives memory back.
    pub shrinks: bool,
    /// Ticks after which the heap takes back what it gave.
    pub rebounds_after: Option<u32>,
    /// Ticks until then, and what it had.
    pub rebound: Option<(u32, u64)>,
}

impl Machine {
    pub fn new(total: u64, committed: u64, pool_start: u64) -> Self {
        let limits = SplitLimits {
            heap_min_bytes: 8 * MIB,
            heap_max_bytes: total,
            pool_min_bytes: POOL_MIN,
            pool_start_bytes: pool_start,
        };
        Self {
            split: Split::new(limits),
            limits,
            total,
            committed,
            live_seen: 0,
            pool: 0,
            budget: pool_start,
            decision: SplitDecision::default(),
            asked_ns: 0,
            asks: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            noise: 1.0,
            shrinks: true,
            rebounds_after: None,
            rebound: None,
        }
    }

    /// Between 1/noise and noise.
    pub fn shake(&mut self) -> f64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        let unit = (self.random >> 11) as f64 / (1u64 << 53) as f64;
        self.noise.powf(2.0 * unit - 1.0)
    }

    pub fn costs(&self, phase: Phase) -> (f64, f64) {
        let free = (self.committed.saturating_sub(phase.live) as f64 / MIB as f64).max(4.0);
        let absent = phase.cached.saturating_sub(self.pool) as f64 / MIB as f64;
        ((phase.collect / free).min(0.9), (phase.wait * absent).min(0.9))
    }

    pub fn step(&mut self, phase: Phase) -> SplitDecision {
        // Garbage grows old until a cycle finds it; the heap takes what it is allowed while collections cost.
        self.live_seen = (self.live_seen + self.committed / 64).max(phase.live);
        if self.live_seen > self.committed / 5 * 3 {
            self.live_seen = phase.live + phase.live / 20;
        }
        self.rebound = match self.rebound {
            Some((0, committed)) => {
                self.take(committed, phase);
                None
            }
            Some((ticks, committed)) => Some((ticks - 1, committed)),
            None => None,
        };
        let (collect, _) = self.costs(phase);
        if let Some(to) = self.decision.heap_grow_to_bytes {
            // What it is made to take, the pool has given back already.
            self.committed = self.committed.max(to.min(self.committed + self.total / 16));
        } else if collect > 0.02 && self.committed < self.decision.heap_allowed_bytes {
            self.take(self.decision.heap_allowed_bytes.min(self.committed + self.total / 16), phase);
        }
        self.pool = self.budget.min(phase.cached).min(self.pool + self.total / 4);
        assert!(
            self.committed + self.pool <= self.total || self.budget == POOL_MIN,
            "heap {} + pool {} > {}",
            self.committed,
            self.pool,
            self.total
        );
        let (collect, wait) = self.costs(phase);
        let (collect, wait) = (collect * self.shake(), wait * self.shake());
        (0..9).for_each(|_| self.look(phase));
        let tick = SplitTick {
            elapsed_ns: SECOND,
            collect_ns: (collect.min(1.0) * SECOND as f64) as u64,
            asked_ns: std::mem::take(&mut self.asked_ns),
            wait_ns: (wait.min(1.0) * 2.0 * SECOND as f64) as u64,
            threads: 2,
            passes: if phase.wait > 0.0 { 0.5 } else { 0.0 },
            ..self.looked(phase)
        };
        self.decision = self.split.tick(&tick);
        self.check(&tick, phase);
        self.budget = self.decision.pool_budget_bytes;
        self.pool = self.pool.min(self.budget);
        if let Some(to) = self.decision.collect_to_bytes {
            self.asks += 1;
            self.asked_ns = phase.live / 2;
            self.live_seen = phase.live;
            if self.shrinks {
                self.rebound = self.rebounds_after.map(|ticks| (ticks, self.committed));
                self.committed = self.committed.min(to.max(phase.live + phase.live / 4));
            }
        }
        self.decision
    }

    /// What must hold after any decision.
    pub fn check(&self, tick: &SplitTick, phase: Phase) {
        let budget = self.decision.pool_budget_bytes;
        assert!(budget >= POOL_MIN && budget % FRAME == 0);
        assert!(
            budget == POOL_MIN || budget + tick.heap_committed_bytes <= tick.total_bytes,
            "{budget} beside a heap of {}",
            tick.heap_committed_bytes
        );
        let needs = phase.live + (phase.live / 4).max(32 * MIB);
        let most = tick.total_bytes.saturating_sub(POOL_MIN + FRAME).min(self.limits.heap_max_bytes);
        assert!(self.decision.heap_allowed_bytes >= needs.min(most), "less than the job lives on");
    }

    /// A new phase whose live bytes the heap takes at once, as heaps do; Warmset looks after the collection.
    pub fn enter(&mut self, phase: Phase) {
        self.live_seen = phase.live;
        self.take(phase.live + phase.live / 8, phase);
    }

    /// The heap takes so much without being asked, and Warmset looks.
    pub fn take(&mut self, committed: u64, phase: Phase) {
        self.committed = self.committed.max(committed);
        self.look(phase);
    }

    /// A look between ticks.
    pub fn look(&mut self, phase: Phase) {
        let tick = self.looked(phase);
        self.decision = self.split.tick(&tick);
        self.check(&tick, phase);
        self.budget = self.decision.pool_budget_bytes;
        self.pool = self.pool.min(self.budget);
    }

    pub fn looked(&self, phase: Phase) -> SplitTick {
        SplitTick {
            look_ns: LOOK,
            total_bytes: self.total,
            heap_committed_bytes: self.committed,
            heap_live_bytes: self.live_seen,
            pool_bytes: self.pool,
            cached_bytes: phase.cached,
            absent_bytes: phase.cached.saturating_sub(self.pool),
            ..SplitTick::default()
        }
    }

    pub fn run(&mut self, phase: Phase, ticks: u32) {
        (0..ticks).for_each(|_| {
            self.step(phase);
        });
    }

    pub fn cost(&self, phase: Phase) -> f64 {
        let (collect, wait) = self.costs(phase);
        collect + wait
    }

    /// The least cost of any split, with the guard that the pool keeps.
    pub fn best(&self, phase: Phase) -> f64 {
        let mut least = f64::MAX;
        let floor = phase.live + (phase.live / 4).max(32 * MIB);
        for heap in (floor..self.total * 63 / 64 - POOL_MIN).step_by((4 * MIB) as usize) {
            let free = ((heap - phase.live) as f64 / MIB as f64).max(4.0);
            let pool = self.total * 63 / 64 - heap;
            let absent = phase.cached.saturating_sub(pool) as f64 / MIB as f64;
            least = least.min((phase.collect / free).min(0.9) + (phase.wait * absent).min(0.9));
        }
        least
    }
}

/// Iterations over cached data that outgrows the pool, with little garbage.
pub const SCAN: Phase = Phase { live: 200 * MIB, cached: 3000 * MIB, collect: 8.0, wait: 0.0003 };
/// A shuffle: much garbage, nothing cached is read.
pub const SHUFFLE: Phase = Phase { live: 300 * MIB, cached: 3000 * MIB, collect: 150.0, wait: 0.0 };
/// Both at once: the best split lies in between.
pub const BOTH: Phase = Phase { live: 300 * MIB, cached: 4000 * MIB, collect: 60.0, wait: 0.000_15 };

pub const TOTAL: u64 = 4096 * MIB;
