//! Calls that open, copy, close and describe descriptors: libc does them, and what is known here follows.

use libc::{FILE, c_char, c_int, c_uint, c_void, mode_t, off64_t, ssize_t};

use crate::kernel::next;
use crate::{descriptors, files, lifetime, served};

/// Functions of libc with something done before them and something with their result.
macro_rules! around {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty { $($before:expr)? => $($then:expr)? })*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name($($arg: $type),*) -> $ret {
            $($before;)?
            let result = next!($name: fn($($type),*) -> $ret; $($arg),*);
            $($then(result);)?
            result
        }
    )*};
}

fn renew_stream(stream: *mut FILE) {
    if !stream.is_null() {
        // SAFETY: a stream that libc has just made.
        descriptors::renew(unsafe { libc::fileno(stream) });
    }
}

/// # Safety
/// An open stream, or null.
unsafe fn forget_stream(stream: *mut FILE) {
    if !stream.is_null() {
        // SAFETY: the caller's stream is open.
        descriptors::forget(unsafe { libc::fileno(stream) });
    }
}

type Path = *const c_char;

// New descriptors. Whatever mode is passed, or not, goes on in its register.
around! {
    open(path: Path, flags: c_int, mode: mode_t) -> c_int { => descriptors::renew_opened }
    open64(path: Path, flags: c_int, mode: mode_t) -> c_int { => descriptors::renew_opened }
    openat(at: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int { => descriptors::renew_opened }
    openat64(at: c_int, path: Path, flags: c_int, mode: mode_t) -> c_int { => descriptors::renew_opened }
    __open_2(path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    __open64_2(path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    __openat_2(at: c_int, path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    __openat64_2(at: c_int, path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    creat(path: Path, mode: mode_t) -> c_int { => descriptors::renew_opened }
    creat64(path: Path, mode: mode_t) -> c_int { => descriptors::renew_opened }
    dup(fd: c_int) -> c_int { descriptors::share_description(fd) => descriptors::renew }
    fopen(path: Path, mode: Path) -> *mut FILE { => renew_stream }
    fopen64(path: Path, mode: Path) -> *mut FILE { => renew_stream }
}

/// `fdopen` for appending sets the flag by itself.
fn follow_appending(mode: Path, stream: *mut FILE) {
    // SAFETY: libc has just read the mode as a C string.
    if !stream.is_null() && unsafe { core::ffi::CStr::from_ptr(mode) }.to_bytes().contains(&b'a') {
        descriptors::appends_now();
    }
}

around! {
    fdopen(fd: c_int, mode: Path) -> *mut FILE {
        descriptors::share_description(fd) => |stream| follow_appending(mode, stream)
    }
}

// Positions: the kernel's, but seen.
around! {
    lseek(fd: c_int, offset: off64_t, whence: c_int) -> off64_t { => |now| descriptors::note_position(fd, now) }
    lseek64(fd: c_int, offset: off64_t, whence: c_int) -> off64_t { => |now| descriptors::note_position(fd, now) }
}

// Closed or replaced descriptors.
around! {
    close(fd: c_int) -> c_int { descriptors::forget(fd) => }
    dup2(from: c_int, to: c_int) -> c_int { before_copy(from, to) => }
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int { before_copy(from, to) => }
    // SAFETY: the caller's stream.
    fclose(stream: *mut FILE) -> c_int { unsafe { forget_stream(stream) } => }
    // SAFETY: the caller's stream.
    freopen(path: Path, mode: Path, stream: *mut FILE) -> *mut FILE { unsafe { forget_stream(stream) } => renew_stream }
    // SAFETY: the caller's stream.
    freopen64(path: Path, mode: Path, stream: *mut FILE) -> *mut FILE { unsafe { forget_stream(stream) } => renew_stream }
    close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int { forget_closed(first, last, flags) => }
    fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
        before_command(fd, command) => |result| follow_command(fd, command, argument, result)
    }
    fcntl64(fd: c_int, command: c_int, argument: usize) -> c_int {
        before_command(fd, command) => |result| follow_command(fd, command, argument, result)
    }
}

fn before_copy(from: c_int, to: c_int) {
    if from != to {
        descriptors::share_description(from);
        descriptors::forget(to);
    }
}

fn forget_closed(first: c_uint, last: c_uint, flags: c_int) {
    if flags & libc::CLOSE_RANGE_CLOEXEC as c_int == 0 && first <= last {
        descriptors::forget_range(first, last);
    }
}

fn before_command(fd: c_int, command: c_int) {
    match command {
        // A lease is not given while a file is open elsewhere: a mapping counts as that.
        libc::F_SETLEASE => descriptors::forget_files(),
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::share_description(fd),
        _ => {}
    }
}

fn follow_command(fd: c_int, command: c_int, argument: usize, result: c_int) {
    match command {
        libc::F_DUPFD | libc::F_DUPFD_CLOEXEC => descriptors::renew(result),
        libc::F_SETFL if argument & libc::O_APPEND as usize != 0 => descriptors::appends_now(),
        libc::F_SETFL => descriptors::forget_file(fd),
        _ => {}
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn closefrom(first: c_int) {
    descriptors::forget_range(first.max(0).unsigned_abs(), c_uint::MAX);
    next!(closefrom: fn(c_int) -> c_int; first);
}

// Holes may come to be where there was storage.
around! {
    ftruncate(fd: c_int, length: off64_t) -> c_int { => |_| files::forget_present() }
    ftruncate64(fd: c_int, length: off64_t) -> c_int { => |_| files::forget_present() }
    truncate(path: Path, length: off64_t) -> c_int { => |_| files::forget_present() }
    truncate64(path: Path, length: off64_t) -> c_int { => |_| files::forget_present() }
    fallocate(fd: c_int, mode: c_int, from: off64_t, bytes: off64_t) -> c_int { => |_| files::forget_present() }
    fallocate64(fd: c_int, mode: c_int, from: off64_t, bytes: off64_t) -> c_int { => |_| files::forget_present() }
}

// How long files may be.
around! {
    setrlimit(which: c_int, new: *mut c_void) -> c_int { => |_| served::read_limits() }
    setrlimit64(which: c_int, new: *mut c_void) -> c_int { => |_| served::read_limits() }
    prlimit(process: c_int, which: c_int, new: *mut c_void, old: *mut c_void) -> c_int { => |_| served::read_limits() }
    prlimit64(process: c_int, which: c_int, new: *mut c_void, old: *mut c_void) -> c_int { => |_| served::read_limits() }
}

type Out = *mut c_void;

// Times are up to date before they are read, set or made to last.
around! {
    fsync(fd: c_int) -> c_int { files::date_all() => }
    fdatasync(fd: c_int) -> c_int { files::date_all() => }
    syncfs(fd: c_int) -> c_int { files::date_all() => }
    stat(path: Path, out: Out) -> c_int { files::date_all() => }
    stat64(path: Path, out: Out) -> c_int { files::date_all() => }
    lstat(path: Path, out: Out) -> c_int { files::date_all() => }
    lstat64(path: Path, out: Out) -> c_int { files::date_all() => }
    fstat(fd: c_int, out: Out) -> c_int { files::date_all() => }
    fstat64(fd: c_int, out: Out) -> c_int { files::date_all() => }
    fstatat(at: c_int, path: Path, out: Out, flags: c_int) -> c_int { files::date_all() => }
    fstatat64(at: c_int, path: Path, out: Out, flags: c_int) -> c_int { files::date_all() => }
    statx(at: c_int, path: Path, flags: c_int, mask: c_uint, out: Out) -> c_int { files::date_all() => }
    __xstat(version: c_int, path: Path, out: Out) -> c_int { files::date_all() => }
    __xstat64(version: c_int, path: Path, out: Out) -> c_int { files::date_all() => }
    __lxstat(version: c_int, path: Path, out: Out) -> c_int { files::date_all() => }
    __lxstat64(version: c_int, path: Path, out: Out) -> c_int { files::date_all() => }
    __fxstat(version: c_int, fd: c_int, out: Out) -> c_int { files::date_all() => }
    __fxstat64(version: c_int, fd: c_int, out: Out) -> c_int { files::date_all() => }
    __fxstatat(version: c_int, at: c_int, path: Path, out: Out, flags: c_int) -> c_int { files::date_all() => }
    __fxstatat64(version: c_int, at: c_int, path: Path, out: Out, flags: c_int) -> c_int { files::date_all() => }
    futimens(fd: c_int, times: Out) -> c_int { files::date_all() => }
    utimensat(at: c_int, path: Path, times: Out, flags: c_int) -> c_int { files::date_all() => }
    utimes(path: Path, times: Out) -> c_int { files::date_all() => }
    futimes(fd: c_int, times: Out) -> c_int { files::date_all() => }
    lutimes(path: Path, times: Out) -> c_int { files::date_all() => }
    futimesat(at: c_int, path: Path, times: Out) -> c_int { files::date_all() => }
    utime(path: Path, times: Out) -> c_int { files::date_all() => }
}

// Whoever receives a descriptor has its description, too. Which descriptors a message carries is not looked up.
around! {
    sendmsg(socket: c_int, message: *const libc::msghdr, flags: c_int) -> ssize_t {
        => |sent: ssize_t| if sent >= 0 { share_if_passed(message) }
    }
    sendmmsg(socket: c_int, messages: *mut libc::mmsghdr, count: c_uint, flags: c_int) -> c_int {
        => |sent: c_int| for at in 0..sent.max(0).unsigned_abs() as usize {
            share_if_passed(messages.wrapping_add(at).cast());
        }
    }
}

/// The kernel has taken the message here.
fn share_if_passed(message: *const libc::msghdr) {
    // SAFETY: the kernel has read it, so it is there; a `mmsghdr` begins with one.
    if unsafe { (*message).msg_controllen } > 0 {
        descriptors::share_descriptions();
    }
}

type Strings = *const Path;

// Another process gets the descriptors: `fork` tells by itself, but these do not.
around! {
    posix_spawn(out: Out, path: Path, actions: Out, attributes: Out, arguments: Strings, environment: Strings) -> c_int {
        descriptors::share_descriptions() =>
    }
    posix_spawnp(out: Out, path: Path, actions: Out, attributes: Out, arguments: Strings, environment: Strings) -> c_int {
        descriptors::share_descriptions() =>
    }
    system(line: Path) -> c_int { descriptors::share_descriptions() => }
    popen(line: Path, mode: Path) -> *mut FILE { descriptors::share_descriptions() => }
}

// The process becomes another program; it goes on as it was if that fails.
around! {
    execve(path: Path, arguments: Strings, environment: Strings) -> c_int { lifetime::before_end() => }
    execv(path: Path, arguments: Strings) -> c_int { lifetime::before_end() => }
    execvp(path: Path, arguments: Strings) -> c_int { lifetime::before_end() => }
    execvpe(path: Path, arguments: Strings, environment: Strings) -> c_int { lifetime::before_end() => }
    fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int { lifetime::before_end() => }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _exit(status: c_int) -> ! {
    lifetime::before_end();
    loop {
        next!(_exit: fn(c_int) -> c_int; status);
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn _Exit(status: c_int) -> ! {
    // SAFETY: it is the same call.
    unsafe { _exit(status) }
}
