//! Signals as this process found them: the standard library ignores SIGPIPE before `main`, and gives what it starts the
//! default action and an empty mask, where a program started by somebody else would inherit both.

use std::io;
#[cfg(not(miri))]
use std::mem::MaybeUninit;
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

static IGNORED: AtomicBool = AtomicBool::new(false);
static MASK: OnceLock<libc::sigset_t> = OnceLock::new();

/// Runs before the standard library changes anything.
#[cfg(not(miri))]
extern "C" fn look() {
    let mut action = MaybeUninit::<libc::sigaction>::uninit();
    let mut mask = MaybeUninit::<libc::sigset_t>::uninit();
    // SAFETY: both calls only write to the places that they are given, whole if they succeed.
    unsafe {
        if libc::sigaction(libc::SIGPIPE, std::ptr::null(), action.as_mut_ptr()) == 0 {
            IGNORED.store(action.assume_init().sa_sigaction == libc::SIG_IGN, Ordering::Relaxed);
        }
        if libc::pthread_sigmask(libc::SIG_BLOCK, std::ptr::null(), mask.as_mut_ptr()) == 0 {
            let _ = MASK.set(mask.assume_init());
        }
    }
}

// SAFETY: the loader calls each of these functions once, with arguments that they may leave alone.
#[cfg(not(miri))]
#[used]
#[unsafe(link_section = ".init_array")]
static LOOK: extern "C" fn() = look;

/// Has the command start with the signal mask, and with SIGPIPE ignored or not, as this process was started.
pub fn pass_on(command: &mut Command) -> &mut Command {
    // SAFETY: `restore` is safe between fork and exec.
    unsafe { command.pre_exec(restore) }
}

/// Gives this process what it was started with. Between fork and exec, too: it makes system calls only, allocates nothing
/// and takes no lock.
pub(crate) fn restore() -> io::Result<()> {
    let action = if IGNORED.load(Ordering::Relaxed) { libc::SIG_IGN } else { libc::SIG_DFL };
    // SAFETY: the action is one of the constants, the mask a copy of what the kernel gave.
    unsafe {
        if libc::signal(libc::SIGPIPE, action) == libc::SIG_ERR {
            return Err(io::Error::last_os_error());
        }
        if let Some(mask) = MASK.get() {
            libc::pthread_sigmask(libc::SIG_SETMASK, mask, std::ptr::null_mut());
        }
    }
    Ok(())
}
