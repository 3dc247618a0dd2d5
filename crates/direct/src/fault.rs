//! The handlers of SIGSEGV and SIGBUS: a fault in a copy of `copy` ends that copy, all others go to the program.
//!
//! They are installed when the first file is mapped. From then on the program sets and reads its own actions for these
//! two signals as before, but here. The program can't block them from its start on, since a blocked fault kills the
//! process, and a thread keeps what it blocked before.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use libc::{c_int, c_void, sigaction as Action, siginfo_t, sigset_t};

use crate::copy;
use crate::kernel::{keeping_errno, next, raw, set_errno};
use crate::served;

/// The program's action for one of the signals.
struct Program {
    handler: AtomicUsize,
    flags: AtomicI32,
    mask: AtomicU64,
}

const SIGNALS: [c_int; 2] = [libc::SIGSEGV, libc::SIGBUS];
static PROGRAM: [Program; 2] = [const {
    Program { handler: AtomicUsize::new(libc::SIG_DFL), flags: AtomicI32::new(0), mask: AtomicU64::new(0) }
}; 2];
static INSTALLED: AtomicBool = AtomicBool::new(false);

fn program(signal: c_int) -> Option<&'static Program> {
    SIGNALS.iter().position(|&each| each == signal).map(|at| &PROGRAM[at])
}

/// The first word of libc's signal set: all that the kernel knows.
fn word(set: &mut sigset_t) -> &mut u64 {
    // SAFETY: a sigset_t is an array of longs, at least one.
    unsafe { &mut *(set as *mut sigset_t).cast() }
}

const FAULTS: u64 = 1 << (libc::SIGSEGV - 1) | 1 << (libc::SIGBUS - 1);

/// The process may have inherited that they are blocked.
pub fn allow_faults() {
    // SAFETY: the kernel reads a set of the size that is given.
    keeping_errno(|| unsafe {
        raw!(
            libc::SYS_rt_sigprocmask,
            libc::SIG_UNBLOCK,
            &raw const FAULTS_SET,
            core::ptr::null::<u8>(),
            size_of::<u64>()
        )
    });
}

static FAULTS_SET: u64 = FAULTS;

fn empty_action() -> Action {
    // SAFETY: of integers and an optional function pointer, all of which may be zero.
    unsafe { core::mem::zeroed() }
}

impl Program {
    fn keep(&self, action: &Action) {
        let mut mask = action.sa_mask;
        self.mask.store(*word(&mut mask), Ordering::Relaxed);
        self.flags.store(action.sa_flags, Ordering::Relaxed);
        self.handler.store(action.sa_sigaction, Ordering::Release);
    }

    fn action(&self) -> Action {
        let mut action = empty_action();
        action.sa_sigaction = self.handler.load(Ordering::Acquire);
        action.sa_flags = self.flags.load(Ordering::Relaxed);
        *word(&mut action.sa_mask) = self.mask.load(Ordering::Relaxed);
        action
    }
}

fn real_sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    next!(sigaction: fn(c_int, *const Action, *mut Action) -> c_int; signal, new, old)
}

fn real_mask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    next!(pthread_sigmask: fn(c_int, *const sigset_t, *mut sigset_t) -> c_int; how, new, old)
}

/// Installs the handlers, once; false if that is not possible. Under the lock.
pub fn install() -> bool {
    if INSTALLED.load(Ordering::Acquire) {
        return true;
    }
    for (signal, program) in SIGNALS.into_iter().zip(&PROGRAM) {
        let mut before = empty_action();
        let mut ours = empty_action();
        ours.sa_sigaction = on_fault as *const () as usize;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER | libc::SA_RESTART;
        if real_sigaction(signal, core::ptr::null(), &mut before) != 0 {
            return false;
        }
        program.keep(&before);
        if real_sigaction(signal, &ours, core::ptr::null_mut()) != 0 {
            return false;
        }
    }
    INSTALLED.store(true, Ordering::Release);
    true
}

/// Gives the signal the default action and sends it again, unless the faulting instruction does that by itself.
fn end_by_default(signal: c_int, was_sent: bool) {
    let mut default = empty_action();
    default.sa_sigaction = libc::SIG_DFL;
    real_sigaction(signal, &default, core::ptr::null_mut());
    if was_sent {
        // SAFETY: to this thread; the signal has its default action.
        unsafe { libc::raise(signal) };
    }
}

extern "C" fn on_fault(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes a ucontext to a handler with SA_SIGINFO.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    let instruction = &mut registers[libc::REG_RIP as usize];
    // SAFETY: the kernel passes the signal's information. Codes of faults are positive.
    let was_sent = unsafe { (*info).si_code } <= 0;
    if let Some(exit) = copy::exit_of(*instruction as usize).filter(|_| !was_sent) {
        *instruction = exit as i64;
        return;
    }
    let Some(program) = program(signal) else {
        return;
    };
    let action = program.action();
    match action.sa_sigaction {
        libc::SIG_IGN if was_sent => {}
        libc::SIG_DFL | libc::SIG_IGN => keeping_errno(|| end_by_default(signal, was_sent)),
        handler => run(signal, info, context, &action, handler, program),
    }
}

