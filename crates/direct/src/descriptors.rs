//! What is known of each descriptor: nothing yet, that the kernel serves it, or which mapped file it shows; and where its
//! position probably is, if no other descriptor shares its open file description.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, Ordering};
use libc::c_int;

use crate::shared::{self, Identity};
use crate::{fault, files, kernel, lifetime, lock, served, stats};

/// Higher descriptors go to the kernel.
const DESCRIPTORS: usize = 1 << 16;
/// An operation counts once more for each of these.
const OPERATION_BYTES: usize = 8 << 10;

const TAG: u32 = 3;
const UNKNOWN: u32 = 0;
const KERNEL: u32 = 1;
const SHOWN: u32 = 2;
/// No regular file on a served device.
const OTHER: u32 = 3;
const WRITABLE: u32 = 4;
const COUNT_SHIFT: u32 = 2;
const INDEX_SHIFT: u32 = 3;

struct Descriptor {
    state: AtomicU32,
    /// The slot of the thread that reads or writes at its position, and one; 0 if none did yet.
    user: AtomicU32,
    /// Where its position was last seen, and one: a hint, which may be wrong. [`SHARED`] if others may move it.
    position: AtomicI64,
}

/// The description may be shared, or was not opened here: the kernel does what depends on its position. Zero, so that
/// the table takes neither room in the library nor time when that is loaded.
const SHARED: i64 = 0;

static ALL: [Descriptor; DESCRIPTORS] = [const {
    Descriptor { state: AtomicU32::new(UNKNOWN), user: AtomicU32::new(0), position: AtomicI64::new(SHARED) }
}; DESCRIPTORS];
/// Descriptors from here on were never seen.
static HIGH: AtomicU32 = AtomicU32::new(0);
static OWNER: AtomicI32 = AtomicI32::new(0);

/// How often a process of this user has made a descriptor append, as far as is known here: descriptors that were
/// inherited or passed on share that flag.
static APPENDS_KNOWN: AtomicU32 = AtomicU32::new(0);
static IS_APPENDS_KNOWN: AtomicBool = AtomicBool::new(false);

/// What a descriptor shows.
#[derive(Clone, Copy)]
pub struct Shown {
    pub index: usize,
    pub can_write: bool,
}

fn slot(fd: c_int) -> Option<&'static AtomicU32> {
    Some(&ALL.get(usize::try_from(fd).ok()?)?.state)
}

fn position_slot(fd: c_int) -> Option<&'static AtomicI64> {
    Some(&ALL.get(usize::try_from(fd).ok()?)?.position)
}

fn raise_high(fd: c_int) {
    let above = fd.unsigned_abs() + 1;
    if HIGH.load(Ordering::Relaxed) < above {
        HIGH.fetch_max(above, Ordering::Relaxed);
    }
}

/// Where a descriptor's position probably is; none if its description may be shared.
pub fn position(fd: c_int) -> Option<i64> {
    let seen = position_slot(fd)?.load(Ordering::Relaxed);
    (seen != SHARED).then_some(seen - 1)
}

/// The same for this thread's next operation there; none if another thread had one before. A served operation moves the
/// position and, if the kernel then finds less, moves it back: only one thread may do that.
pub fn position_of_one_user(fd: c_int) -> Option<i64> {
    let position = position(fd)?;
    let own = stats::own_slot()?;
    let user = &ALL.get(usize::try_from(fd).ok()?)?.user;
    let before = match user.load(Ordering::Relaxed) {
        0 => {
            user.compare_exchange(0, own, Ordering::Relaxed, Ordering::Relaxed).unwrap_or_else(|other| other)
        }
        known => known,
    };
    if before != 0 && before != own {
        share_description(fd);
        return None;
    }
    Some(position)
}

/// The position was seen to be here.
pub fn note_position(fd: c_int, position: i64) {
    let own = |slot: &&AtomicI64| slot.load(Ordering::Relaxed) != SHARED;
    if let Some(slot) = position_slot(fd).filter(own).filter(|_| (0..i64::MAX).contains(&position)) {
        slot.store(position + 1, Ordering::Relaxed);
    }
}

/// The kernel moved the position on by a read or write.
pub fn advance_position(fd: c_int, result: isize) {
    if let Some(before) = position(fd).filter(|_| result > 0) {
        note_position(fd, before.saturating_add(result as i64));
    }
}

/// Others may have this descriptor's description, too, from now on.
pub fn share_description(fd: c_int) {
    if let Some(slot) = position_slot(fd).filter(|slot| slot.load(Ordering::Relaxed) != SHARED) {
        slot.store(SHARED, Ordering::Relaxed);
    }
}

