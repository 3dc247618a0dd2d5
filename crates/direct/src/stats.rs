//! One slot for each thread: how many operations it is in, and what it has done. A slot has cache lines of its own.
//!
//! Invariant: whoever unmaps a file first says that nothing shows it, then calls [`see_all`], then waits until each slot
//! was idle once. An operation enters its slot first and looks at the descriptor after that. So either the operation finds
//! that the descriptor shows nothing, or the slot is seen to be active. The order of the operation's two steps needs no
//! locked instruction, which would cost as much as a small copy: the kernel makes all threads pass a barrier in
//! [`see_all`] instead. Where it does not offer that, and in the slot that threads share, entering is a locked one.

use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering, compiler_fence};

use crate::kernel::{self, raw};
use crate::thread;

pub const SLOTS: usize = 256;
/// The slot of all threads for which there is none of their own.
const COMMON: usize = SLOTS - 1;

#[repr(align(128))]
pub struct Slot {
    /// Operations that may use a mapping now; more than one in a signal handler, or when threads share the slot.
    active: AtomicU32,
    /// Only one thread, and its signal handlers, enter here, and [`see_all`] works.
    is_own: AtomicBool,
    counters: [AtomicU64; COUNTERS],
}

const COUNTERS: usize = 5;

/// What is counted; each is a key of the line in `WARMSET_DIRECT_STATS`.
#[derive(Clone, Copy)]
pub enum Counter {
    Reads,
    ReadBytes,
    Writes,
    WriteBytes,
    Passed,
}

const KEYS: [&str; COUNTERS] = ["reads", "read_bytes", "writes", "written_bytes", "passed_on"];

static ALL: [Slot; SLOTS] = [const {
    Slot {
        active: AtomicU32::new(0),
        is_own: AtomicBool::new(false),
        counters: [const { AtomicU64::new(0) }; COUNTERS],
    }
}; SLOTS];
static THREADS: AtomicUsize = AtomicUsize::new(0);
/// The kernel has been told that this process will ask for barriers.
static HAS_BARRIERS: AtomicBool = AtomicBool::new(false);

/// When the library is loaded: with other threads running this would take milliseconds.
pub fn prepare_barriers() {
    HAS_BARRIERS.store(kernel::prepare_barriers(), Ordering::Relaxed);
}

/// All that threads did in their slots before this call is seen after it, and what was stored before it is seen by all
/// that they do after it; false if the kernel refuses.
pub fn see_all() -> bool {
    // A child of `fork` may have to tell the kernel again.
    !HAS_BARRIERS.load(Ordering::Relaxed)
        || kernel::pass_barriers()
        || (kernel::prepare_barriers() && kernel::pass_barriers())
}

/// This thread's slot. With more than [`SLOTS`] threads the later ones share one, which costs time only.
#[inline(always)]
pub fn mine() -> &'static Slot {
    match thread::own().slot.get() {
        0 => first_of_thread(),
        slot => &ALL[(slot - 1) as usize % SLOTS],
    }
}

/// What tells this thread apart, other than 0; none if there are too many.
pub fn own_slot() -> Option<u32> {
    mine();
    Some(thread::own().slot.get()).filter(|&slot| slot as usize <= COMMON)
}

#[cold]
#[inline(never)]
fn first_of_thread() -> &'static Slot {
    let index = THREADS.fetch_add(1, Ordering::SeqCst).min(COMMON);
    let slot = &ALL[index];
    slot.is_own.store(index != COMMON && HAS_BARRIERS.load(Ordering::Relaxed), Ordering::Relaxed);
    thread::own().slot.set(index as u32 + 1);
    slot
}

/// Slots that any thread has had.
pub fn used() -> &'static [Slot] {
    &ALL[..THREADS.load(Ordering::SeqCst).clamp(1, SLOTS)]
}

