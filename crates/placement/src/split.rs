//! One DRAM budget for a garbage-collected heap and the pool: which of the two gets the next bytes.
//!
//! TeraCache (HotStorage'20) moves the split by two rates, minor collections and page faults per second. Both
//! stand for time, and time is what is weighed here: the share of it that collections take, and the share
//! that a thread waits for absent segments. Each is divided by the bytes that would take it away, which gives
//! what one byte is worth on either side (`worth.rs`).
//!
//! Invariants, for any input:
//! 1. The pool's budget and what the heap has committed, with a guard for what it may commit before the next look,
//!    never pass the total; the pool's least size goes before. What the heap is allowed and has not committed is
//!    lent to the pool while bytes are absent, and the pool is able to give it back: the heap takes it by
//!    committing it.
//! 2. The pool grows by memory only that the heap was *seen* not to have for a while; it yields at one look.
//! 3. The heap's allowance is never below the live bytes after a collection and headroom, as far as there is
//!    room. It is *made* to grow only by what the pool was seen to have given back.
//! 4. A turn (a move against the last one) needs stronger evidence than going on, and more after each turn.
//!
//! No clock and no I/O: what was read comes in with each tick, what to do goes out.

mod ask;
mod worth;

use ask::Asking;
use worth::Worth;

/// The pool's unit: its budget is whole frames, and one frame is left for the one being faulted in.
const FRAME_BYTES: u64 = 2 << 20;

/// Least headroom of the heap above its live bytes.
const HEADROOM_BYTES_MIN: u64 = 32 << 20;

/// Part of the total that is kept from the pool beyond what the heap has committed, unless it grew faster.
const GUARD_PART: u64 = 64;

/// A rise of the committed heap between two looks counts half after so long.
const RISE_HALF_LIFE_NS: f64 = 5e9;

/// So long after a collection that was asked for a heap may take back what it needs: no rise to be feared again.
const REGROWTH_NS: u64 = 2_000_000_000;

/// The pool takes what the heap did not have for so long.
const ROOM_NS: u64 = 200_000_000;

/// The largest steps, and the least, as parts of the total. What the pool gets takes a collection, which costs the same
/// for any step, and a heap that needs it takes it back by itself. Less than the least is not worth a move.
const STEP_TO_POOL_PART: u64 = 4;
const STEP_TO_HEAP_PART: u64 = 8;
const STEP_MIN_PART: u64 = 64;

/// Part of the total: a heap that becomes smaller by more at once does give memory back.
const SHRUNK_PART: u64 = 8;

/// Ticks with rates after a move before the next one: the rates of before say nothing any more.
const SETTLE_TICKS: u32 = 3;

/// Of time: a cost below this moves nothing.
const COST_MIN: f64 = 0.01;

/// A cost from here on is worth a move at once, where the evidence is that of a new phase.
const COST_STRONG: f64 = 0.1;

/// Ticks with rates after cached objects were told to leave the heap before more are: what they leave is garbage, which
/// only a collection finds.
const SHED_TICKS: u32 = 5;

/// One side's byte must be worth this many times the other's to go on in the direction of the last move.
const BAND: f64 = 1.5;

/// The same to turn: at first, after each further turn times `BAND`, and at most.
const BAND_TURN: f64 = 3.0;
const BAND_TURN_MAX: f64 = 8.0;

/// A turn on evidence as strong as this is a new phase of the job, not noise: the band starts again.
const BAND_PHASE: f64 = 16.0;

/// What does not change while the split lives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SplitLimits {
    /// The heap cannot be smaller.
    pub heap_min_bytes: u64,
    /// The heap cannot be larger.
    pub heap_max_bytes: u64,
    /// The pool's budget is never below this.
    pub pool_min_bytes: u64,
    /// The pool's budget at first.
    pub pool_start_bytes: u64,
}

