//! Locks, threads and time: the system's; under `--cfg shuttle` those of a scheduler that a seed drives, so that
//! `tests/simulated.rs` can run a failure again.
//!
//! Invariant: whoever waits in this crate waits here, so that the scheduler sees it.

#[cfg(not(shuttle))]
mod system {
    pub use std::sync::mpsc::sync_channel;
    pub use std::thread;
    use std::time::{Duration, Instant};

    pub use parking_lot::{Condvar, Mutex, MutexGuard};

    pub fn now() -> Instant {
        Instant::now()
    }

    /// Lets others do something, about so long.
    pub fn pause(time: Duration) {
        thread::sleep(time);
    }
}

#[cfg(shuttle)]
mod simulated {
    use std::cell::Cell;
    use std::ops::{Deref, DerefMut};
    use std::sync::LazyLock;
    use std::time::{Duration, Instant};

    pub use shuttle::sync::mpsc::sync_channel;
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

    /// As that of `parking_lot`: without poison.
    #[derive(Debug, Default)]
    pub struct Mutex<T>(shuttle::sync::Mutex<T>);

    #[derive(Debug)]
    pub struct MutexGuard<'a, T>(Option<shuttle::sync::MutexGuard<'a, T>>, &'a Mutex<T>);

    impl<T> Mutex<T> {
        pub fn new(value: T) -> Self {
            Self(shuttle::sync::Mutex::new(value))
        }

        pub fn lock(&self) -> MutexGuard<'_, T> {
            MutexGuard(Some(self.0.lock().unwrap_or_else(|poisoned| poisoned.into_inner())), self)
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;

        fn deref(&self) -> &T {
            self.0.as_deref().expect("locked")
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_deref_mut().expect("locked")
        }
    }

    #[derive(Debug, Default)]
    pub struct Condvar(shuttle::sync::Condvar);

    /// Whether the time was over.
    #[derive(Debug, Clone, Copy)]
    pub struct WaitTimeoutResult(bool);

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
            let locked = guard.0.take().expect("locked");
            guard.0 = Some(self.0.wait(locked).unwrap_or_else(|poisoned| poisoned.into_inner()));
        }

        /// Wakes early, as a condition variable may.
        pub fn wait_for<T>(&self, guard: &mut MutexGuard<'_, T>, time: Duration) -> WaitTimeoutResult {
            drop(guard.0.take());
            pause(time);
            guard.0 = guard.1.lock().0.take();
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
}

#[cfg(shuttle)]
pub(crate) use simulated::*;
#[cfg(not(shuttle))]
pub(crate) use system::*;
