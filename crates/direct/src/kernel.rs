//! The kernel's side: libc's own functions below the ones exported here, `errno`, and raw system calls.
//!
//! libc's function is called wherever the kernel does the work, so that cancellation points and libc's own bookkeeping
//! stay as they are. Raw calls are for work that the program did not ask for; they leave `errno` alone.

use core::ffi::CStr;
use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};
use libc::{c_int, c_long, c_void};

/// The next definition of a symbol after this library's: libc's. Found at the first call.
pub struct Next {
    name: &'static CStr,
    at: AtomicPtr<c_void>,
}

impl Next {
    pub const fn new(name: &'static CStr) -> Self {
        Next { name, at: AtomicPtr::new(core::ptr::null_mut()) }
    }

    /// Its address; null if no library has it.
    pub fn address(&self) -> *mut c_void {
        let known = self.at.load(Ordering::Relaxed);
        if known.is_null() { self.find() } else { known }
    }

    #[cold]
    #[inline(never)]
    fn find(&self) -> *mut c_void {
        // SAFETY: the name is a C string, and RTLD_NEXT is a handle that dlsym knows.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.at.store(found, Ordering::Relaxed);
        found
    }
}

/// Whether the libc of this process is the one that this library is made for.
pub fn has_glibc() -> bool {
    // SAFETY: the name is a C string, and RTLD_DEFAULT is a handle that dlsym knows.
    !unsafe { libc::dlsym(libc::RTLD_DEFAULT, c"gnu_get_libc_version".as_ptr()) }.is_null()
}

/// Calls libc's own function of this name and type; fails with `ENOSYS` if there is none. Where a thread is cancelled in
/// it, the stack is unwound through this library, and what this holds is given back.
macro_rules! next {
    ($name:ident: fn($($type:ty),*) -> $ret:ty; $($arg:expr),*) => {{
        static NEXT: $crate::kernel::Next = $crate::kernel::Next::new(
            match core::ffi::CStr::from_bytes_with_nul(concat!(stringify!($name), "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a symbol has no NUL"),
            },
        );
        let address = NEXT.address();
        if address.is_null() {
            $crate::kernel::set_errno(libc::ENOSYS);
            $crate::kernel::Failed::FAILED
        } else {
            // SAFETY: the type is that of libc's function of this name, as its manual page gives it.
            let function: unsafe extern "C-unwind" fn($($type),*) -> $ret = unsafe { core::mem::transmute(address) };
            // SAFETY: the caller's arguments are passed on as they came.
            unsafe { function($($arg),*) }
        }
    }};
}
pub(crate) use next;

/// What a function of libc returns when it fails.
pub trait Failed {
    const FAILED: Self;
}

impl Failed for c_int {
    const FAILED: Self = -1;
}

impl Failed for i64 {
    const FAILED: Self = -1;
}

impl Failed for isize {
    const FAILED: Self = -1;
}

impl<T> Failed for *mut T {
    const FAILED: Self = core::ptr::null_mut();
}

/// A system call, past libc's `syscall`, which is exported here; sets `errno` as that does.
macro_rules! raw {
    ($number:expr $(, $argument:expr)* $(,)?) => {
        $crate::kernel::call($number, &[$($argument as usize),*])
    };
}
pub(crate) use raw;

/// # Safety
/// As the system call's.
pub unsafe fn call(number: c_long, arguments: &[usize]) -> c_long {
    let at = |index: usize| arguments.get(index).copied().unwrap_or(0);
    let result: c_long;
    // SAFETY: the kernel changes three registers, and the memory that the caller answers for.
    unsafe {
        core::arch::asm!(
            "syscall",
            inlateout("rax") number => result,
            in("rdi") at(0),
            in("rsi") at(1),
            in("rdx") at(2),
            in("r10") at(3),
            in("r8") at(4),
            in("r9") at(5),
            lateout("rcx") _,
            lateout("r11") _,
            options(nostack),
        );
    }
    if (-4095..0).contains(&result) {
        set_errno(-result as c_int);
        return -1;
    }
    result
}

pub fn set_errno(errno: c_int) {
    // SAFETY: __errno_location returns the address of this thread's errno.
    unsafe { *libc::__errno_location() = errno };
}

pub fn errno() -> c_int {
    // SAFETY: __errno_location returns the address of this thread's errno.
    unsafe { *libc::__errno_location() }
}

