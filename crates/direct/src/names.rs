//! Calls that open, copy, close and describe descriptors: libc does them, and what is known here follows.

use libc::{FILE, c_char, c_int, c_long, c_uint, c_void, mode_t, off64_t, ssize_t};

use crate::kernel::{Next, next};
use crate::{descriptors, files, lifetime, served};

/// Functions of libc with something done before them and something with their result.
macro_rules! around {
    ($($name:ident($($arg:ident: $type:ty),*) -> $ret:ty { $($before:expr)? => $($then:expr)? })*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name($($arg: $type),*) -> $ret {
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
    __open(path: Path, flags: c_int, mode: mode_t) -> c_int { => descriptors::renew_opened }
    __open64(path: Path, flags: c_int, mode: mode_t) -> c_int { => descriptors::renew_opened }
    __open_2(path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    __open64_2(path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    __openat_2(at: c_int, path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    __openat64_2(at: c_int, path: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    creat(path: Path, mode: mode_t) -> c_int { => descriptors::renew_opened }
    creat64(path: Path, mode: mode_t) -> c_int { => descriptors::renew_opened }
    dup(fd: c_int) -> c_int { descriptors::share_description(fd) => descriptors::renew }
    mkstemp(name: Path) -> c_int { => descriptors::renew_opened }
    mkstemp64(name: Path) -> c_int { => descriptors::renew_opened }
    mkostemp(name: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    mkostemp64(name: Path, flags: c_int) -> c_int { => descriptors::renew_opened }
    mkstemps(name: Path, length: c_int) -> c_int { => descriptors::renew_opened }
    mkstemps64(name: Path, length: c_int) -> c_int { => descriptors::renew_opened }
    mkostemps(name: Path, length: c_int, flags: c_int) -> c_int { => descriptors::renew_opened }
    mkostemps64(name: Path, length: c_int, flags: c_int) -> c_int { => descriptors::renew_opened }
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

// Closed or replaced descriptors. What another thread did with one meanwhile is forgotten, too.
around! {
    close(fd: c_int) -> c_int { descriptors::forget(fd) => |_| descriptors::forget_file(fd) }
    __close(fd: c_int) -> c_int { descriptors::forget(fd) => |_| descriptors::forget_file(fd) }
    __dup2(from: c_int, to: c_int) -> c_int { before_copy(from, to) => |_| after_copy(from, to) }
    dup2(from: c_int, to: c_int) -> c_int { before_copy(from, to) => |_| after_copy(from, to) }
    dup3(from: c_int, to: c_int, flags: c_int) -> c_int { before_copy(from, to) => |_| after_copy(from, to) }
    // SAFETY: the caller's stream.
    closedir(stream: *mut libc::DIR) -> c_int { descriptors::forget(unsafe { libc::dirfd(stream) }) => }
    // SAFETY: the caller's stream.
    pclose(stream: *mut FILE) -> c_int { unsafe { forget_stream(stream) } => }
    // The child has other streams.
    daemon(keeps_directory: c_int, keeps_streams: c_int) -> c_int { => |_| (0..3).for_each(descriptors::forget) }
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
    __fcntl(fd: c_int, command: c_int, argument: usize) -> c_int {
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

fn after_copy(from: c_int, to: c_int) {
    if from != to {
        descriptors::forget_file(to);
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
pub unsafe extern "C-unwind" fn closefrom(first: c_int) {
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
    setrlimit(which: c_int, new: *mut c_void) -> c_int { => |_| served::follow_limits() }
    setrlimit64(which: c_int, new: *mut c_void) -> c_int { => |_| served::follow_limits() }
    prlimit(process: c_int, which: c_int, new: *mut c_void, old: *mut c_void) -> c_int { => |_| served::follow_limits() }
    prlimit64(process: c_int, which: c_int, new: *mut c_void, old: *mut c_void) -> c_int { => |_| served::follow_limits() }
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

fn before_child() {
    // It may look at times that it can't bring up to date.
    files::date_all();
    descriptors::share_descriptions();
}

// Another process gets the descriptors: `fork` tells by itself, but these do not. `clone` starts threads, too.
around! {
    _Fork() -> c_int { before_child() => }
    clone(
        work: Out, stack: Out, flags: c_int, argument: Out, parent: Out, thread: Out, child: Out
    ) -> c_int { before_child() => }
    posix_spawn(out: Out, path: Path, actions: Out, attributes: Out, arguments: Strings, environment: Strings) -> c_int {
        before_child() =>
    }
    posix_spawnp(out: Out, path: Path, actions: Out, attributes: Out, arguments: Strings, environment: Strings) -> c_int {
        before_child() =>
    }
    system(line: Path) -> c_int { before_child() => }
    popen(line: Path, mode: Path) -> *mut FILE { before_child() => }
}

// The process becomes another program; it goes on as it was if that fails.
around! {
    execve(path: Path, arguments: Strings, environment: Strings) -> c_int { lifetime::before_end() => }
    execv(path: Path, arguments: Strings) -> c_int { lifetime::before_end() => }
    execvp(path: Path, arguments: Strings) -> c_int { lifetime::before_end() => }
    execvpe(path: Path, arguments: Strings, environment: Strings) -> c_int { lifetime::before_end() => }
    execveat(at: c_int, path: Path, arguments: Strings, environment: Strings, flags: c_int) -> c_int {
        lifetime::before_end() =>
    }
    fexecve(fd: c_int, arguments: Strings, environment: Strings) -> c_int { lifetime::before_end() => }
}

/// The calls that take their arguments one by one: nothing of this library may be between these and libc's.
macro_rules! before_strings {
    ($($name:ident)*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name() -> ! {
            static NEXT: Next = Next::new(
                match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                    Ok(name) => name,
                    Err(_) => panic!("a symbol has no NUL"),
                },
            );
            extern "C" fn before() -> *mut c_void {
                lifetime::before_end();
                NEXT.address()
            }
            // SAFETY: all registers that arguments may be in are as they were when libc's function begins, and so is the
            // stack; `before` returns its address. With `nostack` the compiler puts nothing on the stack before this, for
            // it has nothing to keep there; the tests would find an argument in the wrong place.
            unsafe {
                core::arch::asm!(
                    "push rdi", "push rsi", "push rdx", "push rcx", "push r8", "push r9", "push rax",
                    "call {before}",
                    "mov r11, rax",
                    "pop rax", "pop r9", "pop r8", "pop rcx", "pop rdx", "pop rsi", "pop rdi",
                    "jmp r11",
                    before = sym before,
                    options(noreturn, nostack),
                )
            }
        }
    )*};
}

before_strings! { execl execlp execle }

// Whoever may bring times up to date.
around! {
    setuid(user: u32) -> c_int { descriptors::forget_files() => }
    seteuid(user: u32) -> c_int { descriptors::forget_files() => }
    setreuid(user: u32, effective: u32) -> c_int { descriptors::forget_files() => }
    setresuid(user: u32, effective: u32, saved: u32) -> c_int { descriptors::forget_files() => }
}

// What mappings, or calls that the program does not make, would be in the way of. A thread is cancelled in libc's calls.
around! {
    mlockall(flags: c_int) -> c_int { served::map_no_more() => }
    pthread_cancel(thread: libc::pthread_t) -> c_int { served::map_no_more() => }
    prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
        if option == libc::PR_SET_SECCOMP { served::leave_alone() } =>
    }
}

/// libc's `syscall`, which some programs use instead of the functions above: libuv closes all files by it.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn syscall(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    if served::any() {
        before_system_call(number, a, b, c);
    }
    let result = next!(syscall: fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;
        number, a, b, c, d, e, f);
    if served::any() {
        after_system_call(number, [a, b, c], result);
    }
    result
}

fn before_system_call(number: c_long, a: usize, b: usize, c: usize) {
    let fd = a as c_int;
    match number {
        libc::SYS_close => descriptors::forget(fd),
        libc::SYS_close_range => forget_closed(a as c_uint, b as c_uint, c as c_int),
        libc::SYS_dup => descriptors::share_description(fd),
        libc::SYS_dup2 | libc::SYS_dup3 => before_copy(fd, b as c_int),
        libc::SYS_fcntl => before_command(fd, b as c_int),
        libc::SYS_fork | libc::SYS_vfork | libc::SYS_clone | libc::SYS_clone3 => before_child(),
        libc::SYS_execve | libc::SYS_execveat | libc::SYS_exit_group => lifetime::before_end(),
        libc::SYS_seccomp => served::leave_alone(),
        libc::SYS_stat
        | libc::SYS_fstat
        | libc::SYS_lstat
        | libc::SYS_newfstatat
        | libc::SYS_statx
        | libc::SYS_fsync
        | libc::SYS_fdatasync
        | libc::SYS_utimensat => files::date_all(),
        _ => {}
    }
}

fn after_system_call(number: c_long, [a, b, c]: [usize; 3], result: c_long) {
    let (fd, new) = (a as c_int, result as c_int);
    match number {
        libc::SYS_open | libc::SYS_openat | libc::SYS_openat2 | libc::SYS_creat => {
            descriptors::renew_opened(new)
        }
        libc::SYS_close => descriptors::forget_file(fd),
        libc::SYS_dup => descriptors::renew(new),
        libc::SYS_dup2 | libc::SYS_dup3 => after_copy(fd, b as c_int),
        libc::SYS_fcntl => follow_command(fd, b as c_int, c, new),
        libc::SYS_ftruncate | libc::SYS_truncate | libc::SYS_fallocate => files::forget_present(),
        libc::SYS_prlimit64 | libc::SYS_setrlimit => served::follow_limits(),
        libc::SYS_io_uring_setup => served::note_ring(),
        _ => {}
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn quick_exit(status: c_int) -> ! {
    lifetime::before_end();
    loop {
        next!(quick_exit: fn(c_int) -> c_int; status);
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _exit(status: c_int) -> ! {
    lifetime::before_end();
    loop {
        next!(_exit: fn(c_int) -> c_int; status);
    }
}

/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn _Exit(status: c_int) -> ! {
    // SAFETY: it is the same call.
    unsafe { _exit(status) }
}
