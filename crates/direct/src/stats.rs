//! One slot for each thread: how many operations it is in, and what it has done. A slot has cache lines of its own.

use core::cell::Cell;
use core::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

pub const SLOTS: usize = 256;

#[repr(align(128))]
pub struct Slot {
    /// Operations that may use a mapping now; more than one in a signal handler, or when threads share the slot.
    active: AtomicU32,
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

static ALL: [Slot; SLOTS] =
    [const { Slot { active: AtomicU32::new(0), counters: [const { AtomicU64::new(0) }; COUNTERS] } }; SLOTS];
static THREADS: AtomicUsize = AtomicUsize::new(0);

thread_local! {
    static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
}

/// This thread's slot. With more than [`SLOTS`] threads they share them, which costs time only.
pub fn mine() -> &'static Slot {
    let index = MINE.try_with(|mine| {
        if mine.get() == usize::MAX {
            mine.set(THREADS.fetch_add(1, Ordering::Relaxed) % SLOTS);
        }
        mine.get()
    });
    &ALL[index.unwrap_or(0)]
}

/// Slots that any thread has had.
pub fn used() -> &'static [Slot] {
    &ALL[..THREADS.load(Ordering::SeqCst).clamp(1, SLOTS)]
}

impl Slot {
    pub fn enter(&'static self) -> Active {
        self.active.fetch_add(1, Ordering::SeqCst);
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
        self.0.active.fetch_sub(1, Ordering::Release);
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

/// Adds a line with the counters to `WARMSET_DIRECT_STATS`, if that is set and anything was counted.
pub fn report() {
    let Some(path) = crate::served::variable(c"WARMSET_DIRECT_STATS") else {
        return;
    };
    let sums: [u64; COUNTERS] =
        core::array::from_fn(|i| used().iter().map(|slot| slot.counters[i].load(Ordering::Relaxed)).sum());
    let figures: Vec<String> = KEYS.iter().zip(sums).map(|(key, sum)| format!("\"{key}\":{sum}")).collect();
    let line = format!("{{\"pid\":{},{}}}\n", crate::kernel::process(), figures.join(","));
    let mut name = path.to_vec();
    name.push(0);
    let flags = libc::O_WRONLY | libc::O_APPEND | libc::O_CREAT | libc::O_CLOEXEC;
    // SAFETY: a C string and a buffer of the length that is given; the descriptor is this function's own.
    unsafe {
        let fd = libc::syscall(libc::SYS_open, name.as_ptr(), flags, 0o644);
        if fd >= 0 {
            libc::syscall(libc::SYS_write, fd, line.as_ptr(), line.len());
            libc::syscall(libc::SYS_close, fd);
        }
    }
}
