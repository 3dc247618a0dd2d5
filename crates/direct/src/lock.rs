//! One lock for the tables of descriptors and files, which change only when files are opened, mapped or closed.
//!
//! Signals are held back while it is held: a handler that closes a file in the same thread must not wait for it. It is
//! taken before a fork and given back on both sides.

use core::mem::MaybeUninit;
use core::sync::atomic::{AtomicI32, Ordering};

const FREE: i32 = 0;
const HELD: i32 = 1;
const AWAITED: i32 = 2;
static STATE: AtomicI32 = AtomicI32::new(FREE);

fn futex(operation: libc::c_int, value: i32) {
    crate::kernel::keeping_errno(|| {
        // SAFETY: the word lives for ever; no time-out and no second word are given.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                STATE.as_ptr(),
                operation | libc::FUTEX_PRIVATE_FLAG,
                value,
                core::ptr::null::<u8>(),
            )
        }
    });
}

/// Takes the lock without holding signals back: for forks, which libc brackets itself.
pub fn acquire() {
    if STATE.compare_exchange(FREE, HELD, Ordering::Acquire, Ordering::Relaxed).is_ok() {
        return;
    }
    while STATE.swap(AWAITED, Ordering::Acquire) != FREE {
        futex(libc::FUTEX_WAIT, AWAITED);
    }
}

pub fn give_back() {
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
            libc::syscall(
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

/// Runs with the lock held and signals held back, but for faults, which the copies recover from.
pub fn with<T>(work: impl FnOnce() -> T) -> T {
    let faults = (1 << (libc::SIGSEGV - 1)) | (1 << (libc::SIGBUS - 1));
    let before = change_mask(&!faults);
    acquire();
    let result = work();
    give_back();
    change_mask(&before);
    result
}