/// Runs something that may change `errno`, and puts it back.
pub fn keeping_errno<T>(work: impl FnOnce() -> T) -> T {
    let before = errno();
    let result = work();
    set_errno(before);
    result
}

/// `fstat` by a raw call: nothing of this library is in between.
pub fn fstat(fd: c_int) -> Option<libc::stat> {
    let mut found = core::mem::MaybeUninit::<libc::stat>::uninit();
    // SAFETY: the kernel fills a stat structure, whose layout on x86-64 is libc's.
    let result = unsafe { raw!(libc::SYS_fstat, fd, found.as_mut_ptr()) };
    // SAFETY: it was filled, since the call succeeded.
    (result == 0).then(|| unsafe { found.assume_init() })
}

/// The descriptor's status flags; none if it is not open.
pub fn status_flags(fd: c_int) -> Option<c_int> {
    // SAFETY: F_GETFL takes no pointer.
    let flags = unsafe { raw!(libc::SYS_fcntl, fd, libc::F_GETFL) };
    (flags >= 0).then_some(flags as c_int)
}

/// Whether the program holds a lease on the descriptor's file, which another open would break.
pub fn has_lease(fd: c_int) -> bool {
    // SAFETY: F_GETLEASE takes no pointer.
    unsafe { raw!(libc::SYS_fcntl, fd, libc::F_GETLEASE) != libc::F_UNLCK as c_long }
}

/// The process's effective user.
pub fn user() -> u32 {
    // SAFETY: it always succeeds.
    unsafe { libc::geteuid() }
}

const NO_USER: u32 = u32::MAX;
/// Whose shared file is used.
static USER: AtomicU32 = AtomicU32::new(NO_USER);

/// Opens the file that all processes of this user share; none if there can be no such file.
pub fn open_shared_file() -> Option<c_int> {
    let user = user();
    // A process that has become another user's goes on with the memory of the one that it was.
    if USER
        .compare_exchange(NO_USER, user, Ordering::Relaxed, Ordering::Relaxed)
        .is_err_and(|seen| seen != user)
    {
        return None;
    }
    // Libraries whose memory is laid out in another way must have another number here: they share nothing then.
    let name = numbered(b"/dev/shm/.warmset-direct-1-", user);
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_CLOEXEC | libc::O_NOFOLLOW | libc::O_NONBLOCK;
    // SAFETY: a C string.
    let fd = unsafe { raw!(libc::SYS_open, name.as_ptr(), flags, 0o600) } as c_int;
    if fd < 0 {
        return None;
    }
    // Anybody can make a file of this name: it must be this user's.
    let is_own = fstat(fd)
        .is_some_and(|stat| stat.st_uid == user && stat.st_mode & (libc::S_IFMT | 0o077) == libc::S_IFREG);
    if !is_own {
        close(fd);
    }
    is_own.then_some(fd)
}

/// Maps that file, with storage for so much.
pub fn map_shared_file(bytes: usize) -> Option<*mut u8> {
    let fd = open_shared_file()?;
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    // SAFETY: the descriptor is this function's own; the kernel chooses the address.
    let base = unsafe {
        match raw!(libc::SYS_fallocate, fd, 0, 0usize, bytes) {
            0 => raw!(libc::SYS_mmap, 0usize, bytes, protection, libc::MAP_SHARED, fd, 0usize),
            _ => -1,
        }
    };
    close(fd);
    (base > 0).then_some(base as *mut u8)
}

/// A page of zeros that is zero again in a child, however that is made.
pub fn map_own_page() -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the kernel chooses the address.
    unsafe {
        let base = raw!(libc::SYS_mmap, 0usize, 4096usize, protection, flags, -1i32, 0usize);
        let is_wiped = base > 0 && raw!(libc::SYS_madvise, base, 4096usize, libc::MADV_WIPEONFORK) == 0;
        is_wiped.then_some(base as *mut u8)
    }
}

/// Keeps the open file description of a descriptor that is about to be closed, until the process ends; children do not
/// inherit it.
pub fn keep_description(fd: c_int) -> bool {
    // SAFETY: the kernel chooses the address, and nothing is ever read there.
    unsafe {
        let base = raw!(libc::SYS_mmap, 0usize, 4096usize, libc::PROT_READ, libc::MAP_SHARED, fd, 0usize);
        base > 0 && raw!(libc::SYS_madvise, base, 4096usize, libc::MADV_DONTFORK) == 0
    }
}

