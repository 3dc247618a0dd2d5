//! The scheduler: how soon a thread runs after it was woken.

use std::io;

/// The shortest turn that Linux takes. Who has more to do goes on in the next one, with the same share of the time.
const SHORT_SLICE_NS: u64 = 100_000;
const SIZE: u32 = size_of::<libc::sched_attr>() as u32;
const CALLING_THREAD: libc::pid_t = 0;
const NO_FLAGS: libc::c_uint = 0;

/// Gives the calling thread short turns. From Linux 6.12 on a thread that wakes up takes over from one with longer
/// turns at once (`PREEMPT_SHORT`), where it otherwise waits for the end of the other's turn: for milliseconds, in which
/// a disk has nothing to do. Its share of the processors stays what it was, and no privilege is needed. Before 6.12 it
/// changes nothing, and nothing for a thread whose policy is not that of ordinary threads.
///
/// # Errors
/// The kernel's, where a sandbox refuses the call. The thread is as before then.
pub fn take_short_turns() -> io::Result<()> {
    let mut attributes = attributes()?;
    if attributes.sched_policy != libc::SCHED_OTHER as u32 {
        return Ok(());
    }
    attributes.sched_runtime = SHORT_SLICE_NS;
    // SAFETY: the structure is as long as its `size` says, and the kernel reads it during the call only.
    let outcome =
        unsafe { libc::syscall(libc::SYS_sched_setattr, CALLING_THREAD, &raw const attributes, NO_FLAGS) };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

fn attributes() -> io::Result<libc::sched_attr> {
    let mut attributes = libc::sched_attr {
        size: SIZE,
        sched_policy: 0,
        sched_flags: 0,
        sched_nice: 0,
        sched_priority: 0,
        sched_runtime: 0,
        sched_deadline: 0,
        sched_period: 0,
    };
    // SAFETY: the kernel writes at most `SIZE` bytes, which the structure has, during the call only.
    let outcome = unsafe {
        libc::syscall(libc::SYS_sched_getattr, CALLING_THREAD, &raw mut attributes, SIZE, NO_FLAGS)
    };
    if outcome == 0 { Ok(attributes) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_short_where_the_kernel_knows_of_their_length_and_nothing_else_changes() {
        std::thread::spawn(|| {
            let Ok(before) = attributes() else {
                return eprintln!("skipped: sched_getattr is refused here, as by a sandbox");
            };
            take_short_turns().unwrap();
            let after = attributes().unwrap();
            // Older kernels tell no length.
            let known = before.sched_runtime != 0;
            assert_eq!(after.sched_runtime, if known { SHORT_SLICE_NS } else { 0 });
            assert_eq!(after.sched_policy, before.sched_policy);
            assert_eq!(after.sched_nice, before.sched_nice);
            assert_eq!(after.sched_flags, before.sched_flags);
        })
        .join()
        .unwrap();
    }
}
