//! The ledger's lock, and who waits for frames.
//!
//! Invariant: a thread that panics with the ledger locked ends the store, and nobody gets the ledger any more. Whoever may
//! wait is counted before it looks, so that a change that comes after the look wakes it.

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicUsize, Ordering, fence};
use std::time::Instant;

use crate::error::Error;
use crate::failure::broken_here;
use crate::health::Health;
use crate::ledger::Ledger;
use crate::sync::{Condvar, Mutex, MutexGuard};

pub(crate) struct Space {
    ledger: Mutex<Ledger>,
    /// Notified when frames may have become available.
    changed: Condvar,
    waiters: AtomicUsize,
    pub health: Health,
}

impl Space {
    pub fn new(ledger: Ledger) -> Self {
        Self {
            ledger: Mutex::new(ledger),
            changed: Condvar::new(),
            waiters: AtomicUsize::new(0),
            health: Health::new(),
        }
    }

    /// # Errors
    /// [`Error::Failed`] once somebody has panicked with the ledger locked.
    pub fn lock(&self) -> Result<LedgerGuard<'_>, Error> {
        // Before it is locked: in a forked process it may be locked for ever.
        self.health.check()?;
        let guard = self.lock_for_figures();
        self.health.check().map(|()| guard)
    }

    /// For a look at figures, whatever state the store is in.
    pub fn lock_for_figures(&self) -> LedgerGuard<'_> {
        LedgerGuard::new(self.ledger.lock(), &self.health)
    }

    /// Frames may have become available: wakes whoever waits for some. Called after the change is visible.
    pub fn announce(&self) {
        fence(Ordering::SeqCst);
        if self.waiters.load(Ordering::SeqCst) > 0 {
            drop(self.lock());
            self.wake_all();
        }
    }

    pub fn wake_all(&self) {
        self.changed.notify_all();
    }
}

/// Somebody who may wait for frames. It is counted before it looks for frames, so that a transfer that ends
/// after the look finds it counted, and comes through the ledger's lock to wake it.
pub(crate) struct SpaceWaiter<'a> {
    space: &'a Space,
}

impl<'a> SpaceWaiter<'a> {
    pub fn new(space: &'a Space) -> Self {
        space.waiters.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        Self { space }
    }

    /// Sleeps until a transfer ends or frames are freed.
    pub fn wait(&self, ledger: LedgerGuard<'_>) {
        ledger.wait(&self.space.changed);
    }

    /// The same, no longer than until `deadline`; false if it has passed.
    pub fn wait_until(&self, ledger: LedgerGuard<'_>, deadline: Instant) -> bool {
        ledger.wait_until(&self.space.changed, deadline)
    }
}

impl Drop for SpaceWaiter<'_> {
    fn drop(&mut self) {
        self.space.waiters.fetch_sub(1, Ordering::SeqCst);
    }
}

/// The locked ledger. Dropped by a panic, it makes the store fail: see [`Health`].
pub(crate) struct LedgerGuard<'a> {
    guard: MutexGuard<'a, Ledger>,
    health: &'a Health,
    was_panicking: bool,
}

impl<'a> LedgerGuard<'a> {
    fn new(guard: MutexGuard<'a, Ledger>, health: &'a Health) -> Self {
        Self { guard, health, was_panicking: std::thread::panicking() }
    }

    /// Sleeps until frames may have become available; the ledger may be in ruins then, and has to be locked anew.
    fn wait(mut self, space: &Condvar) {
        space.wait(&mut self.guard);
    }

    /// The same for a limited time; false if it is over.
    fn wait_until(mut self, space: &Condvar, deadline: Instant) -> bool {
        !space.wait_until(&mut self.guard, deadline).timed_out()
    }
}

impl Deref for LedgerGuard<'_> {
    type Target = Ledger;

    fn deref(&self) -> &Ledger {
        &self.guard
    }
}

impl DerefMut for LedgerGuard<'_> {
    fn deref_mut(&mut self) -> &mut Ledger {
        &mut self.guard
    }
}

impl Drop for LedgerGuard<'_> {
    fn drop(&mut self) {
        if !self.was_panicking && std::thread::panicking() {
            self.health.fail(broken_here());
        }
    }
}