fn byte_lock(at: i64, kind: c_int) -> libc::flock {
    libc::flock { l_type: kind as i16, l_whence: libc::SEEK_SET as i16, l_start: at, l_len: 1, l_pid: 0 }
}

/// Locks or unlocks a byte for a descriptor's open file description; false if another has it.
pub fn lock_byte(fd: c_int, at: i64, kind: c_int) -> bool {
    let lock = byte_lock(at, kind);
    // SAFETY: the kernel reads the structure.
    unsafe { raw!(libc::SYS_fcntl, fd, libc::F_OFD_SETLK, &raw const lock) == 0 }
}

/// Whether another open file description has the byte locked.
pub fn is_byte_locked(fd: c_int, at: i64) -> bool {
    let mut lock = byte_lock(at, libc::F_WRLCK);
    // SAFETY: the kernel reads and fills the structure.
    let result = unsafe { raw!(libc::SYS_fcntl, fd, libc::F_OFD_GETLK, &raw mut lock) };
    result != 0 || lock.l_type != libc::F_UNLCK as i16
}

/// Closes a descriptor of this library.
pub fn close(fd: c_int) {
    // SAFETY: the caller's own descriptor.
    unsafe { raw!(libc::SYS_close, fd) };
}

/// Waits while a word that processes share has this value; true if the time was up.
pub fn wait_while(word: &AtomicU32, value: u32, ms: i64) -> bool {
    let time = libc::timespec { tv_sec: 0, tv_nsec: ms * 1_000_000 };
    // SAFETY: the word stays, and the kernel reads the time.
    keeping_errno(|| unsafe {
        raw!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &raw const time) != 0
            && errno() == libc::ETIMEDOUT
    })
}

pub fn wake_all(word: &AtomicU32) {
    // SAFETY: the word stays.
    keeping_errno(|| unsafe { raw!(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, c_int::MAX) });
}

/// `/proc/self/fd/N`, as a C string.
pub fn link_of(fd: c_int) -> [u8; 48] {
    numbered(b"/proc/self/fd/", fd.unsigned_abs())
}

/// A path that ends in a number, as a C string.
fn numbered(prefix: &[u8], number: u32) -> [u8; 48] {
    let mut link = [0u8; 48];
    link[..prefix.len()].copy_from_slice(prefix);
    let mut end = prefix.len();
    let mut rest = number;
    loop {
        link[end] = b'0' + (rest % 10) as u8;
        rest /= 10;
        end += 1;
        if rest == 0 {
            break;
        }
    }
    link[prefix.len()..end].reverse();
    link
}

/// Maps a descriptor's file by an open file description of its own; none if it can't be opened again.
///
/// A mapping by the program's description would keep locks of `flock` alive after the last close, and one opened and
/// closed here would end the process's record locks on the file. So a child does it that shares this memory but not
/// the descriptors, and ends at once.
pub fn map_by_child(fd: c_int, length: usize, writable: bool) -> Option<*mut u8> {
    let link = link_of(fd);
    let access = if writable { libc::O_RDWR } else { libc::O_RDONLY };
    let flags = access | libc::O_CLOEXEC | libc::O_NONBLOCK | libc::O_NOCTTY;
    let protection = libc::PROT_READ | if writable { libc::PROT_WRITE } else { 0 };
    let mut base: isize = -1;
    let child: isize;
    // SAFETY: with CLONE_VFORK this thread waits until the child has ended. The child runs on this stack, but uses only
    // registers: it opens, maps where nothing is mapped, stores the address in `base` and ends. No exit signal is sent.
    unsafe {
        core::arch::asm!(
            "syscall",
            "test rax, rax",
            "jnz 3f",
            "mov eax, {open}",
            "mov rdi, r12",
            "mov rsi, r13",
            "xor edx, edx",
            "syscall",
            "test rax, rax",
            "js 2f",
            "mov r8, rax",
            "mov eax, {mmap}",
            "xor edi, edi",
            "mov rsi, r14",
            "mov edx, {protection_register:e}",
            "mov r10d, {shared}",
            "xor r9d, r9d",
            "syscall",
            "mov [r15], rax",
            "2: mov eax, {exit}",
            "xor edi, edi",
            "syscall",
            "ud2",
            "3:",
            open = const libc::SYS_open,
            mmap = const libc::SYS_mmap,
            exit = const libc::SYS_exit,
            shared = const libc::MAP_SHARED,
            protection_register = in(reg) protection,
            inlateout("rax") libc::SYS_clone as isize => child,
            inlateout("rdi") (libc::CLONE_VM | libc::CLONE_VFORK) as usize => _,
            inlateout("rsi") 0usize => _,
            inlateout("rdx") 0usize => _,
            inlateout("r10") 0usize => _,
            inlateout("r8") 0usize => _,
            out("r9") _,
            out("rcx") _,
            out("r11") _,
            in("r12") link.as_ptr(),
            in("r13") flags as usize,
            in("r14") length,
            in("r15") &raw mut base,
        );
        if child > 0 {
            raw!(libc::SYS_wait4, child, core::ptr::null_mut::<c_int>(), libc::__WCLONE, 0usize);
        }
    }
    (base > 0).then_some(base as *mut u8)
}