/// What was read at one tick.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct SplitTick {
    /// Since the tick or look before.
    pub look_ns: u64,
    /// Since the last tick that had rates; 0 for a look between ticks, which has none.
    pub elapsed_ns: u64,
    /// What heap and pool may have together now.
    pub total_bytes: u64,
    /// What the heap has taken from the system.
    pub heap_committed_bytes: u64,
    /// What was used after the heap's last collection.
    pub heap_live_bytes: u64,
    /// Time in collections that nobody asked for, in which all threads stood still.
    pub collect_ns: u64,
    /// Time of a collection that was asked for; not part of `elapsed_ns`.
    pub asked_ns: u64,
    /// Time that threads waited for absent segments, summed over `threads`.
    pub wait_ns: u64,
    /// Threads that may wait at a time.
    pub threads: u64,
    /// What the pool has taken from the system.
    pub pool_bytes: u64,
    /// Cached bytes.
    pub cached_bytes: u64,
    /// Of those, bytes that are in no frame.
    pub absent_bytes: u64,
    /// Bytes read from the store, as a part of all that are cached.
    pub passes: f64,
    /// Segments that are in memory alone cannot be written to disk: the pool cannot give their frames back.
    pub writes_fail: bool,
}

/// What to do until the next tick.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct SplitDecision {
    /// The pool's budget.
    pub pool_budget_bytes: u64,
    /// What the heap may have. The pool may have some of it until the heap commits it.
    pub heap_allowed_bytes: u64,
    /// Make the heap as large as this: so much the pool was seen to have given back.
    pub heap_grow_to_bytes: Option<u64>,
    /// Ask the heap for a collection now that leaves it no larger than this.
    pub collect_to_bytes: Option<u64>,
    /// So many bytes of objects that are cached on the heap would do more in the pool: they live, and are in the way.
    pub shed_bytes: u64,
    /// Moves of the split so far.
    pub moves: u64,
    /// Of those, against the one before.
    pub turns: u64,
    /// The heap gave nothing back whenever it was asked: the split moves only where the heap grows by itself.
    pub is_stiff: bool,
}

/// What one side was worth, and did not get.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
struct Lacks {
    /// The heap's live bytes were in the way.
    pool: u64,
    /// The heap cannot be larger.
    heap: u64,
}

/// Who gets memory from the other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Direction {
    ToPool,
    ToHeap,
}

/// The controller. One value per process; see the module's invariants.
#[derive(Debug, Clone)]
pub struct Split {
    limits: SplitLimits,
    /// The heap's allowance.
    goal: u64,
    budget: u64,
    /// What the pool could have had at every look of the last `room_ns`.
    room: u64,
    room_ns: u64,
    worth: Worth,
    /// Ticks with rates since cached objects were told to leave the heap.
    shed_ticks: u32,
    /// What they left, as far as no collection has found it.
    shed_garbage: u64,
    asking: Asking,
    /// Live bytes: follows a rise at once and a fall slowly, since a job's next stage may need it again. What
    /// is left after a collection that was asked for is no more than live, and is believed at once.
    live: u64,
    /// What lives for certain: follows a fall at once and a rise slowly, since garbage that grew old is in a rise.
    live_least: Option<u64>,
    /// The largest rise of the committed heap between two looks, soon forgotten.
    rise: u64,
    /// Since the end of a collection that was asked for.
    asked_for_ns: u64,
    /// One was asked for at the last look: until the next one it ran.
    just_asked: bool,
    committed: Option<u64>,
    last: Option<Direction>,
    band: f64,
    moves: u64,
    turns: u64,
}

impl Split {
    /// A split that starts with the pool of `limits`.
    #[must_use]
    pub fn new(limits: SplitLimits) -> Self {
        let frames = limits.pool_start_bytes / FRAME_BYTES;
        let pool_bytes = (frames * FRAME_BYTES).max(limits.pool_min_bytes);
        Self {
            limits,
            goal: u64::MAX,
            budget: pool_bytes,
            room: pool_bytes,
            room_ns: 0,
            worth: Worth::default(),
            shed_ticks: SHED_TICKS,
            shed_garbage: 0,
            asking: Asking::default(),
            live: 0,
            live_least: None,
            rise: 0,
            asked_for_ns: u64::MAX,
            just_asked: false,
            committed: None,
            last: None,
            band: BAND_TURN,
            moves: 0,
            turns: 0,
        }
    }

