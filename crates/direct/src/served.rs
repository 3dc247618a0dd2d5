//! Which directories are served: read from the environment when the library is loaded, looked up when the first file
//! that may be served is used, and fixed from then on.

use core::cell::UnsafeCell;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use crate::kernel::raw;

const DIRECTORIES_MAX: usize = 16;
const PATH_MAX: usize = 4096;

#[derive(Clone, Copy)]
struct Directory {
    device: u64,
    path: &'static [u8],
}

struct Directories(UnsafeCell<[Directory; DIRECTORIES_MAX]>);

// SAFETY: written only by `resolve`, under the lock; entries below COUNT are never written again.
unsafe impl Sync for Directories {}

/// A copy of the variable that lists them, with a zero after each: the program may change its environment.
struct Listed(UnsafeCell<[u8; LISTED_MAX]>);

// SAFETY: written only by `read_environment`, while the library is loaded.
unsafe impl Sync for Listed {}

const LISTED_MAX: usize = DIRECTORIES_MAX * 1024;
static LISTED: Listed = Listed(UnsafeCell::new([0; LISTED_MAX]));
static LISTED_BYTES: AtomicUsize = AtomicUsize::new(0);
static IS_RESOLVED: AtomicBool = AtomicBool::new(false);

static DIRECTORIES: Directories =
    Directories(UnsafeCell::new([Directory { device: 0, path: &[] }; DIRECTORIES_MAX]));
static COUNT: AtomicUsize = AtomicUsize::new(0);
static STRICT: AtomicBool = AtomicBool::new(false);
/// A descriptor's file is mapped after so many operations: for fewer the mapping, some 150 µs, costs more than it saves.
static OPERATIONS_BEFORE: AtomicU32 = AtomicU32::new(128);
const OPERATIONS_BEFORE_MAX: u32 = 1 << 20;
/// The process's limit on the size of files that it writes, in bytes.
static FILE_SIZE_MAX: AtomicUsize = AtomicUsize::new(usize::MAX);

/// No more files are mapped.
static MAPS_NO_MORE: AtomicBool = AtomicBool::new(false);
/// The program has an io_uring, which may close and open descriptors.
static HAS_RING: AtomicBool = AtomicBool::new(false);
/// Where the counters go, a C string.
static STATS_FILE: Path = Path(UnsafeCell::new([0; PATH_MAX]));
static HAS_STATS_FILE: AtomicBool = AtomicBool::new(false);

/// A variable of the environment, as it was when the process started.
fn variable(name: &core::ffi::CStr) -> Option<&'static [u8]> {
    // SAFETY: the name is a C string.
    let value = unsafe { libc::getenv(name.as_ptr()) };
    if value.is_null() {
        return None;
    }
    // SAFETY: getenv returns a C string; it lies in the environment block of the process, or is copied by the caller
    // before the program runs and may change it.
    Some(unsafe { core::ffi::CStr::from_ptr(value) }.to_bytes())
}

/// The device of a directory on tmpfs; none for anything else, whose pages a mapping may not share with `pread`.
fn device_of(name: &core::ffi::CStr) -> Option<u64> {
    let mut system = core::mem::MaybeUninit::<libc::statfs>::zeroed();
    let mut found = core::mem::MaybeUninit::<libc::stat>::zeroed();
    // SAFETY: a C string and structures of the kernel's layout.
    let results = unsafe {
        [
            raw!(libc::SYS_statfs, name.as_ptr(), system.as_mut_ptr()),
            raw!(libc::SYS_stat, name.as_ptr(), found.as_mut_ptr()),
        ]
    };
    // SAFETY: both are zeroed or filled, and all their fields are integers.
    let (system, found) = unsafe { (system.assume_init(), found.assume_init()) };
    (results == [0, 0] && system.f_type == libc::TMPFS_MAGIC).then_some(found.st_dev)
}

pub fn read_environment() {
    STRICT.store(variable(c"WARMSET_DIRECT_STRICT") == Some(b"1"), Ordering::Relaxed);
    let after =
        variable(c"WARMSET_DIRECT_AFTER").and_then(|digits| core::str::from_utf8(digits).ok()?.parse().ok());
    if let Some(after) = after {
        OPERATIONS_BEFORE.store(u32::min(after, OPERATIONS_BEFORE_MAX), Ordering::Relaxed);
    }
    if let Some(path) = variable(c"WARMSET_DIRECT_STATS").filter(|path| path.len() < PATH_MAX) {
        // SAFETY: no other thread runs code of this library while it is loaded, and HAS_STATS_FILE does not show it yet.
        unsafe { (&mut *STATS_FILE.0.get())[..path.len()].copy_from_slice(path) };
        HAS_STATS_FILE.store(true, Ordering::Release);
    }
    let Some(listed) = variable(c"WARMSET_DIRECT_DIRS").filter(|listed| listed.len() < LISTED_MAX) else {
        return;
    };
    // SAFETY: no other thread runs code of this library while it is loaded, and LISTED_BYTES does not show it yet.
    let own = unsafe { &mut (&mut *LISTED.0.get())[..listed.len()] };
    own.copy_from_slice(listed);
    own.iter_mut().filter(|byte| **byte == b':').for_each(|byte| *byte = 0);
    LISTED_BYTES.store(listed.len(), Ordering::Release);
}

