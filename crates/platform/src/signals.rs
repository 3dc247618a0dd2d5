//! Signals as this process found them: the standard library ignores SIGPIPE before `main`, and gives what it starts the
//! default action and an empty mask, where a program started by somebody else would inherit both.
//!
//! A [`Relay`] passes on the signals that ask this process to end, while it waits for a program.

use std::ffi::{c_int, c_void};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsRawFd, OwnedFd};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use rustix::process::{Pid, PidfdFlags, pidfd_open};

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

const RELAYED: [c_int; 4] = [libc::SIGHUP, libc::SIGINT, libc::SIGQUIT, libc::SIGTERM];
const NOBODY: c_int = -1;
/// The descriptor of the process that gets the signals.
static RECEIVER: AtomicI32 = AtomicI32::new(NOBODY);
/// A signal that came when there was no receiver yet, or 0.
static EARLY: AtomicI32 = AtomicI32::new(0);
static RELAYS: AtomicBool = AtomicBool::new(false);

/// While this lives, this process outlives SIGHUP, SIGINT, SIGQUIT and SIGTERM, and a program that it started gets them: what it
/// knows of the program is not lost when the user ends that. What comes from the terminal has reached both already.
#[derive(Debug)]
pub struct Relay {
    before: Vec<(c_int, libc::sigaction)>,
    receiver: Option<OwnedFd>,
}

impl Relay {
    /// Signals that are ignored stay ignored.
    ///
    /// # Errors
    /// The kernel's; `ResourceBusy` while another one lives.
    pub fn start() -> io::Result<Self> {
        if RELAYS.swap(true, Ordering::SeqCst) {
            return Err(io::ErrorKind::ResourceBusy.into());
        }
        let mut started = Self { before: Vec::new(), receiver: None };
        for signal in RELAYED {
            let mut before = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: an action of zeros is the default one, without flags and with an empty mask.
            let mut action: libc::sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = relay as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_RESTART;
            // SAFETY: reads the action and writes the one before, both of which outlive the calls. `relay` is safe in
            // the middle of anything.
            unsafe {
                if libc::sigaction(signal, std::ptr::null(), before.as_mut_ptr()) != 0 {
                    return Err(io::Error::last_os_error());
                }
                let before = before.assume_init();
                if before.sa_sigaction != libc::SIG_IGN {
                    if libc::sigaction(signal, &raw const action, std::ptr::null_mut()) != 0 {
                        return Err(io::Error::last_os_error());
                    }
                    started.before.push((signal, before));
                }
            }
        }
        Ok(started)
    }

    /// The signals go to this child from now on, one that came before, too. Where the kernel cannot tell the child from a
    /// later process, they end this process as they did before.
    pub fn set_receiver(&mut self, child: u32) {
        let child = Pid::from_raw(child as i32);
        let Some(Ok(receiver)) = child.map(|child| pidfd_open(child, PidfdFlags::empty())) else {
            self.restore();
            return;
        };
        RECEIVER.store(receiver.as_raw_fd(), Ordering::SeqCst);
        let early = EARLY.swap(0, Ordering::SeqCst);
        if early != 0 {
            send(receiver.as_raw_fd(), early);
        }
        self.receiver = Some(receiver);
    }

    fn restore(&mut self) {
        for (signal, before) in self.before.drain(..) {
            // SAFETY: gives back the action that was there, whole as the kernel wrote it.
            unsafe { libc::sigaction(signal, &raw const before, std::ptr::null_mut()) };
        }
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.restore();
        RECEIVER.store(NOBODY, Ordering::SeqCst);
        EARLY.store(0, Ordering::SeqCst);
        RELAYS.store(false, Ordering::SeqCst);
    }
}

/// A process that has ended gets nothing, whoever has its number now.
fn send(receiver: c_int, signal: c_int) {
    // SAFETY: takes numbers and a null pointer.
    unsafe { libc::syscall(libc::SYS_pidfd_send_signal, receiver, signal, std::ptr::null::<c_void>(), 0) };
}

/// Makes one system call, allocates nothing and takes no lock.
extern "C" fn relay(signal: c_int, info: *mut libc::siginfo_t, _: *mut c_void) {
    // SAFETY: the kernel gives a whole `siginfo_t`; `errno` is this thread's.
    let (by_kernel, errno) = unsafe { ((*info).si_code > 0, libc::__errno_location()) };
    if by_kernel {
        return;
    }
    // SAFETY: as above.
    let before = unsafe { *errno };
    match RECEIVER.load(Ordering::SeqCst) {
        NOBODY => EARLY.store(signal, Ordering::SeqCst),
        receiver => send(receiver, signal),
    }
    // SAFETY: as above: what was interrupted finds its own error.
    unsafe { *errno = before };
}

#[cfg(test)]
mod tests {
    use std::os::unix::process::ExitStatusExt;

    use rustix::process::{Signal, getpid, kill_process};

    use super::*;

    #[test]
    fn a_signal_that_came_early_reaches_the_program_and_actions_are_given_back() {
        let action = || {
            let mut action = MaybeUninit::<libc::sigaction>::zeroed();
            // SAFETY: writes the whole action if it succeeds, and zeros are one, too.
            unsafe {
                assert_eq!(libc::sigaction(libc::SIGTERM, std::ptr::null(), action.as_mut_ptr()), 0);
                action.assume_init().sa_sigaction
            }
        };
        let before = action();
        let mut relay = Relay::start().unwrap();
        assert_eq!(Relay::start().unwrap_err().kind(), io::ErrorKind::ResourceBusy);
        kill_process(getpid(), Signal::TERM).unwrap();
        // Any thread of this process may be the one that gets it.
        let begin = std::time::Instant::now();
        while EARLY.load(Ordering::SeqCst) == 0 {
            assert!(begin.elapsed() < std::time::Duration::from_secs(60), "the signal does not arrive");
            std::thread::yield_now();
        }
        let mut child = Command::new("sleep").arg("600").spawn().unwrap();
        relay.set_receiver(child.id());
        assert_eq!(child.wait().unwrap().signal(), Some(libc::SIGTERM));
        drop(relay);
        assert_eq!(action(), before);
    }
}