    /// Looks at the heap and the pool and says what each may have.
    pub fn tick(&mut self, tick: &SplitTick) -> SplitDecision {
        let has_rates = tick.elapsed_ns > 0;
        self.follow_heap(tick, has_rates);
        if self.goal == u64::MAX {
            self.goal = tick.total_bytes.saturating_sub(self.limits.pool_start_bytes);
        }
        let mut lacks = Lacks::default();
        if has_rates {
            self.worth.learn(tick);
            lacks = self.shift(tick);
        }
        self.goal = self.goal.max(self.floor(tick)).min(self.ceiling(tick));
        self.give_pool(tick);
        let shed_bytes = if has_rates { self.shed(tick, lacks.heap) } else { 0 };
        let collect_to_bytes = if has_rates { self.ask(tick, lacks.pool) } else { None };
        SplitDecision {
            pool_budget_bytes: self.budget,
            heap_allowed_bytes: self.goal,
            heap_grow_to_bytes: self.grow_to(tick),
            collect_to_bytes,
            shed_bytes,
            moves: self.moves,
            turns: self.turns,
            is_stiff: self.asking.is_stiff(),
        }
    }

    fn follow_heap(&mut self, tick: &SplitTick, has_rates: bool) {
        let committed = tick.heap_committed_bytes;
        // The first look finds a heap that grew before there was a pool.
        let before = self.committed.unwrap_or(committed);
        self.rise = (self.rise as f64 * (-(tick.look_ns as f64) / RISE_HALF_LIFE_NS).exp2()) as u64;
        if !std::mem::take(&mut self.just_asked) {
            self.asked_for_ns = self.asked_for_ns.saturating_add(tick.look_ns);
        }
        // While nothing is cached the pool has nothing to yield: a program that starts says nothing of later rises.
        if tick.cached_bytes > 0 && self.asked_for_ns >= REGROWTH_NS {
            self.rise = self.rise.max(committed.saturating_sub(before));
        }
        if before.saturating_sub(committed) > tick.total_bytes / SHRUNK_PART {
            self.asking.has_shrunk();
        }
        self.committed = Some(committed);
        self.live = match tick.heap_live_bytes {
            now if now >= self.live || tick.asked_ns > 0 => now,
            now if has_rates => self.live - (self.live - now).div_ceil(8),
            _ => self.live,
        };
        let (now, least) = (tick.heap_live_bytes, self.live_least.unwrap_or(u64::MAX));
        let rise = if has_rates { now.saturating_sub(least) / 64 } else { 0 };
        self.live_least = Some(now.min(least.saturating_add(rise)));
        self.follow_shed(tick, least);
    }

