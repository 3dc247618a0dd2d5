//! Memory that all processes of a user share, in `/dev/shm`: who maps files for writing, and the words of [`crate::ranges`].
//!
//! Invariants:
//! - A process has a number while it lives, and no longer. It holds a lock on the byte of that number in the shared file,
//!   by an open file description of its own that only a mapping keeps: no descriptor of the program's, gone when the
//!   process ends or becomes another program, not inherited by children, and told apart across namespaces of processes.
//! - A process writes to a mapping only after the table here says that it maps that file.

use core::sync::atomic::{AtomicPtr, AtomicU8, AtomicU32, AtomicU64, Ordering};
use libc::c_int;

use crate::kernel::{self, keeping_errno};
use crate::{files, lock};

/// Processes of one user that can write at the same time; others' writes go to the kernel.
pub const PROCESSES: usize = 1024;
/// Words that lock ranges of files.
pub const LOCKS: usize = 4096;
/// Files are told apart by so many bits in the table of who maps what.
const BUCKETS: usize = 256;

#[repr(C, align(4096))]
struct Shared {
    /// How often a descriptor was made to append.
    appends: AtomicU32,
    /// Numbers from here on were never used.
    high: AtomicU32,
    /// Whether a process maps any file for writing.
    is_mapping: [AtomicU8; PROCESSES],
    /// Which ones.
    mapped: [[AtomicU64; BUCKETS / 64]; PROCESSES],
    /// Who writes where.
    locks: [AtomicU32; LOCKS],
}

/// Where the file's locked bytes begin: beyond its end.
const NUMBERS_AT: i64 = 1 << 30;

static SHARED: AtomicPtr<Shared> = AtomicPtr::new(core::ptr::null_mut());
static IS_TRIED: AtomicU8 = AtomicU8::new(0);
/// A page that is zero again in a child: the process's number and one, or 0 if it has none yet.
static OWN: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());

fn known() -> Option<&'static Shared> {
    // SAFETY: null, or a mapping that stays.
    unsafe { SHARED.load(Ordering::Acquire).as_ref() }
}

/// The memory, if there can be any; found at the first call.
fn shared() -> Option<&'static Shared> {
    if let Some(shared) = known() {
        return Some(shared);
    }
    if IS_TRIED.load(Ordering::Relaxed) == 0 {
        keeping_errno(|| lock::with(attach));
    }
    known()
}

/// For a holder of the lock.
pub fn attach() {
    if IS_TRIED.load(Ordering::Relaxed) != 0 {
        return;
    }
    if let Some(base) = kernel::map_shared_file(size_of::<Shared>()) {
        SHARED.store(base.cast(), Ordering::Release);
    }
    IS_TRIED.store(1, Ordering::Release);
}

/// Whether the memory was found.
pub fn is_attached() -> bool {
    known().is_some()
}

/// A descriptor appends from now on.
pub fn count_append() {
    if let Some(shared) = shared() {
        shared.appends.fetch_add(1, Ordering::AcqRel);
    }
}

pub fn appends() -> Option<u32> {
    known().map(|shared| shared.appends.load(Ordering::Acquire))
}

#[inline(always)]
pub fn lock_word(index: usize) -> Option<&'static AtomicU32> {
    known()?.locks.get(index)
}

// ---- The numbers of processes

fn own() -> Option<&'static AtomicU32> {
    // SAFETY: null, or a page that stays.
    unsafe { OWN.load(Ordering::Acquire).as_ref() }
}

/// This process's number, taken at the first call; none if there is none left.
#[inline(always)]
pub fn own_number() -> Option<usize> {
    known_number().or_else(found_number)
}

#[inline(never)]
fn found_number() -> Option<usize> {
    shared()?;
    keeping_errno(|| lock::with(take_number));
    known_number()
}

/// This process's number, if it has one.
#[inline(always)]
pub fn known_number() -> Option<usize> {
    (own()?.load(Ordering::Acquire) as usize).checked_sub(1)
}

fn take_number() {
    if known_number().is_some() {
        return;
    }
    if OWN.load(Ordering::Relaxed).is_null() {
        OWN.store(kernel::map_own_page().unwrap_or(core::ptr::null_mut()).cast(), Ordering::Release);
    }
    let (Some(shared), Some(own)) = (known(), own()) else {
        return;
    };
    let Some(fd) = kernel::open_shared_file() else {
        return;
    };
    let free = |number: &usize| kernel::lock_byte(fd, NUMBERS_AT + *number as i64, libc::F_WRLCK);
    if let Some(number) = (0..PROCESSES).find(free) {
        forget_mapped(shared, number);
        crate::ranges::release_all_of(number);
        shared.high.fetch_max(number as u32 + 1, Ordering::AcqRel);
        forget_ended(shared, fd, number);
        if kernel::keep_description(fd) {
            own.store(number as u32 + 1, Ordering::Release);
            files::for_each_writable(|identity| note_mapped(shared, number, identity));
        }
    }
    kernel::close(fd);
}

