//! The background threads: one retires regions, faults frames in ahead of demand, and gives surplus memory back; the
//! other closes the files of regions that are gone, which takes a disk seconds where it is told of each freed block.
//!
//! Invariant: the ledger is never locked during a system call that touches pages; the frame in question is
//! counted as changing meanwhile. One chunk is done at a time, so that a release never waits long, and a budget that
//! falls waits for no file: past a container's limit the kernel kills.

use std::io;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;

use warmset_placement::prefault_target;

use crate::FRAME_BYTES;
use crate::frames::Changing;
use crate::ledger::{Evicted, Writes};
use crate::store::{RegionTable, Shared};
use crate::sync::thread::{self, JoinHandle};
use crate::sync::{Condvar, Mutex, pause};
use crate::transfer::InFlight;

#[derive(Debug, Default)]
pub(crate) struct Housekeeper {
    tasks: Mutex<Tasks>,
    wake: Condvar,
    files: Mutex<Files>,
    emptied: Condvar,
    threads: Mutex<Vec<JoinHandle<()>>>,
    shared: OnceLock<Weak<Shared>>,
}

#[derive(Debug, Default)]
struct Tasks {
    retired: Vec<Arc<RegionTable>>,
    /// Segments in `WritingBack`, whose write may create a file and take disk space first.
    writes: Vec<InFlight>,
    woken: bool,
    stopping: bool,
    /// Faulting in failed once: demand does it from now on.
    prefault_off: bool,
}

#[derive(Debug, Default)]
struct Files {
    /// Regions without segments, whose files are open.
    emptied: Vec<Arc<RegionTable>>,
    stopping: bool,
}

impl Housekeeper {
    /// Something changed that may need work.
    pub fn wake(&self) {
        let mut tasks = self.tasks.lock();
        if !tasks.woken {
            tasks.woken = true;
            self.wake.notify_one();
        }
    }

    /// Has write-backs started for a caller who must not wait for the disk; gives them back if there is no thread for
    /// it any more.
    pub fn launch(&self, writes: Vec<InFlight>) -> Vec<InFlight> {
        let mut tasks = self.tasks.lock();
        if tasks.stopping {
            return writes;
        }
        tasks.writes.extend(writes);
        tasks.woken = true;
        self.wake.notify_one();
        Vec::new()
    }

    pub fn retire(&self, table: Arc<RegionTable>) {
        let mut tasks = self.tasks.lock();
        tasks.retired.push(table);
        tasks.woken = true;
        self.wake.notify_one();
    }

    /// Has a region forgotten; gives it back if there is no thread for it any more.
    pub fn forget(&self, table: Arc<RegionTable>) -> Option<Arc<RegionTable>> {
        let mut files = self.files.lock();
        if files.stopping {
            return Some(table);
        }
        files.emptied.push(table);
        self.emptied.notify_one();
        None
    }
}

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
        drop(self.keeper.shared.set(Arc::downgrade(self)));
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
        let run = move || shared.contain(|| work(&shared));
        let thread = thread::Builder::new().name(name.into()).spawn(run)?;
        self.keeper.threads.lock().push(thread);
        Ok(())
    }

    pub fn stop_housekeeping(&self) {
        {
            let mut tasks = self.keeper.tasks.lock();
            tasks.stopping = true;
            self.keeper.wake.notify_one();
        }
        let mut threads = std::mem::take(&mut *self.keeper.threads.lock()).into_iter();
        // In this order: what the first retires, the second closes.
        join(threads.next());
        // Those of a store that has failed are started by nobody.
        let left = std::mem::take(&mut self.keeper.tasks.lock().writes);
        drop(left);
        {
            let mut files = self.keeper.files.lock();
            files.stopping = true;
            self.keeper.emptied.notify_one();
        }
        join(threads.next());
    }

    fn close_files(&self) {
        loop {
            let emptied = {
                let mut files = self.keeper.files.lock();
                while files.emptied.is_empty() && !files.stopping {
                    self.keeper.emptied.wait(&mut files);
                }
                std::mem::take(&mut files.emptied)
            };
            if emptied.is_empty() {
                return;
            }
            for table in &emptied {
                self.forget(table);
            }
        }
    }

    /// A counted reference for a transfer's callback.
    pub fn self_reference(&self) -> Arc<Shared> {
        let weak = self.keeper.shared.get().expect("set before the store is handed out");
        weak.upgrade().expect("a method of it is running")
    }

    fn keep_house(&self) {
        loop {
            let (retired, writes) = {
                let mut tasks = self.keeper.tasks.lock();
                let has_work = !tasks.retired.is_empty() || !tasks.writes.is_empty();
                if tasks.stopping && !has_work || self.check().is_err() {
                    return;
                }
                tasks.woken = false;
                (std::mem::take(&mut tasks.retired), std::mem::take(&mut tasks.writes))
            };
            self.launch_writes(writes.iter().map(|write| Arc::clone(&write.segment)).collect());
            drop(writes);
            for table in &retired {
                self.retire(table);
            }
            let round = self.adjust_pool();
            let mut tasks = self.keeper.tasks.lock();
            if tasks.woken || tasks.stopping || round == Round::Worked {
                continue;
            }
            match round {
                Round::Blocked => drop(self.keeper.wake.wait_for(&mut tasks, Duration::from_millis(2))),
                _ => self.keeper.wake.wait(&mut tasks),
            }
        }
    }

    /// One step towards a pool that is within its budget and has frames ready.
    fn adjust_pool(&self) -> Round {
        let Ok(mut ledger) = self.lock() else { return Round::Idle };
        let budget_frames = ledger.budget_frames();
        // Free frames first: they go even where everything else is held.
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
        if ledger.frames().warm() >= target || self.keeper.tasks.lock().prefault_off {
            return Round::Idle;
        }
        let Some(frame) = ledger.frames_mut().begin_fill() else { return Round::Idle };
        drop(ledger);
        let filled = self.pool.fill(&frame);
        if let Ok(mut ledger) = self.lock() {
            ledger.frames_mut().end_fill(frame, filled.is_ok());
        }
        self.announce_space();
        if let Err(error) = filled {
            tracing::warn!(%error, "frames are not faulted in ahead of demand");
            self.keeper.tasks.lock().prefault_off = true;
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
            // Held or unwritable: the next unpin or release wakes this thread.
            Evicted::Nothing | Evicted::Stuck => Round::Idle,
        }
    }

    /// Gives the pages of a frame that is changing back to the kernel; false if it refuses.
    pub fn drain_frame(&self, frame: Changing) -> bool {
        let drained = self.pool.drain(&frame);
        if let Ok(mut ledger) = self.lock() {
            ledger.frames_mut().end_drain(frame, drained.is_ok());
        }
        self.announce_space();
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
