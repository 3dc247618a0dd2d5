//! The background threads: one retires regions, faults frames in ahead of demand, and gives surplus memory back; the
//! other closes the files of regions that are gone, which takes a disk seconds where it is told of each freed block.
//!
//! Invariant: the ledger is never locked during a system call that touches pages; the frame in question is
//! counted as changing meanwhile. One chunk is done at a time, so that a release never waits long, and a budget that
//! falls waits for no file: past a container's limit the kernel kills.

use std::io;
use std::sync::Arc;
use std::time::Duration;

use warmset_placement::prefault_target;

use crate::FRAME_BYTES;
use crate::frames::Changing;
use crate::keeper::Asked;
use crate::ledger::{Evicted, Writes};
use crate::shared::Shared;
use crate::sync::pause;
use crate::sync::thread::{self, JoinHandle};

/// What one round did.
#[derive(PartialEq, Eq)]
enum Round {
    Worked,
    Idle,
    /// Waits for transfers that are in flight.
    Blocked,
}

impl Shared {
    pub fn start_housekeeping(self: &Arc<Self>) -> io::Result<()> {
        self.spawn("warmset-keeper", Shared::keep_house)?;
        if let Err(error) = self.spawn("warmset-files", Shared::close_files) {
            self.stop_housekeeping();
            return Err(error);
        }
        self.keeper.wake();
        Ok(())
    }

    fn spawn(self: &Arc<Self>, name: &str, work: fn(&Shared)) -> io::Result<()> {
        let shared = Arc::clone(self);
        let run = move || shared.space.health.contain(|| work(&shared));
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        self.keeper.threads.lock().push(thread);
        Ok(())
    }

    pub fn stop_housekeeping(&self) {
        self.keeper.stop();
        let mut threads = std::mem::take(&mut *self.keeper.threads.lock()).into_iter();
        // In this order: what the first retires, the second closes.
        join(threads.next());
        // Those of a store that has failed are started by nobody.
        drop(self.keeper.take_writes());
        self.keeper.stop_files();
        join(threads.next());
    }

    fn close_files(&self) {
        loop {
            let emptied = self.keeper.take_emptied();
            if emptied.is_empty() {
                return;
            }
            emptied.iter().for_each(|table| self.forget(table));
        }
    }

    fn keep_house(&self) {
        while let Some(Asked { retired, writes }) = self.keeper.take() {
            if self.check().is_err() {
                return;
            }
            let (counted, writes): (Vec<_>, _) = writes.into_iter().unzip();
            self.launch_writes(writes);
            drop(counted);
            retired.iter().for_each(|table| self.retire(table));
            match self.adjust_pool() {
                Round::Worked => {}
                Round::Blocked => self.keeper.sleep(Some(Duration::from_millis(2))),
                Round::Idle => self.keeper.sleep(None),
            }
        }
    }

    /// One step towards a pool that is within its budget and has frames ready.
    fn adjust_pool(&self) -> Round {
        let Ok(mut ledger) = self.lock() else { return Round::Idle };
        let budget_frames = ledger.budget_frames();
        // Free frames first: they go even where everything else is pinned.
        if ledger.frames().faulted() > budget_frames && !self.pool.keeps_pages() {
            if let Some(frame) = ledger.frames_mut().begin_drain() {
                drop(ledger);
                return if self.drain_frame(frame) { Round::Worked } else { Round::Idle };
            }
        }
        if ledger.is_over_budget() {
            drop(ledger);
            return self.demote_one();
        }
        let frame_bytes = FRAME_BYTES as u64;
        let used = ledger.frames().used();
        let target = prefault_target(used * frame_bytes, budget_frames * frame_bytes) / frame_bytes;
        if ledger.frames().warm() >= target || !self.keeper.prefaults() {
            return Round::Idle;
        }
        let Some(frame) = ledger.frames_mut().begin_fill() else { return Round::Idle };
        drop(ledger);
        let filled = self.pool.fill(&frame);
        if let Ok(mut ledger) = self.lock() {
            ledger.frames_mut().end_fill(frame, filled.is_ok());
        }
        self.space.announce();
        if let Err(error) = filled {
            tracing::warn!(%error, "frames are not faulted in ahead of demand");
            self.keeper.stop_prefaulting();
        }
        Round::Worked
    }

    /// The pool holds more than its budget: takes one victim, or starts writing some.
    fn demote_one(&self) -> Round {
        let mut writes = Writes::new();
        let evicted = {
            let Ok(mut ledger) = self.lock() else { return Round::Idle };
            let evicted = ledger.evict_one(false, &mut writes);
            if let Evicted::Some(demoted) = evicted {
                self.count_demotions(&ledger, demoted);
            }
            evicted
        };
        self.launch_writes(writes);
        match evicted {
            Evicted::Some(_) => Round::Worked,
            Evicted::Soon => Round::Blocked,
            // Pinned or unwritable: the next unpin or release wakes this thread.
            Evicted::Nothing | Evicted::Stuck => Round::Idle,
        }
    }

    /// Gives the pages of a frame that is changing back to the kernel; false if it refuses.
    pub fn drain_frame(&self, frame: Changing) -> bool {
        let drained = self.pool.drain(&frame);
        if let Ok(mut ledger) = self.lock() {
            ledger.frames_mut().end_drain(frame, drained.is_ok());
        }
        self.space.announce();
        if let Err(error) = &drained {
            tracing::warn!(%error, "a free frame keeps its pages");
        }
        drained.is_ok()
    }

    pub fn drain_transfers(&self) {
        while self.transfers.load(std::sync::atomic::Ordering::Acquire) > 0 {
            pause(Duration::from_millis(1));
        }
    }
}

fn join(thread: Option<JoinHandle<()>>) {
    // The last reference may go on one of them.
    if let Some(thread) = thread.filter(|thread| thread.thread().id() != thread::current().id()) {
        drop(thread.join());
    }
}