/// What processes that were killed left behind.
fn forget_ended(shared: &Shared, fd: c_int, own: usize) {
    for number in 0..high(shared) {
        let is_left = number != own && shared.is_mapping[number].load(Ordering::Relaxed) != 0;
        if is_left && kernel::lock_byte(fd, NUMBERS_AT + number as i64, libc::F_WRLCK) {
            forget_mapped(shared, number);
            kernel::lock_byte(fd, NUMBERS_AT + number as i64, libc::F_UNLCK);
        }
    }
}

static ASKED: AtomicU32 = AtomicU32::new(0);
/// After so many questions in vain it is seen whether those who map files still live.
const FORGET_EVERY: u32 = 64;

/// For a caller whom processes hold up that may not live any more.
pub fn forget_ended_at_times() {
    if ASKED.fetch_add(1, Ordering::Relaxed) % FORGET_EVERY != 0 {
        return;
    }
    keeping_errno(|| {
        lock::with(|| {
            if let (Some(shared), Some(fd)) = (known(), kernel::open_shared_file()) {
                forget_ended(shared, fd, known_number().unwrap_or(PROCESSES));
                kernel::close(fd);
            }
        })
    });
}

/// Whether the process with this number lives.
pub fn is_alive(number: usize) -> bool {
    keeping_errno(|| {
        let Some(fd) = kernel::open_shared_file() else {
            return true;
        };
        let is_alive = kernel::is_byte_locked(fd, NUMBERS_AT + number as i64);
        kernel::close(fd);
        is_alive
    })
}

// ---- Who maps what for writing

/// A file, by a hash of what tells it apart.
#[derive(Clone, Copy)]
pub struct Identity(u64);

impl Identity {
    pub fn new(device: u64, inode: u64) -> Self {
        let mixed = (inode ^ device.rotate_left(32)).wrapping_mul(0x9E37_79B9_7F4A_7C15);
        Self((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9))
    }

    /// Where its ranges begin in the table of locks.
    pub fn first_lock(self) -> usize {
        (self.0 >> 40) as usize % LOCKS
    }

    fn bucket(self) -> usize {
        (self.0 >> 32) as usize % BUCKETS
    }
}

fn high(shared: &Shared) -> usize {
    (shared.high.load(Ordering::Relaxed) as usize).min(PROCESSES)
}

fn note_mapped(shared: &Shared, number: usize, identity: Identity) {
    let bucket = identity.bucket();
    shared.mapped[number][bucket / 64].fetch_or(1 << (bucket % 64), Ordering::SeqCst);
    shared.is_mapping[number].store(1, Ordering::SeqCst);
}

fn forget_mapped(shared: &Shared, number: usize) {
    shared.is_mapping[number].store(0, Ordering::Relaxed);
    shared.mapped[number].iter().for_each(|word| word.store(0, Ordering::Relaxed));
}

/// This process maps a file for writing. Under the lock; false if others cannot be told.
pub fn maps(identity: Identity) -> bool {
    attach();
    take_number();
    match (known_number(), known()) {
        (Some(number), Some(shared)) => {
            note_mapped(shared, number, identity);
            true
        }
        _ => false,
    }
}

/// This process maps no file for writing any more. Under the lock.
pub fn maps_nothing() {
    if let (Some(number), Some(shared)) = (known_number(), known()) {
        forget_mapped(shared, number);
    }
}

/// Whether any process maps any file for writing.
pub fn is_any_mapped() -> bool {
    shared().is_some_and(|shared| {
        (0..high(shared)).any(|number| shared.is_mapping[number].load(Ordering::SeqCst) != 0)
    })
}

/// Whether any process may map this file for writing.
pub fn is_mapped(identity: Identity) -> bool {
    let (word, bit) = (identity.bucket() / 64, 1 << (identity.bucket() % 64));
    shared().is_some_and(|shared| {
        (0..high(shared)).any(|number| {
            shared.is_mapping[number].load(Ordering::SeqCst) != 0
                && shared.mapped[number][word].load(Ordering::SeqCst) & bit != 0
        })
    })
}