/// All descriptors' descriptions may be another process's, too, from now on.
pub fn share_descriptions() {
    for descriptor in &ALL[..(HIGH.load(Ordering::Relaxed) as usize).min(DESCRIPTORS)] {
        if descriptor.position.load(Ordering::Relaxed) != SHARED {
            descriptor.position.store(SHARED, Ordering::Relaxed);
        }
    }
}

/// The process whose descriptors these are.
pub fn belong_to_this_process() {
    OWNER.store(kernel::process(), Ordering::Relaxed);
}

/// A descriptor appends from now on; so do its copies, and which ones these are is not known.
pub fn appends_now() {
    if served::any() {
        shared::count_append();
    }
}

/// Whether no descriptor was made to append since it was looked at; if one was, none shows anything any more.
#[inline(always)]
pub fn none_appends() -> bool {
    match shared::appends() {
        Some(now) if now == APPENDS_KNOWN.load(Ordering::Relaxed) => true,
        Some(now) => forget_appends(now),
        None => false,
    }
}

#[inline(never)]
fn forget_appends(now: u32) -> bool {
    // Known first: one more that comes meanwhile is found next time.
    APPENDS_KNOWN.store(now, Ordering::Relaxed);
    forget_files();
    false
}

/// Whether they are; a child of `vfork` has its parent's.
pub fn are_this_process_s() -> bool {
    lifetime::notice_copy();
    kernel::process() == OWNER.load(Ordering::Relaxed)
}

/// Descriptors that show a file.
pub fn showing(index: usize) -> impl Iterator<Item = c_int> {
    let all = from_to(0, u32::MAX).map(|fd| fd as c_int);
    all.filter(move |&fd| shown(fd).is_some_and(|shown| shown.index == index))
}

/// The file that a descriptor shows. Asked within an operation, the file's mapping stays until that ends.
pub fn shown(fd: c_int) -> Option<Shown> {
    let value = slot(fd)?.load(Ordering::SeqCst);
    (value & TAG == SHOWN)
        .then_some(Shown { index: (value >> INDEX_SHIFT) as usize, can_write: value & WRITABLE != 0 })
}

/// Whether the descriptor shows a file, as far as is known without looking.
pub fn is_shown(fd: c_int) -> bool {
    slot(fd).is_some_and(|slot| slot.load(Ordering::Relaxed) & TAG == SHOWN)
}

/// What tells the descriptor's file apart, if that may be a served one: by the table alone if it shows one.
pub fn identity(fd: c_int) -> Option<Identity> {
    let slot = slot(fd)?;
    if slot.load(Ordering::Relaxed) & TAG == OTHER {
        return None;
    }
    kernel::keeping_errno(|| {
        let stat = kernel::fstat(fd)?;
        let can_be = stat.st_mode & libc::S_IFMT == libc::S_IFREG && served::is_device(stat.st_dev);
        let seen = slot.load(Ordering::Relaxed);
        if !can_be && seen & TAG != SHOWN {
            let _ = slot.compare_exchange(seen, OTHER, Ordering::Relaxed, Ordering::Relaxed);
        }
        can_be.then(|| Identity::new(stat.st_dev, stat.st_ino))
    })
}

/// Whether it was found that the descriptor has nothing to do with served files.
pub fn is_other(fd: c_int) -> bool {
    slot(fd).is_none_or(|slot| slot.load(Ordering::Relaxed) & TAG == OTHER)
}

/// Counts an operation that the kernel did on a descriptor, large ones for more; after enough of them its file is mapped,
/// if it is served.
pub fn count(fd: c_int, bytes: usize) {
    let Some(slot) = slot(fd) else {
        return;
    };
    let value = slot.load(Ordering::Relaxed);
    if value & TAG != UNKNOWN {
        return;
    }
    let operations = value >> COUNT_SHIFT;
    if operations >= served::operations_before() {
        kernel::keeping_errno(|| lock::with(|| look(fd, slot)));
    } else {
        // Two threads may both count one: the file is mapped a little later.
        let weight = 1 + (bytes / OPERATION_BYTES) as u32;
        let counted = operations.saturating_add(weight).min(served::operations_before());
        slot.store(counted << COUNT_SHIFT, Ordering::Relaxed);
    }
}

fn look(fd: c_int, slot: &AtomicU32) {
    if slot.load(Ordering::Relaxed) & TAG != UNKNOWN || !are_this_process_s() {
        return;
    }
    raise_high(fd);
    let value = match classify(fd) {
        Found::Kernel => KERNEL,
        Found::Other => OTHER,
        Found::Later => UNKNOWN,
        Found::File { index, can_write } => {
            SHOWN | if can_write { WRITABLE } else { 0 } | (index as u32) << INDEX_SHIFT
        }
    };
    slot.store(value, Ordering::SeqCst);
}