    /// Moves the heap's allowance by one step, if a byte is worth clearly more on one side. Gives what that
    /// side did not get.
    fn shift(&mut self, tick: &SplitTick) -> Lacks {
        if self.asking.is_stiff() {
            return Lacks::default();
        }
        let least = self.live_least.unwrap_or(0);
        let free = tick.heap_committed_bytes.saturating_sub(least).max(FRAME_BYTES);
        let ratio = self.worth.pool_byte(tick) / self.worth.heap_byte(free);
        let (direction, strength) =
            if ratio >= 1.0 { (Direction::ToPool, ratio) } else { (Direction::ToHeap, 1.0 / ratio) };
        let cost = match direction {
            Direction::ToPool => self.worth.wait,
            Direction::ToHeap => self.worth.collect,
        };
        let turns = self.last.is_some_and(|last| last != direction);
        let is_strong = strength >= BAND_PHASE && cost >= COST_STRONG && !turns;
        if self.worth.ticks() < SETTLE_TICKS && !is_strong {
            return Lacks::default();
        }
        if cost < COST_MIN || strength < if turns { self.band } else { BAND } {
            return Lacks::default();
        }
        // If collections cost as one over the free heap, and waits in proportion to what is absent, the sum of
        // both is least where the free heap is larger by the root of the ratio.
        let root = strength.sqrt();
        let best = match direction {
            Direction::ToPool => (free as f64 * (1.0 - 1.0 / root)).min(tick.absent_bytes as f64),
            Direction::ToHeap => free as f64 * (root - 1.0),
        };
        let least = tick.total_bytes / STEP_MIN_PART;
        let most = match direction {
            Direction::ToPool => tick.total_bytes / STEP_TO_POOL_PART,
            Direction::ToHeap => tick.total_bytes / STEP_TO_HEAP_PART,
        };
        let step = (best as u64).min(most);
        if step < least {
            return Lacks::default();
        }
        let before = self.goal;
        let mut lacks = Lacks::default();
        match direction {
            // What is given back already counts; what is not is waited for.
            Direction::ToPool if tick.heap_committed_bytes > self.goal.saturating_add(least) => return lacks,
            Direction::ToPool => {
                let wanted = self.goal.min(tick.heap_committed_bytes).saturating_sub(step);
                lacks.pool = self.floor(tick).saturating_sub(wanted).min(step);
                self.goal = wanted.max(self.floor(tick)).min(self.goal);
            }
            // What was given and is not used yet is enough.
            Direction::ToHeap if tick.heap_committed_bytes.saturating_add(self.guard(tick)) < self.goal => {
                return Lacks::default();
            }
            Direction::ToHeap => {
                let wanted = self.goal.max(tick.heap_committed_bytes).saturating_add(step);
                // A heap that can still grow does so first.
                lacks.heap = if before >= self.ceiling(tick) { step } else { 0 };
                self.goal = wanted.min(self.ceiling(tick)).max(self.goal);
            }
        }
        if self.goal != before {
            self.moved(direction, turns, strength);
        }
        lacks
    }

    /// Bytes of cached objects that should leave the heap. They are read there for nothing, and from the pool at the
    /// cost of making them again: they leave for what costs much, and stay otherwise.
    fn shed(&mut self, tick: &SplitTick, lacks_heap: u64) -> u64 {
        self.shed_ticks = self.shed_ticks.saturating_add(1);
        if self.shed_ticks <= SHED_TICKS || self.asking.is_stiff() {
            return 0;
        }
        let lives = self.live_least.unwrap_or(0).saturating_sub(self.shed_garbage);
        let spare = tick.heap_committed_bytes.saturating_sub(Self::needs(lives));
        let pool_byte = self.worth.pool_byte(tick);
        let heap_byte =
            self.worth.heap_byte(tick.heap_committed_bytes.saturating_sub(lives).max(FRAME_BYTES));
        let bytes = if self.worth.wait >= COST_STRONG && pool_byte >= BAND * heap_byte {
            // What the heap could give without it comes first.
            tick.absent_bytes.saturating_sub(spare)
        } else if self.worth.collect >= COST_STRONG && spare < tick.total_bytes / STEP_TO_HEAP_PART {
            lacks_heap
        } else {
            0
        };
        let bytes = bytes.min(lives).min(tick.total_bytes / STEP_TO_HEAP_PART);
        if bytes > 0 {
            self.shed_ticks = 0;
            self.shed_garbage += bytes;
        }
        bytes
    }

    /// What was shed stays until a collection finds it.
    fn follow_shed(&mut self, tick: &SplitTick, before: u64) {
        let fell = before.saturating_sub(self.live_least.unwrap_or(0));
        self.shed_garbage = if tick.asked_ns > 0 { 0 } else { self.shed_garbage.saturating_sub(fell) };
    }

    fn needs(live: u64) -> u64 {
        live.saturating_add((live / 4).max(HEADROOM_BYTES_MIN))
    }

