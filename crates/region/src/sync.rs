//! Locks, threads and time: the standard library's; under `--cfg shuttle` those of a scheduler that a seed drives, so that
//! `tests/simulated.rs` can run a failure again.
//!
//! Invariants: whoever waits in this crate waits here, so that the scheduler sees it. A lock's whole state is in the lock:
//! a process that is forked while threads wait can make a store of its own. With a table of waiting threads that all locks
//! share, as `parking_lot` has, threads that the child does not have stay in its table, and wake-ups get lost.

use std::ops::{Deref, DerefMut};
use std::sync::PoisonError;
use std::time::{Duration, Instant};

#[cfg(not(shuttle))]
mod system {
    pub use std::sync::mpsc::sync_channel;
    pub use std::sync::{Condvar, Mutex, MutexGuard};
    pub use std::thread;
    use std::time::{Duration, Instant};

    pub fn now() -> Instant {
        Instant::now()
    }

    /// Lets others do something, about so long.
    pub fn pause(time: Duration) {
        thread::sleep(time);
    }
}

#[cfg(shuttle)]
mod system {
    use std::cell::Cell;
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    pub use shuttle::sync::mpsc::sync_channel;
    pub use shuttle::sync::{Condvar, Mutex, MutexGuard};
    pub use shuttle::thread;

    static BEGAN: LazyLock<Instant> = LazyLock::new(Instant::now);

    thread_local! {
        /// Of the scheduler's thread, on which all threads of a simulation run: another simulation has another time.
        static PASSED_NS: Cell<u64> = const { Cell::new(0) };
    }

    fn pass(nanos: u64) -> u64 {
        PASSED_NS.replace(PASSED_NS.get() + nanos)
    }

    /// Time passes while somebody waits for it, and a little whenever it is asked for.
    pub fn now() -> Instant {
        *BEGAN + Duration::from_nanos(pass(1_000))
    }

    pub fn pause(time: Duration) {
        pass(time.as_nanos() as u64);
        thread::yield_now();
    }
}

pub(crate) use system::{now, pause, sync_channel, thread};

/// A lock without poison: who panics with it locked sees to what it leaves (`health`).
#[derive(Debug, Default)]
pub(crate) struct Mutex<T>(system::Mutex<T>);

#[derive(Debug)]
pub(crate) struct MutexGuard<'a, T> {
    /// None while it waits.
    locked: Option<system::MutexGuard<'a, T>>,
    #[cfg(shuttle)]
    mutex: &'a Mutex<T>,
}

impl<T> Mutex<T> {
    pub fn new(value: T) -> Self {
        Self(system::Mutex::new(value))
    }

    pub fn lock(&self) -> MutexGuard<'_, T> {
        MutexGuard {
            locked: Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)),
            #[cfg(shuttle)]
            mutex: self,
        }
    }
}

impl<T> Deref for MutexGuard<'_, T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.locked.as_deref().expect("locked")
    }
}

impl<T> DerefMut for MutexGuard<'_, T> {
    fn deref_mut(&mut self) -> &mut T {
        self.locked.as_deref_mut().expect("locked")
    }
}

#[derive(Debug, Default)]
pub(crate) struct Condvar(system::Condvar);

/// Whether the time was over.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitTimeoutResult(bool);

impl WaitTimeoutResult {
    pub fn timed_out(self) -> bool {
        self.0
    }
}

impl Condvar {
    pub fn new() -> Self {
        Self::default()
    }

    pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
        let locked = guard.locked.take().expect("locked");
        guard.locked = Some(self.0.wait(locked).unwrap_or_else(PoisonError::into_inner));
    }

    #[cfg(not(shuttle))]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        let locked = guard.locked.take().expect("locked");
        let (locked, waited) = self.0.wait_timeout(locked, time).unwrap_or_else(PoisonError::into_inner);
        guard.locked = Some(locked);
        WaitTimeoutResult(waited.timed_out())
    }

    /// Wakes early, as a condition variable may.
    #[cfg(shuttle)]
    pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
        drop(guard.locked.take());
        pause(time);
        guard.locked = guard.mutex.lock().locked.take();
        WaitTimeoutResult(true)
    }

    pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, until: Instant) -> WaitTimeoutResult {
        let left = until.saturating_duration_since(now());
        self.wait_for(guard, left)
    }

    pub fn notify_one(&self) {
        self.0.notify_one();
    }

    pub fn notify_all(&self) {
        self.0.notify_all();
    }
}