/// Moves a descriptor's position and says where it is then; none if the kernel refuses.
pub fn move_position(fd: c_int, by: i64) -> Option<i64> {
    // SAFETY: it takes no pointer.
    let now = keeping_errno(|| unsafe { raw!(libc::SYS_lseek, fd, by, libc::SEEK_CUR) });
    (now >= 0).then_some(now)
}

/// Reads or writes at an offset, by a raw call: its result and `errno` are the program's.
pub fn transfer_at(fd: c_int, is_write: bool, buffers: &[libc::iovec], offset: i64) -> isize {
    let number = if is_write { libc::SYS_pwritev } else { libc::SYS_preadv };
    // SAFETY: an array of buffers that the program passed, good or bad. The kernel takes the offset's low part first.
    unsafe { raw!(number, fd, buffers.as_ptr(), buffers.len(), offset, 0usize) as isize }
}

/// How much an array of the program's buffers holds, which may be a bad one: the kernel reads it. [`usize::MAX`] if it
/// can't be read.
pub fn sum_of(vector: *const libc::iovec, count: c_int) -> usize {
    const ONCE: usize = 32;
    let count = usize::try_from(count).unwrap_or(0).min(libc::UIO_MAXIOV as usize);
    let mut sum = 0usize;
    for first in (0..count).step_by(ONCE) {
        let mut parts = [libc::iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; ONCE];
        let here = ONCE.min(count - first);
        let bytes = here * size_of::<libc::iovec>();
        let to = libc::iovec { iov_base: parts.as_mut_ptr().cast(), iov_len: bytes };
        let from = libc::iovec { iov_base: vector.wrapping_add(first) as *mut c_void, iov_len: bytes };
        // SAFETY: the kernel reads this process's own memory, if it can, into an array with room for it.
        let read = keeping_errno(|| unsafe {
            raw!(libc::SYS_process_vm_readv, process(), &raw const to, 1, &raw const from, 1, 0)
        });
        if read != bytes as c_long {
            return usize::MAX;
        }
        sum = parts[..here].iter().fold(sum, |sum, part| sum.saturating_add(part.iov_len));
    }
    sum
}

/// Brings the mtime and ctime of a descriptor's file up to now.
pub fn touch(fd: c_int) {
    let times = [
        libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_OMIT },
        libc::timespec { tv_sec: 0, tv_nsec: libc::UTIME_NOW },
    ];
    keeping_errno(|| {
        // SAFETY: with a null path the call is about the descriptor; the kernel reads two timespecs, or none.
        unsafe {
            // Who may write the file, and is neither its owner nor may act as such, can only set both times.
            if raw!(libc::SYS_utimensat, fd, core::ptr::null::<u8>(), times.as_ptr(), 0) != 0 {
                raw!(libc::SYS_utimensat, fd, core::ptr::null::<u8>(), core::ptr::null::<u8>(), 0);
            }
        }
    });
}

const BARRIERS: c_int = 1 << 3;
const BARRIERS_LATER: c_int = 1 << 4;

fn membarrier(command: c_int) -> bool {
    // SAFETY: it takes no pointer.
    keeping_errno(|| unsafe { raw!(libc::SYS_membarrier, command, 0, 0) == 0 })
}

/// Tells the kernel that this process will call [`pass_barriers`]; false if there is no such thing.
pub fn prepare_barriers() -> bool {
    membarrier(BARRIERS_LATER)
}

/// Each thread of this process passes a full memory barrier, wherever it is.
pub fn pass_barriers() -> bool {
    membarrier(BARRIERS)
}

/// The process that runs: a child of `vfork` shares its parent's memory, but not this.
pub fn process() -> c_int {
    // SAFETY: getpid always succeeds.
    unsafe { raw!(libc::SYS_getpid) as c_int }
}
