//! What this process does, for other processes to read: one small file in a private directory, written again each second.
//!
//! Whoever has something to say gives a function that says it in JSON ([`publish`]). A thread of its own calls it and
//! writes the file; nobody who works takes part in that. [`read`] finds the files of all processes.
//!
//! Invariants: publishing never fails for its caller and never makes it wait for more than the writing of one file in
//! memory. Only the user can read the file (and root). A reader sees a whole file or none. A file whose process has ended
//! is told by its process number and start time, and removed by the next process that publishes.

mod file;
mod place;

use std::io;
use std::ptr;
use std::sync::atomic::{AtomicPtr, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};

use crate::fork::Origin;
use file::StatusFile;
use file::read_directory;
pub use file::{Found, FoundIn, STATUS_BYTES_MAX};
pub use place::VARIABLE;
use place::{Wanted, directories};

/// Version of the files.
pub const SCHEMA: u32 = 1;
/// Between two writings.
const EVERY: Duration = Duration::from_secs(1);
/// All this takes at most one in so many parts of a processor's time.
const REST: u32 = 1000;

/// Says in JSON what somebody does; `None` once there is nothing more to say.
type Source = Arc<dyn Fn() -> Option<String> + Send + Sync>;

#[derive(Default)]
struct Sources {
    /// By number, in order.
    all: Vec<(u64, Source)>,
    next: u64,
    /// A thread writes.
    runs: bool,
    file: Option<StatusFile>,
}

/// Of one process: a child that is forked has another.
struct Publisher {
    origin: Origin,
    sources: Mutex<Sources>,
    changed: Condvar,
}

static CURRENT: AtomicPtr<Publisher> = AtomicPtr::new(ptr::null_mut());

/// This process's. In a forked child the parent's is left as it is: its lock may be held by a thread that is not there.
fn publisher() -> &'static Publisher {
    let mut current = CURRENT.load(Ordering::Acquire);
    loop {
        // SAFETY: null, or from `Box::leak` below: never freed.
        if let Some(found) = unsafe { current.as_ref() }.filter(|found| found.origin.is_here()) {
            return found;
        }
        let (origin, sources, changed) = (Origin::here(), Mutex::default(), Condvar::new());
        let made: &'static mut Publisher = Box::leak(Box::new(Publisher { origin, sources, changed }));
        match CURRENT.compare_exchange(current, made, Ordering::AcqRel, Ordering::Acquire) {
            Ok(_) => current = CURRENT.load(Ordering::Acquire),
            // Somebody was faster; this one is a few bytes that nobody uses.
            Err(theirs) => current = theirs,
        }
    }
}

/// Something that is published until this is dropped.
#[derive(Debug)]
pub struct Published {
    number: u64,
    origin: Origin,
}

/// Publishes what `source` says, a JSON object, as long as the value that is returned lives. `source` is called once a
/// second, or less often if it takes long, on a thread of its own.
pub fn publish(source: impl Fn() -> Option<String> + Send + Sync + 'static) -> Published {
    let publisher = publisher();
    let mut sources = publisher.lock();
    let number = sources.next;
    sources.next += 1;
    sources.all.push((number, Arc::new(source)));
    // Nothing is asked where nothing may be written.
    if !sources.runs && !directories(Wanted::ToWrite).is_empty() {
        // Without a thread nothing is published, and nothing else is lost.
        let started = thread::Builder::new().name("warmset-status".into()).spawn(|| publisher.run());
        sources.runs = started.is_ok();
    }
    Published { number, origin: publisher.origin }
}

impl Drop for Published {
    fn drop(&mut self) {
        // In a forked child there is neither the thread nor a file.
        if !self.origin.is_here() {
            return;
        }
        let publisher = publisher();
        let mut sources = publisher.lock();
        let at = sources.all.iter().position(|(number, _)| *number == self.number);
        let source = at.map(|at| sources.all.remove(at));
        if sources.all.is_empty() {
            sources.file = None;
            publisher.changed.notify_all();
        }
        drop(sources);
        // What it holds may want to be dropped without the lock.
        drop(source);
    }
}

impl Publisher {
    fn lock(&self) -> MutexGuard<'_, Sources> {
        self.sources.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes until there is nothing to say.
    fn run(&self) {
        let mut spent = cpu_time();
        let mut sources = self.lock();
        while !sources.all.is_empty() {
            let asked: Vec<Source> = sources.all.iter().map(|(_, source)| Arc::clone(source)).collect();
            drop(sources);
            let parts: Vec<String> = asked.iter().filter_map(|source| source()).collect();
            drop(asked);
            // With the writing of the turn before: a file says how long it will stay.
            let now = cpu_time();
            let pause = (now.saturating_sub(spent) * REST).max(EVERY);
            spent = now;
            sources = self.lock();
            if sources.all.is_empty() {
                break;
            }
            // A full or missing directory is tried again at the next turn.
            let _ = write(&mut sources.file, &parts, pause);
            let waited = self.changed.wait_timeout_while(sources, pause, |sources| !sources.all.is_empty());
            sources = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        sources.runs = false;
    }
}

/// Of this thread: on a busy machine it waits for its turn, which costs nobody anything.
fn cpu_time() -> Duration {
    Duration::try_from(clock_gettime(ClockId::ThreadCPUTime)).unwrap_or_default()
}

fn write(slot: &mut Option<StatusFile>, parts: &[String], pause: Duration) -> io::Result<()> {
    let mut file = match slot.take() {
        Some(file) => file,
        None => StatusFile::begin(directories(Wanted::ToWrite))?,
    };
    file.write(parts, pause)?;
    *slot = Some(file);
    Ok(())
}

/// The files of all processes that this one may read.
#[must_use]
pub fn read() -> FoundIn {
    let mut all = FoundIn::default();
    for place in directories(Wanted::ToRead) {
        let found = read_directory(&place);
        all.files.extend(found.files);
        all.problems.extend(found.problems);
    }
    all
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU64;
    use std::sync::mpsc::sync_channel;
    use std::time::Instant;

    use super::*;

    #[test]
    fn what_is_published_is_asked_for_until_it_is_dropped() {
        let (asked, heard) = sync_channel(0);
        let alive = Arc::new(AtomicU64::new(0));
        let held = Arc::clone(&alive);
        let published = publish(move || {
            held.fetch_add(1, Ordering::Relaxed);
            // Whoever does not listen any more has dropped it.
            let _ = asked.send(());
            None
        });
        heard.recv_timeout(Duration::from_secs(60)).expect("asked");
        drop(published);
        drop(heard);
        let begin = Instant::now();
        while Arc::strong_count(&alive) > 1 {
            assert!(begin.elapsed() < Duration::from_secs(60), "its source is still held");
            thread::yield_now();
        }
    }
}