    fn moved(&mut self, direction: Direction, turns: bool, strength: f64) {
        self.moves += 1;
        if turns {
            self.turns += 1;
            let is_phase = strength >= BAND_PHASE;
            self.band = if is_phase { BAND_TURN } else { (self.band * BAND).min(BAND_TURN_MAX) };
        }
        self.last = Some(direction);
        self.worth.restart();
    }

    /// Yields to the heap at once; takes only what was there to take for a while.
    fn give_pool(&mut self, tick: &SplitTick) {
        let committed = tick.heap_committed_bytes;
        // Without room for the guard the heap's own limit counts, but never less than what it has.
        let has = committed.saturating_add(self.guard(tick)).min(self.limits.heap_max_bytes.max(committed));
        let claims = has.max(self.goal);
        let lends = !tick.writes_fail && !self.heap_grows();
        let most = self.beside(tick, if lends { has } else { claims });
        let room = self.beside(tick, if tick.absent_bytes >= FRAME_BYTES { has } else { claims }).min(most);
        self.room = self.room.min(room);
        self.room_ns = self.room_ns.saturating_add(tick.look_ns);
        if self.room_ns >= ROOM_NS {
            self.budget = self.budget.max(self.room);
            (self.room, self.room_ns) = (room, 0);
        }
        self.budget = self.budget.min(most);
    }

    /// The largest pool beside so large a heap.
    fn beside(&self, tick: &SplitTick, heap_bytes: u64) -> u64 {
        let frames = (tick.total_bytes.saturating_sub(heap_bytes) / FRAME_BYTES).saturating_sub(1);
        (frames * FRAME_BYTES).max(self.limits.pool_min_bytes)
    }

    /// The heap was given memory a moment ago, which is not lent before it has had the time to take it.
    fn heap_grows(&self) -> bool {
        self.last == Some(Direction::ToHeap) && self.worth.ticks() < SETTLE_TICKS
    }

    /// Not what the pool has not given back yet.
    fn grow_to(&self, tick: &SplitTick) -> Option<u64> {
        let pool = tick.pool_bytes.max(self.budget).saturating_add(FRAME_BYTES);
        let to = self.goal.min(tick.total_bytes.saturating_sub(pool));
        (self.heap_grows() && to > tick.heap_committed_bytes).then_some(to)
    }

    fn ask(&mut self, tick: &SplitTick, missing: u64) -> Option<u64> {
        let committed = tick.heap_committed_bytes;
        let least = tick.total_bytes / STEP_MIN_PART;
        let wanted = committed.saturating_sub(self.goal).saturating_add(missing);
        let gain = wanted.min(tick.absent_bytes);
        let worth = if gain < least || self.asking.is_stiff() {
            0.0
        } else {
            self.worth.pool_byte(tick) * gain as f64
        };
        let over = committed.saturating_add(self.limits.pool_min_bytes) > tick.total_bytes
            && committed > self.floor(tick).saturating_add(least);
        let spare = committed.saturating_sub(self.floor(tick));
        let asks = self.asking.decide(tick, worth, wanted, self.live_least.unwrap_or(0), spare, over);
        if asks {
            (self.asked_for_ns, self.just_asked) = (0, true);
        }
        asks.then(|| committed.saturating_sub(wanted).max(self.limits.heap_min_bytes))
    }

    fn floor(&self, tick: &SplitTick) -> u64 {
        Self::needs(self.live).max(self.limits.heap_min_bytes).min(self.ceiling(tick))
    }

    fn ceiling(&self, tick: &SplitTick) -> u64 {
        let beside_pool =
            tick.total_bytes.saturating_sub(self.limits.pool_min_bytes.saturating_add(FRAME_BYTES));
        beside_pool.min(self.limits.heap_max_bytes)
    }

    fn guard(&self, tick: &SplitTick) -> u64 {
        self.rise.max(tick.total_bytes / GUARD_PART)
    }
}
