//! Work that goes on beside a program that is about to take this process's place.

use std::fs;
use std::io;

use rustix::process::{WaitOptions, setsid, waitpid};

/// Runs `work` in a process of its own that is no child of this one, has no terminal and holds none of its open
/// files. Returns as soon as it is started.
///
/// # Errors
/// The kernel's; `InvalidInput` if this process has several threads, whose locks a copy of it could never take.
pub fn detached(work: impl FnOnce()) -> io::Result<()> {
    if fs::read_dir("/proc/self/task")?.count() != 1 {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            "a process with several threads cannot be copied",
        ));
    }
    // SAFETY: this process has one thread, so no lock is held by a thread that the copy lacks.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above. The parent of the second copy ends at once, so that nobody has to wait for it.
            if unsafe { libc::fork() } == 0 {
                let _ = setsid();
                leave_streams();
                let _ = std::panic::catch_unwind(std::panic::AssertUnwindSafe(work));
            }
            // SAFETY: ends this copy without running what the original registered for its own end.
            unsafe { libc::_exit(0) }
        }
        child => {
            waitpid(rustix::process::Pid::from_raw(child), WaitOptions::empty())?;
            Ok(())
        }
    }
}

fn leave_streams() {
    if let Ok(null) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    // SAFETY: no value of this copy that holds a descriptor is used any more: `work` opens its own.
    unsafe { libc::close_range(3, libc::c_uint::MAX, 0) };
}
