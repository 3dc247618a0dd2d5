//! What the background threads are asked to do.
//!
//! Invariant: what was asked for is done before they end, and nothing is taken once they do.

use std::sync::Arc;
use std::time::Duration;

use crate::regions::RegionTable;
use crate::sync::thread::JoinHandle;
use crate::sync::{Condvar, Mutex};

#[derive(Debug)]
pub(crate) struct Housekeeper<W> {
    tasks: Mutex<Tasks<W>>,
    wake: Condvar,
    files: Mutex<Files>,
    emptied: Condvar,
    pub threads: Mutex<Vec<JoinHandle<()>>>,
}

/// What the housekeeper is asked to do, all at once.
#[derive(Debug)]
pub(crate) struct Asked<W> {
    pub retired: Vec<Arc<RegionTable>>,
    pub writes: Vec<W>,
}

#[derive(Debug)]
struct Tasks<W> {
    retired: Vec<Arc<RegionTable>>,
    /// Segments in `WritingBack`, whose write may create a file and take disk space first.
    writes: Vec<W>,
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

impl<W> Housekeeper<W> {
    pub fn new() -> Self {
        let tasks = Tasks {
            retired: Vec::new(),
            writes: Vec::new(),
            woken: false,
            stopping: false,
            prefault_off: false,
        };
        Self {
            tasks: Mutex::new(tasks),
            wake: Condvar::new(),
            files: Mutex::default(),
            emptied: Condvar::new(),
            threads: Mutex::default(),
        }
    }

    /// What there is to do; `None` once it stops and nothing is left.
    pub fn take(&self) -> Option<Asked<W>> {
        let mut tasks = self.tasks.lock();
        if tasks.stopping && tasks.retired.is_empty() && tasks.writes.is_empty() {
            return None;
        }
        tasks.woken = false;
        Some(Asked { retired: std::mem::take(&mut tasks.retired), writes: std::mem::take(&mut tasks.writes) })
    }

    /// Sleeps until there is something to do; no longer than `at_most`.
    pub fn sleep(&self, at_most: Option<Duration>) {
        let mut tasks = self.tasks.lock();
        if tasks.woken || tasks.stopping {
            return;
        }
        match at_most {
            Some(time) => drop(self.wake.wait_for(&mut tasks, time)),
            None => self.wake.wait(&mut tasks),
        }
    }

    /// Regions whose files are to be closed; none once it stops.
    pub fn take_emptied(&self) -> Vec<Arc<RegionTable>> {
        let mut files = self.files.lock();
        while files.emptied.is_empty() && !files.stopping {
            self.emptied.wait(&mut files);
        }
        std::mem::take(&mut files.emptied)
    }

    /// Has the housekeeper end.
    pub fn stop(&self) {
        self.tasks.lock().stopping = true;
        self.wake.notify_one();
    }

    /// Has the thread that closes files end.
    pub fn stop_files(&self) {
        self.files.lock().stopping = true;
        self.emptied.notify_one();
    }

    /// Writes that nobody has begun.
    pub fn take_writes(&self) -> Vec<W> {
        std::mem::take(&mut self.tasks.lock().writes)
    }

    /// Faulting in ahead failed: demand does it from now on.
    pub fn stop_prefaulting(&self) {
        self.tasks.lock().prefault_off = true;
    }

    pub fn prefaults(&self) -> bool {
        !self.tasks.lock().prefault_off
    }

    /// Something changed that may need work.
    pub fn wake(&self) {
        let mut tasks = self.tasks.lock();
        if !tasks.woken {
            tasks.woken = true;
            self.wake.notify_one();
        }
    }

    /// Whether it was woken since it last looked, or this was last asked.
    #[cfg(test)]
    pub fn was_woken(&self) -> bool {
        std::mem::take(&mut self.tasks.lock().woken)
    }

    /// Has write-backs started for a caller who must not wait for the disk; gives them back if there is no thread for
    /// it any more.
    pub fn launch(&self, writes: Vec<W>) -> Vec<W> {
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