/// Looks the directories up, once. Under the lock.
pub fn resolve() {
    if IS_RESOLVED.load(Ordering::Acquire) {
        return;
    }
    read_limits();
    // SAFETY: written while the library was loaded, and not any more.
    let listed: &'static [u8] = unsafe { &(&*LISTED.0.get())[..=LISTED_BYTES.load(Ordering::Acquire)] };
    let mut count = 0;
    for path in listed.split_inclusive(|&byte| byte == 0) {
        let Ok(name) = core::ffi::CStr::from_bytes_with_nul(path) else { continue };
        let path = name.to_bytes();
        let path = path.strip_suffix(b"/").unwrap_or(path);
        if let Some(device) =
            device_of(name).filter(|_| name.to_bytes().first() == Some(&b'/') && count < DIRECTORIES_MAX)
        {
            // SAFETY: under the lock, and COUNT does not show it yet.
            unsafe { (*DIRECTORIES.0.get())[count] = Directory { device, path } };
            count += 1;
        }
    }
    COUNT.store(count, Ordering::Release);
    IS_RESOLVED.store(true, Ordering::Release);
}

/// Whether a served directory is on this device.
pub fn is_device(device: u64) -> bool {
    if !IS_RESOLVED.load(Ordering::Acquire) {
        crate::lock::with(resolve);
    }
    directories().iter().any(|each| each.device == device)
}

fn directories() -> &'static [Directory] {
    let count = COUNT.load(Ordering::Acquire);
    // SAFETY: entries below COUNT are not written any more.
    unsafe { core::slice::from_raw_parts(DIRECTORIES.0.get().cast(), count) }
}

/// Whether the environment names any directory to serve.
pub fn any() -> bool {
    LISTED_BYTES.load(Ordering::Relaxed) > 0
}

/// Where the counters go when the process ends.
pub fn stats_file() -> Option<&'static core::ffi::CStr> {
    // SAFETY: written before HAS_STATS_FILE was set, and not any more.
    let path: Option<&'static [u8; PATH_MAX]> =
        HAS_STATS_FILE.load(Ordering::Acquire).then(|| unsafe { &*STATS_FILE.0.get() });
    core::ffi::CStr::from_bytes_until_nul(path?).ok()
}

/// From now on the kernel serves all files: mappings would be in the program's way.
pub fn map_no_more() {
    if any() && !MAPS_NO_MORE.swap(true, Ordering::Relaxed) {
        crate::descriptors::forget_files();
    }
}

pub fn note_ring() {
    HAS_RING.store(true, Ordering::Relaxed);
}

/// Whether a descriptor may be closed and opened again unseen.
#[inline(always)]
pub fn has_ring() -> bool {
    HAS_RING.load(Ordering::Relaxed)
}

pub fn maps_no_more() -> bool {
    MAPS_NO_MORE.load(Ordering::Relaxed)
}

/// From now on this library makes no system calls of its own: the program allows itself but some, and others may end it.
pub fn leave_alone() {
    if any() {
        map_no_more();
        crate::stats::report();
        HAS_STATS_FILE.store(false, Ordering::Release);
        // Not while another thread forks, which gives the lock back only where something is served.
        crate::lock::with(|| LISTED_BYTES.store(0, Ordering::Release));
    }
}

/// After how many operations on a descriptor its file is mapped.
pub fn operations_before() -> u32 {
    OPERATIONS_BEFORE.load(Ordering::Relaxed)
}

/// Whether timestamps must be exact after each write.
pub fn is_strict() -> bool {
    STRICT.load(Ordering::Relaxed)
}

/// One of the process's limits.
fn limit(which: u32) -> libc::rlim_t {
    let mut limit = libc::rlimit { rlim_cur: libc::RLIM_INFINITY, rlim_max: libc::RLIM_INFINITY };
    crate::kernel::keeping_errno(|| {
        // SAFETY: a structure of the kernel's layout; no new limit is set.
        unsafe { raw!(libc::SYS_prlimit64, 0, which, core::ptr::null::<u8>(), &raw mut limit) }
    });
    limit.rlim_cur
}

/// Reads the process's limits again: they were set, or the process has just begun. Where its address space is limited,
/// mappings would take it away from the program.
pub fn read_limits() {
    let bytes = usize::try_from(limit(libc::RLIMIT_FSIZE)).unwrap_or(usize::MAX);
    FILE_SIZE_MAX.store(bytes, Ordering::Relaxed);
    if limit(libc::RLIMIT_AS) != libc::RLIM_INFINITY {
        MAPS_NO_MORE.store(true, Ordering::Relaxed);
    }
}

/// The program has set its limits.
pub fn follow_limits() {
    if !any() {
        return;
    }
    let before = maps_no_more();
    read_limits();
    if maps_no_more() && !before {
        crate::descriptors::forget_files();
    }
}

/// Whether the process may write up to this offset of a file.
pub fn may_write_to(end: usize) -> bool {
    end <= FILE_SIZE_MAX.load(Ordering::Relaxed)
}

/// Room for a path. Not on the stack: a signal handler that writes may have little of it.
struct Path(UnsafeCell<[u8; PATH_MAX]>);

// SAFETY: one is used only under the lock, the other is written only while the library is loaded.
unsafe impl Sync for Path {}

static PATH: Path = Path(UnsafeCell::new([0; PATH_MAX]));

/// Whether the file behind this descriptor, on this device, lies in a served directory. Under the lock.
pub fn has(fd: libc::c_int, device: u64) -> bool {
    if !directories().iter().any(|each| each.device == device) {
        return false;
    }
    let link = crate::kernel::link_of(fd);
    // SAFETY: under the lock nobody else uses it.
    let path = unsafe { &mut *PATH.0.get() };
    // SAFETY: a C string and a buffer of the size that is given.
    let length = unsafe { raw!(libc::SYS_readlink, link.as_ptr(), path.as_mut_ptr(), path.len()) };
    let Some(path) = usize::try_from(length).ok().and_then(|length| path.get(..length)) else {
        return false;
    };
    directories().iter().any(|each| {
        each.device == device && path.strip_prefix(each.path).is_some_and(|rest| rest.first() == Some(&b'/'))
    })
}
