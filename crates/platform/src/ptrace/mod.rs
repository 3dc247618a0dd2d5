//! Runs a program under ptrace(2), as any user can, with a seccomp filter that stops it on few system calls.
//!
//! Invariant: the filter makes these calls fail once nobody traces the program, so the program dies with its tracer
//! (`PTRACE_O_EXITKILL`). This is for recording only, never for a user's daily runs.

mod filter;
mod maps;
mod stack;

pub use maps::{Mapped, touched};
pub use stack::{Caller, callers};

use std::ffi::{CStr, CString, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::ExitStatus;
use std::ptr;

use libc::{c_int, c_void, pid_t};
use rustix::pipe::{PipeFlags, pipe_with};

const OPTIONS: c_int = libc::PTRACE_O_TRACESECCOMP
    | libc::PTRACE_O_TRACEFORK
    | libc::PTRACE_O_TRACEVFORK
    | libc::PTRACE_O_TRACECLONE
    | libc::PTRACE_O_TRACEEXEC
    | libc::PTRACE_O_TRACEEXIT
    | libc::PTRACE_O_EXITKILL;

/// Why a thread has stopped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stop {
    /// It is about to read from a descriptor.
    Read {
        /// The descriptor.
        fd: i32,
        /// Where, if the call says so; else at the descriptor's position.
        offset: Option<u64>,
        /// At most how much.
        bytes: u64,
    },
    /// It is about to map a file.
    Map {
        /// The descriptor.
        fd: i32,
    },
    /// Its address space is about to end: it executes another program, or exits.
    End,
}

/// Runs the program to its end, and that of all that it started. The first of its `words` is the name that it is told.
/// Tells its process before it starts, and each stop with its thread.
///
/// # Errors
/// The kernel's; `NotFound` if there is no such program.
pub fn run(
    program: &Path,
    words: &[OsString],
    started: impl FnOnce(u32),
    mut stopped: impl FnMut(u32, Stop),
) -> io::Result<ExitStatus> {
    let (child, mut failure) = start(program, words)?;
    started(child as u32);
    let mut status = None;
    loop {
        let mut raw = 0;
        // SAFETY: `raw` outlives the call.
        let thread = unsafe { libc::waitpid(-1, &raw mut raw, libc::__WALL) };
        if thread < 0 {
            let error = io::Error::last_os_error();
            match error.raw_os_error() {
                Some(libc::EINTR) => continue,
                Some(libc::ECHILD) => {
                    let mut code = [0; 4];
                    return match failure.read_exact(&mut code) {
                        Ok(()) => Err(io::Error::from_raw_os_error(c_int::from_ne_bytes(code))),
                        Err(_) => status.ok_or(error),
                    };
                }
                _ => return Err(error),
            }
        }
        if libc::WIFEXITED(raw) || libc::WIFSIGNALED(raw) {
            if thread == child {
                status = Some(ExitStatus::from_raw(raw));
            }
        } else if libc::WIFSTOPPED(raw) {
            resume(thread, raw, &mut stopped);
        }
    }
}

/// Tells a stop, and lets the thread go on. A thread that is gone meanwhile needs nothing.
fn resume(thread: pid_t, raw: c_int, stopped: &mut impl FnMut(u32, Stop)) {
    let signal = libc::WSTOPSIG(raw);
    let (mut how, mut deliver) = (libc::PTRACE_CONT, 0);
    match raw >> 16 {
        0 => deliver = signal,
        libc::PTRACE_EVENT_SECCOMP => {
            if let Some(stop) = call(thread) {
                stopped(thread as u32, stop);
            }
        }
        libc::PTRACE_EVENT_EXIT => stopped(thread as u32, Stop::End),
        libc::PTRACE_EVENT_STOP if signal != libc::SIGTRAP => how = libc::PTRACE_LISTEN,
        _ => {}
    }
    // SAFETY: the thread is stopped by us; both requests take a number where others take an address.
    unsafe { libc::ptrace(how, thread, ptr::null_mut::<c_void>(), deliver as usize as *mut c_void) };
}

