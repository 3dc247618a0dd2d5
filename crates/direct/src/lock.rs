//! One lock for the tables of descriptors and files, which change only when files are opened, mapped or closed.
//!
//! Signals are held back while it is held: a handler that reads or closes a file in the same thread must not wait for it.
//! It is taken before a fork and given back on both sides.

use crate::kernel::raw;
use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, AtomicU64, Ordering};

const FREE: i32 = 0;
const HELD: i32 = 1;
const AWAITED: i32 = 2;
static STATE: AtomicI32 = AtomicI32::new(FREE);

fn futex(operation: libc::c_int, value: i32) {
    crate::kernel::keeping_errno(|| {
        // SAFETY: the word lives for ever; no time-out and no second word are given.
        unsafe {
            raw!(
                libc::SYS_futex,
                STATE.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                core::ptr::null::<u8>(),
            )
        }
    });
}

fn acquire() {
    if STATE.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return;
    }
    while STATE.swap(AWAITED, Ordering::Acquire) != FREE {
        futex(libc::FUTEX_WAIT, AWAITED);
    }
}

fn give_back() {
    if STATE.swap(FREE, Ordering::Release) == AWAITED {
        futex(libc::FUTEX_WAKE, 1);
    }
}

/// The kernel's own signal set: 64 signals.
type Signals = u64;

fn change_mask(new: &Signals) -> Signals {
    let mut old = MaybeUninit::<Signals>::zeroed();
    crate::kernel::keeping_errno(|| {
        // SAFETY: both are sets of the kernel's size, which is given.
        unsafe {
            raw!(
                libc::SYS_rt_sigprocmask,
                libc::SIG_SETMASK,
                new as *const Signals,
                old.as_mut_ptr(),
                size_of::<Signals>(),
            )
        }
    });
    // SAFETY: zeroed or filled, and any bits are a set.
    unsafe { old.assume_init() }
}

/// The signals that were held back already when the lock was taken for a fork; written and read by its holder.
static BEFORE_FORK: AtomicU64 = AtomicU64::new(0);

/// In a copy of the process, which has one thread: nobody holds it.
pub fn free_in_copy() {
    STATE.store(FREE, Ordering::Relaxed);
}

/// Holds signals back, but for faults, which the copies recover from, and takes the lock.
fn hold() -> Signals {
    let faults = (1 << (libc::SIGSEGV - 1)) | (1 << (libc::SIGBUS - 1));
    let before = change_mask(&!faults);
    crate::lifetime::notice_copy();
    acquire();
    before
}

/// Taken until [`give_back_after_fork`]: before a fork, which copies it and the mask of signals to the child.
pub fn take_before_fork() {
    let before = hold();
    BEFORE_FORK.store(before, Ordering::Relaxed);
}

/// On both sides of a fork.
pub fn give_back_after_fork() {
    let before = BEFORE_FORK.load(Ordering::Relaxed);
    give_back();
    change_mask(&before);
}

/// Runs with the lock held and signals held back.
pub fn with<T>(work: impl FnOnce() -> T) -> T {
    let before = hold();
    let result = work();
    give_back();
    change_mask(&before);
    result
}