/// Runs the program's handler as the kernel would have.
fn run(
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
    action: &Action,
    handler: usize,
    program: &Program,
) {
    let mut mask = action.sa_mask;
    if action.sa_flags & libc::SA_NODEFER == 0 {
        *word(&mut mask) |= 1 << (signal - 1);
    }
    if action.sa_flags & libc::SA_RESETHAND != 0 {
        program.handler.store(libc::SIG_DFL, Ordering::Release);
    }
    // The mask of before comes back when the kernel returns from this handler, or the program jumps out of its own.
    keeping_errno(|| real_mask(libc::SIG_BLOCK, &mask, core::ptr::null_mut()));
    if action.sa_flags & libc::SA_SIGINFO != 0 {
        // SAFETY: the program gave this function for signals with information.
        let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
            unsafe { core::mem::transmute(handler) };
        handler(signal, info, context);
    } else {
        // SAFETY: the program gave this function for signals without information.
        let handler: extern "C" fn(c_int) = unsafe { core::mem::transmute(handler) };
        handler(signal);
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    let Some(program) = program(signal).filter(|_| INSTALLED.load(Ordering::Acquire)) else {
        if new.is_null() || !served::any() {
            return real_sigaction(signal, new, old);
        }
        // SAFETY: the caller passes a valid structure. What its handler reads may fault, too.
        let mut new = unsafe { *new };
        *word(&mut new.sa_mask) &= !FAULTS;
        return real_sigaction(signal, &new, old);
    };
    let before = program.action();
    // SAFETY: the caller passes valid structures or null.
    unsafe {
        if let Some(new) = new.as_ref() {
            program.keep(new);
        }
        if let Some(old) = old.as_mut() {
            *old = before;
        }
    }
    0
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __sigaction(signal: c_int, new: *const Action, old: *mut Action) -> c_int {
    // SAFETY: it is the same call.
    unsafe { sigaction(signal, new, old) }
}

/// The older functions, each with the flags that libc gives its actions.
macro_rules! signals {
    ($($name:ident $flags:expr),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(signal: c_int, handler: usize) -> usize {
            if program(signal).is_none() || !INSTALLED.load(Ordering::Acquire) {
                return next!($name: fn(c_int, usize) -> usize; signal, handler);
            }
            set_handler(signal, handler, $flags)
        }
    )*};
}

const ONCE: c_int = libc::SA_RESETHAND | libc::SA_NODEFER;
signals!(signal libc::SA_RESTART, bsd_signal libc::SA_RESTART, ssignal libc::SA_RESTART);
signals!(sysv_signal ONCE, __sysv_signal ONCE, sigset 0);

const SIG_HOLD: usize = 2;

/// Of one of the two signals, whose real handlers are this library's. What was to be blocked is not.
fn set_handler(signal: c_int, handler: usize, flags: c_int) -> usize {
    let (mut new, mut old) = (empty_action(), empty_action());
    new.sa_sigaction = handler;
    new.sa_flags = flags;
    let new = if handler == SIG_HOLD { core::ptr::null() } else { &raw const new };
    // SAFETY: both are structures of this function.
    unsafe { sigaction(signal, new, &mut old) };
    old.sa_sigaction
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigignore(signal: c_int) -> c_int {
    if program(signal).is_none() || !INSTALLED.load(Ordering::Acquire) {
        return next!(sigignore: fn(c_int) -> c_int; signal);
    }
    set_handler(signal, libc::SIG_IGN, 0);
    0
}

impl crate::kernel::Failed for usize {
    const FAILED: usize = libc::SIG_ERR;
}

fn mask_without_faults(
    how: c_int,
    new: *const sigset_t,
    call: impl FnOnce(*const sigset_t) -> c_int,
) -> c_int {
    if new.is_null() || how == libc::SIG_UNBLOCK || !served::any() {
        return call(new);
    }
    // SAFETY: the caller passes a valid set.
    let mut set = unsafe { *new };
    *word(&mut set) &= !FAULTS;
    call(&set)
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn pthread_sigmask(
    how: c_int,
    new: *const sigset_t,
    old: *mut sigset_t,
) -> c_int {
    mask_without_faults(how, new, |new| real_mask(how, new, old))
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn sigprocmask(how: c_int, new: *const sigset_t, old: *mut sigset_t) -> c_int {
    mask_without_faults(how, new, |new| match real_mask(how, new, old) {
        0 => 0,
        errno => {
            set_errno(errno);
            -1
        }
    })
}
