//! What becomes of a store in which a check failed: it serves nothing any more, and says why.
//!
//! Invariant: a panic while the ledger is locked, or on a thread of the store, is remembered; every later call gets it as an
//! error, and whoever waits is woken.

use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use warmset_platform::fork::Origin;

use crate::error::Error;
use crate::failure::panic_text;

const ELSEWHERE: &str = "the store belongs to the process that this one was forked from: open one here, or save a region and open it";

/// Whether a store works: not once a check in it has failed, nor in a process that was forked from its own.
pub(crate) struct Health {
    /// The process that opened it.
    origin: Origin,
    failed: AtomicBool,
    /// Why.
    problem: OnceLock<String>,
    /// Wakes whoever waits.
    alarm: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Health {
    pub fn new() -> Self {
        Self {
            origin: Origin::here(),
            failed: AtomicBool::new(false),
            problem: OnceLock::new(),
            alarm: OnceLock::new(),
        }
    }

    /// What is to be done when it fails.
    pub fn set_alarm(&self, alarm: impl Fn() + Send + Sync + 'static) {
        drop(self.alarm.set(Box::new(alarm)));
    }

    /// # Errors
    /// [`Error::Failed`], and [`Error::Misuse`] in a process that was forked from the store's. Two loads on the way of
    /// every call.
    pub fn check(&self) -> Result<(), Error> {
        let failed = self.failed.load(Ordering::Acquire);
        if !failed && self.origin.is_here() {
            return Ok(());
        }
        if !failed {
            return Err(Error::misuse(ELSEWHERE));
        }
        Err(Error::Failed { problem: self.problem.get().cloned().unwrap_or_default() })
    }

    /// Whether this is the process that opened it.
    pub fn is_here(&self) -> bool {
        self.origin.is_here()
    }

    /// Panics where the store's memory is not mapped, before a signal ends the process.
    pub fn expect_here(&self) {
        assert!(self.is_here(), "{ELSEWHERE}");
    }

    /// Has every later call fail, and wakes whoever waits.
    pub fn fail(&self, problem: String) {
        // The first problem is the one that matters.
        let _ = self.problem.set(problem);
        self.failed.store(true, Ordering::Release);
        if let Some(alarm) = self.alarm.get() {
            alarm();
        }
    }

    /// Runs what a thread of the store does. A panic becomes the store's failure, so that the thread goes on and
    /// nobody waits for what it was about.
    pub fn contain(&self, work: impl FnOnce()) {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(work)) {
            self.fail(panic_text(&*panic));
        }
    }
}

impl fmt::Debug for Health {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Health").field("problem", &self.problem.get()).finish_non_exhaustive()
    }
}