enum Found {
    Other,
    Kernel,
    Later,
    File { index: usize, can_write: bool },
}

fn classify(fd: c_int) -> Found {
    served::resolve();
    if served::maps_no_more() {
        return Found::Kernel;
    }
    let Some(stat) = kernel::fstat(fd) else {
        return Found::Kernel;
    };
    if stat.st_mode & libc::S_IFMT != libc::S_IFREG || !served::is_device(stat.st_dev) {
        return Found::Other;
    }
    shared::attach();
    // Before the flags are read: what appends from now on is found out later.
    if !IS_APPENDS_KNOWN.swap(true, Ordering::Relaxed) {
        APPENDS_KNOWN.store(shared::appends().unwrap_or(0), Ordering::Relaxed);
    }
    let Some(flags) = kernel::status_flags(fd) else {
        return Found::Kernel;
    };
    let access = flags & libc::O_ACCMODE;
    // A mapping needs read access, whatever it is for.
    let can_be = flags & libc::O_PATH == 0 && (access == libc::O_RDONLY || access == libc::O_RDWR);
    if !can_be || !served::has(fd, stat.st_dev) || kernel::has_lease(fd) {
        return Found::Kernel;
    }
    if stat.st_size < 2 * files::PAGE as i64 {
        return Found::Later;
    }
    // Only the owner may set the times; and a kernel's write takes set-user-ID bits away.
    let user = kernel::user();
    let can_write = access == libc::O_RDWR
        && flags & libc::O_APPEND == 0
        && !served::is_strict()
        && (user == stat.st_uid || user == 0)
        && stat.st_mode & (libc::S_ISUID | libc::S_ISGID) == 0
        && shared::maps(Identity::new(stat.st_dev, stat.st_ino));
    if !fault::install() {
        return Found::Kernel;
    }
    match files::shown(fd, &stat, can_write) {
        Some(index) => Found::File { index, can_write },
        None => Found::Kernel,
    }
}

/// Before a descriptor is closed or its flags change: it shows nothing any more, and its file's times are exact.
///
/// A child of `vfork` shares this table, but closes descriptors of its own: there it does nothing.
pub fn forget(fd: c_int) {
    share_description(fd);
    forget_file(fd);
}

/// The same for a descriptor that stays open.
pub fn forget_file(fd: c_int) {
    let Some(slot) = slot(fd) else {
        return;
    };
    match slot.load(Ordering::Relaxed) {
        UNKNOWN => {}
        seen if seen & TAG == SHOWN => kernel::keeping_errno(|| {
            if are_this_process_s() {
                lock::with(|| forget_shown(fd, slot));
            }
        }),
        _ => slot.store(UNKNOWN, Ordering::SeqCst),
    }
}

fn forget_shown(fd: c_int, slot: &AtomicU32) {
    if let Some(Shown { index, .. }) = shown(fd) {
        files::date(index);
        slot.store(UNKNOWN, Ordering::SeqCst);
        files::leave(index);
    }
}

/// A descriptor is new, of a description that others may have: whatever is known is of one that had its number, and may
/// have been closed by a way that is not seen.
pub fn renew(fd: c_int) {
    forget(fd);
}

/// The same for a file that was opened by this call: nobody else has its description yet.
pub fn renew_opened(fd: c_int) {
    if let Some(position) = position_slot(fd) {
        forget_file(fd);
        raise_high(fd);
        ALL[fd as usize].user.store(0, Ordering::Relaxed);
        position.store(1, Ordering::Relaxed);
    }
}

/// The file must be mapped again, longer: at the next operation.
pub fn remap(fd: c_int) {
    forget_file(fd);
    if let Some(slot) = slot(fd) {
        let ready = served::operations_before() << COUNT_SHIFT;
        let _ = slot.compare_exchange(UNKNOWN, ready, Ordering::Relaxed, Ordering::Relaxed);
    }
}

fn from_to(first: u32, last: u32) -> core::ops::Range<u32> {
    first..HIGH.load(Ordering::Relaxed).min(last.saturating_add(1))
}

/// [`forget`] for all descriptors from `first` to `last`.
pub fn forget_range(first: u32, last: u32) {
    from_to(first, last).for_each(|fd| forget(fd as c_int));
}

/// [`forget_file`] for all descriptors.
pub fn forget_files() {
    from_to(0, u32::MAX).for_each(|fd| forget_file(fd as c_int));
}