impl Slot {
    #[inline(always)]
    pub fn enter(&'static self) -> Active {
        if self.is_own.load(Ordering::Relaxed) {
            // A handler that runs in between leaves what it found.
            self.active.store(self.active.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
            // The processor's part of the order is in `see_all`.
            compiler_fence(Ordering::SeqCst);
        } else {
            self.active.fetch_add(1, Ordering::SeqCst);
        }
        Active(self)
    }

    pub fn is_idle(&self) -> bool {
        self.active.load(Ordering::SeqCst) == 0
    }

    /// Not by a locked instruction, which would cost as much as a small copy: a count can be lost where a handler
    /// interrupts this, or threads share the slot.
    pub fn count(&self, counter: Counter, more: u64) {
        let counter = &self.counters[counter as usize];
        counter.store(counter.load(Ordering::Relaxed).wrapping_add(more), Ordering::Relaxed);
    }

    /// Whether a counter is at a multiple of `every`.
    pub fn is_time_for(&self, counter: Counter, every: u64) -> bool {
        self.counters[counter as usize].load(Ordering::Relaxed) % every == 0
    }

    fn restart(&self, active: u32) {
        self.active.store(active, Ordering::SeqCst);
        for counter in &self.counters {
            counter.store(0, Ordering::Relaxed);
        }
    }
}

/// In an operation, until dropped: no mapping that its descriptor showed is taken away.
pub struct Active(&'static Slot);

impl Active {
    pub fn slot(&self) -> &'static Slot {
        self.0
    }
}

impl Drop for Active {
    fn drop(&mut self) {
        let active = &self.0.active;
        if self.0.is_own.load(Ordering::Relaxed) {
            active.store(active.load(Ordering::Relaxed).wrapping_sub(1), Ordering::Release);
        } else {
            active.fetch_sub(1, Ordering::Release);
        }
    }
}

/// In a child of `fork` no other thread is left; this one may be in an operation that a signal handler interrupted.
pub fn restart_in_child() {
    let own = mine();
    for slot in used() {
        let active = if core::ptr::eq(slot, own) { slot.active.load(Ordering::SeqCst) } else { 0 };
        slot.restart(active);
    }
}

/// A line of text, in memory of its own: a signal handler may end the process while its thread allocates.
struct Line {
    text: [u8; 256],
    length: usize,
}

impl core::fmt::Write for Line {
    fn write_str(&mut self, more: &str) -> core::fmt::Result {
        let room = self.text.get_mut(self.length..self.length + more.len()).ok_or(core::fmt::Error)?;
        room.copy_from_slice(more.as_bytes());
        self.length += more.len();
        Ok(())
    }
}

fn write_line(line: &mut Line, sums: &[u64; COUNTERS]) -> core::fmt::Result {
    use core::fmt::Write;
    write!(line, "{{\"pid\":{}", kernel::process())?;
    for (key, sum) in KEYS.iter().zip(sums) {
        write!(line, ",\"{key}\":{sum}")?;
    }
    line.write_str("}\n")
}

/// Adds a line with the counters to `WARMSET_DIRECT_STATS`, if that is set. They begin again then: where the process
/// does not end, because the program that it was to become can't be started, it adds another line.
pub fn report() {
    let Some(path) = crate::served::stats_file() else {
        return;
    };
    let sums: [u64; COUNTERS] = core::array::from_fn(|i| {
        used().iter().map(|slot| slot.counters[i].swap(0, Ordering::Relaxed)).fold(0, u64::wrapping_add)
    });
    let mut line = Line { text: [0; 256], length: 0 };
    if write_line(&mut line, &sums).is_err() {
        return;
    }
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: a C string and a buffer of the length that is given; the descriptor is this function's own.
    kernel::keeping_errno(|| unsafe {
        let fd = raw!(libc::SYS_open, path.as_ptr(), flags, 0o644);
        if fd >= 0 {
            raw!(libc::SYS_write, fd, line.text.as_ptr(), line.length);
            raw!(libc::SYS_close, fd);
        }
    });
}
