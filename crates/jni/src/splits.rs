//! The split of one budget between the Java heap and a store's pool: what Java reads of the heap comes in, the
//! pool is read and set here, and what the heap is to do goes out.
//!
//! Invariant: a handle is never used twice, so a stale one finds nothing. Ticks of one split wait for each other.

use std::sync::atomic::{AtomicI64, Ordering};
use std::sync::{Arc, LazyLock, Mutex, PoisonError};
use std::time::Instant;

use jni::sys::jlong;
use papaya::HashMap;
use serde::Serialize;
use warmset_placement::{Split, SplitDecision, SplitLimits, SplitTick, TICKS_PER_HALF_LIFE};
use warmset_platform::status::{Published, publish};
use warmset_region::{PoolUse, Store};

use crate::errors::Failure;

/// Numbers in `NativeStore.splitOpen`'s array.
pub(crate) const LIMITS: usize = 4;
/// Numbers that go into a tick.
pub(crate) const TICK: usize = 7;
/// Numbers that come out of it.
pub(crate) const DECISION: usize = 12;

static SPLITS: LazyLock<HashMap<jlong, Mutex<Running>>> = LazyLock::new(HashMap::new);
static NEXT: AtomicI64 = AtomicI64::new(1);

/// A split, and the pool's counters at its last tick with rates.
struct Running {
    split: Split,
    looked: Instant,
    /// What the pool was told.
    budget_bytes: Option<u64>,
    before: Option<PoolUse>,
    shown: Arc<Mutex<Option<SplitStatus>>>,
    /// For `warmset top`.
    _published: Published,
}

/// What `warmset top` shows of a split.
#[derive(Debug, Clone, Copy, Serialize)]
struct SplitStatus {
    kind: &'static str,
    total_bytes: u64,
    heap_committed_bytes: u64,
    heap_live_bytes: u64,
    heap_allowed_bytes: u64,
    pool_budget_bytes: u64,
    moves_total: u64,
}

impl SplitStatus {
    fn new(seen: &SplitTick, decision: &SplitDecision) -> Self {
        Self {
            kind: "split",
            total_bytes: seen.total_bytes,
            heap_committed_bytes: seen.heap_committed_bytes,
            heap_live_bytes: seen.heap_live_bytes,
            heap_allowed_bytes: decision.heap_allowed_bytes,
            pool_budget_bytes: decision.pool_budget_bytes,
            moves_total: decision.moves,
        }
    }
}

pub(crate) fn open(limits: [jlong; LIMITS]) -> Result<jlong, Failure> {
    let [heap_min_bytes, heap_max_bytes, pool_min_bytes, pool_start_bytes] = bytes(limits)?;
    let split = Split::new(SplitLimits { heap_min_bytes, heap_max_bytes, pool_min_bytes, pool_start_bytes });
    let handle = NEXT.fetch_add(1, Ordering::Relaxed);
    let shown = Arc::new(Mutex::new(None::<SplitStatus>));
    let source = Arc::clone(&shown);
    let published = publish(move || {
        let status = *source.lock().unwrap_or_else(PoisonError::into_inner);
        serde_json::to_string(&status?).ok()
    });
    let looked = Instant::now();
    let running = Running { split, looked, budget_bytes: None, before: None, shown, _published: published };
    SPLITS.pin().insert(handle, Mutex::new(running));
    Ok(handle)
}

pub(crate) fn close(handle: jlong) {
    SPLITS.pin().remove(&handle);
}

/// One tick: see `NativeStore.splitTick` for the order of the numbers.
pub(crate) fn tick(handle: jlong, store: &Store, heap: [jlong; TICK]) -> Result<[jlong; DECISION], Failure> {
    let heap = bytes(heap)?;
    let splits = SPLITS.pin();
    let running =
        splits.get(&handle).ok_or_else(|| Failure::Argument(format!("there is no open split {handle}")))?;
    // A tick that panicked has left numbers behind, any of which give a decision.
    let mut running = running.lock().unwrap_or_else(PoisonError::into_inner);
    let seen = running.see(heap, store);
    let decision = running.split.tick(&seen);
    let status = SplitStatus::new(&seen, &decision);
    *running.shown.lock().unwrap_or_else(PoisonError::into_inner) = Some(status);
    if running.budget_bytes != Some(decision.pool_budget_bytes) {
        store.set_budget(decision.pool_budget_bytes)?;
        running.budget_bytes = Some(decision.pool_budget_bytes);
    }
    let numbers = [
        decision.pool_budget_bytes,
        decision.heap_allowed_bytes,
        decision.collect_to_bytes.unwrap_or(u64::MAX),
        decision.moves,
        decision.turns,
        u64::from(decision.is_stiff),
        seen.pool_bytes,
        seen.absent_bytes,
        seen.wait_ns,
        (seen.passes * 1e6) as u64,
        decision.heap_grow_to_bytes.unwrap_or(0),
        decision.shed_bytes,
    ];
    Ok(numbers.map(|number| jlong::try_from(number).unwrap_or(jlong::MAX)))
}

impl Running {
    fn see(&mut self, heap: [u64; TICK], store: &Store) -> SplitTick {
        let [elapsed_ns, total, committed, live, collect_ns, asked_ns, threads] = heap;
        let look_ns = u64::try_from(self.looked.elapsed().as_nanos()).unwrap_or(u64::MAX);
        self.looked = Instant::now();
        let seen = SplitTick {
            look_ns,
            elapsed_ns,
            total_bytes: total,
            heap_committed_bytes: committed,
            heap_live_bytes: live,
            collect_ns,
            asked_ns,
            threads,
            writes_fail: store.writes_fail(),
            ..SplitTick::default()
        };
        match self.before {
            // What is cached is counted segment by segment: not at every look.
            Some(before) if elapsed_ns == 0 => SplitTick {
                pool_bytes: store.pool_bytes(),
                cached_bytes: before.live_bytes,
                absent_bytes: before.absent_bytes,
                ..seen
            },
            _ => self.rate(seen, store.pool_use()),
        }
    }

    /// What the pool did since the last tick with rates.
    fn rate(&mut self, seen: SplitTick, pool: PoolUse) -> SplitTick {
        let before = self.before.replace(pool).unwrap_or(pool);
        let accesses = pool.access_ticks_total.saturating_sub(before.access_ticks_total);
        SplitTick {
            wait_ns: pool.wait_ns_total.saturating_sub(before.wait_ns_total),
            pool_bytes: pool.pool_bytes,
            cached_bytes: pool.live_bytes,
            absent_bytes: pool.absent_bytes,
            passes: accesses as f64 / TICKS_PER_HALF_LIFE as f64,
            ..seen
        }
    }
}

fn bytes<const N: usize>(numbers: [jlong; N]) -> Result<[u64; N], Failure> {
    match numbers.iter().find(|number| **number < 0) {
        Some(number) => Err(Failure::Argument(format!("{number} is no size and no time"))),
        None => Ok(numbers.map(jlong::unsigned_abs)),
    }
}
