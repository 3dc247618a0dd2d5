//! Work that goes on beside a program that is about to take this process's place.

use std::fs;
use std::io::{self, Read, Write};
use std::os::fd::{AsRawFd, BorrowedFd, OwnedFd, RawFd};

use rustix::pipe::{PipeFlags, pipe_with};
use rustix::process::{WaitOptions, chdir, setsid, waitpid};

/// Keeps a process waiting for the end of this one, however it ends.
#[derive(Debug)]
pub struct Guardian {
    writer: OwnedFd,
}

impl Guardian {
    /// Runs `work` in a detached process as soon as this process has died, unless [`Guardian::dismiss`] was called.
    ///
    /// # Errors
    /// As for [`detached`].
    pub fn start(work: impl FnOnce()) -> io::Result<Self> {
        Self::start_keeping(None, work)
    }

    /// The same, with `held` open until the waiting process ends, too: a lock that goes with it.
    ///
    /// # Errors
    /// As for [`detached`].
    pub fn start_keeping(held: Option<BorrowedFd<'_>>, work: impl FnOnce()) -> io::Result<Self> {
        let (reader, writer) = pipe_with(PipeFlags::CLOEXEC)?;
        let kept: Vec<RawFd> = held.iter().map(AsRawFd::as_raw_fd).chain([reader.as_raw_fd()]).collect();
        // The copy closes all but these: only the death of this process may close the last writer.
        start(&kept, || {
            let mut dismissed = Vec::new();
            let _ = fs::File::from(reader).read_to_end(&mut dismissed);
            if dismissed.is_empty() {
                work();
            }
        })?;
        Ok(Self { writer })
    }

    /// Ends the waiting process without its work.
    pub fn dismiss(self) {
        let _ = fs::File::from(self.writer).write_all(b".");
    }
}

/// Runs `work` in a process of its own that is no child of this one, has no terminal and holds none of its open
/// files: `work` opens what it needs. Returns as soon as it is started.
///
/// # Errors
/// The kernel's; `InvalidInput` if this process has several threads, whose locks a copy of it could never take.
pub fn detached(work: impl FnOnce()) -> io::Result<()> {
    start(&[], work)
}

/// As [`detached`], with one open file, which `work` gets.
///
/// # Errors
/// As for [`detached`].
pub fn detached_with(file: OwnedFd, work: impl FnOnce(OwnedFd)) -> io::Result<()> {
    start(&[file.as_raw_fd()], || work(file))
}

/// As [`detached`], with open files that stay open.
fn start(kept: &[RawFd], work: impl FnOnce()) -> io::Result<()> {
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
                // No mount stays busy for it.
                let _ = chdir("/");
                leave_files(kept);
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

fn leave_files(kept: &[RawFd]) {
    if let Ok(null) = fs::OpenOptions::new().read(true).write(true).open("/dev/null") {
        let _ = rustix::stdio::dup2_stdin(&null);
        let _ = rustix::stdio::dup2_stdout(&null);
        let _ = rustix::stdio::dup2_stderr(&null);
    }
    let close = |first: RawFd, last: libc::c_uint| {
        // SAFETY: no value of this copy that holds one of these descriptors is used any more.
        unsafe { libc::syscall(libc::SYS_close_range, first, last, 0) };
    };
    let mut kept: Vec<RawFd> = kept.iter().copied().filter(|&kept| kept > 2).collect();
    kept.sort_unstable();
    let mut first = 3;
    for kept in kept {
        if kept > first {
            close(first, kept as libc::c_uint - 1);
        }
        first = kept + 1;
    }
    close(first, libc::c_uint::MAX);
}