/// The registers of a stopped thread.
fn registers(thread: pid_t) -> Option<libc::user_regs_struct> {
    let mut registers = std::mem::MaybeUninit::<libc::user_regs_struct>::uninit();
    // SAFETY: the kernel fills the registers of the stopped thread if it returns 0.
    unsafe {
        if libc::ptrace(libc::PTRACE_GETREGS, thread, ptr::null_mut::<c_void>(), registers.as_mut_ptr()) != 0
        {
            return None;
        }
        Some(registers.assume_init())
    }
}

/// The system call that the thread is about to make.
fn call(thread: pid_t) -> Option<Stop> {
    let registers = registers(thread)?;
    let fd = registers.rdi as i32;
    // The calls with vectors do not say how much they read without a look at the program's memory.
    const VECTOR_BYTES: u64 = 128 << 10;
    match registers.orig_rax as i64 {
        libc::SYS_read => Some(Stop::Read { fd, offset: None, bytes: registers.rdx }),
        libc::SYS_readv => Some(Stop::Read { fd, offset: None, bytes: VECTOR_BYTES }),
        libc::SYS_pread64 => Some(Stop::Read { fd, offset: Some(registers.r10), bytes: registers.rdx }),
        libc::SYS_preadv | libc::SYS_preadv2 => {
            Some(Stop::Read { fd, offset: Some(registers.r10), bytes: VECTOR_BYTES })
        }
        libc::SYS_sendfile => {
            Some(Stop::Read { fd: registers.rsi as i32, offset: None, bytes: registers.r10 })
        }
        libc::SYS_copy_file_range => Some(Stop::Read { fd, offset: None, bytes: registers.r8 }),
        libc::SYS_mmap => Some(Stop::Map { fd: registers.r8 as i32 }),
        libc::SYS_execve | libc::SYS_execveat => Some(Stop::End),
        _ => None,
    }
}

/// What the C library gives a file to that the kernel cannot execute.
const SHELL: &CStr = c"/bin/sh";

/// The addresses of words, as execve(2) wants them.
fn addresses<'a>(words: impl Iterator<Item = &'a CStr>) -> Vec<*const libc::c_char> {
    words.map(CStr::as_ptr).chain([ptr::null()]).collect()
}

/// Starts the program, traced and with the filter. If it cannot be executed, the number of the error is to be read where
/// this says.
fn start(program: &Path, words: &[OsString]) -> io::Result<(pid_t, File)> {
    let path = CString::new(program.as_os_str().as_bytes())?;
    let words: Vec<CString> =
        words.iter().map(|word| CString::new(word.as_bytes())).collect::<Result<_, _>>()?;
    let argv = addresses(words.iter().map(CString::as_c_str));
    let script = [SHELL, &path].into_iter().chain(words.iter().skip(1).map(CString::as_c_str));
    let script = addresses(script);
    let (failure, told) = pipe_with(PipeFlags::CLOEXEC)?;
    let told_fd = told.as_raw_fd();
    let filter = filter::program();
    // SAFETY: until it executes the program, the copy makes only calls that are safe after a fork of threads, with
    // memory that was prepared before.
    let child = unsafe { libc::fork() };
    match child {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            // SAFETY: as above; `filter`, `path`, `argv` and `script` live as long as this copy, and `errno` is its own.
            unsafe {
                libc::raise(libc::SIGSTOP);
                let _ = crate::signals::restore();
                if filter::install(&filter) {
                    libc::execv(path.as_ptr(), argv.as_ptr());
                    if *libc::__errno_location() == libc::ENOEXEC {
                        libc::execv(SHELL.as_ptr(), script.as_ptr());
                    }
                }
                libc::write(told_fd, libc::__errno_location().cast(), size_of::<c_int>());
                libc::_exit(127)
            }
        }
        child => {
            // SAFETY: waits for the child's own stop, and takes it over; numbers only.
            unsafe {
                libc::waitpid(child, ptr::null_mut(), libc::WUNTRACED);
                if libc::ptrace(libc::PTRACE_SEIZE, child, ptr::null_mut::<c_void>(), OPTIONS as usize) != 0 {
                    let error = io::Error::last_os_error();
                    libc::kill(child, libc::SIGKILL);
                    libc::waitpid(child, ptr::null_mut(), 0);
                    return Err(error);
                }
                libc::kill(child, libc::SIGCONT);
            }
            Ok((child, File::from(failure)))
        }
    }
}
