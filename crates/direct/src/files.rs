//! Mapped files: one for each (device, inode, writable) that a descriptor shows, in a table of fixed size.
//!
//! Invariants:
//! - A file's mapping stays in place while a descriptor shows it, and while any operation that saw it there runs.
//! - Operations end at or before `limit`, the start of the page in which the file was last known to end. That page is
//!   touched before the copy, so that nothing is changed in vain, and after it, which is what counts: had the file been
//!   cut to less, the kernel would have taken the page away before it changed anything below, and the touch faults. So
//!   nobody who truncates has to know of this library.
//! - A mapping keeps no open file description of the program's: locks of `flock` end with the last close, as ever.
//! - A set bit in `present` says that the page had storage once. Reading a page without would give it some.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicPtr, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::kernel::raw;
use crate::shared::{self, Identity};
use crate::stats::{self, SLOTS};
use crate::{copy, descriptors, kernel, lifetime};

pub const PAGE: usize = 4096;
const FILES: usize = 2048;
/// The least that is mapped: files grow, and address space is cheap.
const MAPPED_MIN: usize = 64 << 20;
/// Pages that one look at the kernel's table covers: 2 MiB.
const LOOK: usize = 512;
/// After so many misses for each stretch of pages, only one miss in [`LOOK_EVERY`] looks again.
const LOOKS_PER_STRETCH: u32 = 4;
const LOOK_EVERY: u32 = 64;

pub struct File {
    base: AtomicPtr<u8>,
    length: AtomicUsize,
    limit: AtomicUsize,
    present: AtomicPtr<AtomicU64>,
    misses: AtomicU32,
    device: AtomicU64,
    inode: AtomicU64,
    writable: AtomicBool,
    /// Written here since its times were last brought up to date; then `writer` is an open descriptor of it.
    dirty: AtomicBool,
    /// Its times are of the first write since then, or later.
    dated: AtomicBool,
    writer: AtomicI32,
    /// What lies beyond may have holes that the kernel does not tell this user of.
    known_bytes: AtomicUsize,
    /// Descriptors that show it; changed under the lock.
    references: AtomicU32,
    state: AtomicU32,
}

const FREE: u32 = 0;
const USED: u32 = 1;
/// No descriptor shows it any more; operations may.
const RETIRED: u32 = 2;
/// The same, in the round that waits for the operations of now.
const LEAVING: u32 = 3;

static ALL: [File; FILES] = [const {
    File {
        base: AtomicPtr::new(core::ptr::null_mut()),
        length: AtomicUsize::new(0),
        limit: AtomicUsize::new(0),
        present: AtomicPtr::new(core::ptr::null_mut()),
        misses: AtomicU32::new(0),
        device: AtomicU64::new(0),
        inode: AtomicU64::new(0),
        writable: AtomicBool::new(false),
        dirty: AtomicBool::new(false),
        dated: AtomicBool::new(false),
        writer: AtomicI32::new(0),
        known_bytes: AtomicUsize::new(0),
        references: AtomicU32::new(0),
        state: AtomicU32::new(FREE),
    }
}; FILES];
/// Files with higher indices were never used.
static HIGH: AtomicUsize = AtomicUsize::new(0);
/// Whether any file may be dirty.
static ANY_DIRTY: AtomicBool = AtomicBool::new(false);

fn known() -> &'static [File] {
    &ALL[..HIGH.load(Ordering::Acquire)]
}

pub fn at(index: usize) -> &'static File {
    &ALL[index]
}

/// Memory for a table, all zeros; it takes pages only where it is written.
fn map_table(bytes: usize) -> Option<*mut u8> {
    let protection = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: the kernel chooses the address, so nothing that is mapped is replaced.
    let base = unsafe { raw!(libc::SYS_mmap, 0usize, bytes, protection, flags, -1i32, 0usize) };
    (base > 0).then_some(base as *mut u8)
}

fn unmap(base: *mut u8, length: usize) {
    // SAFETY: the caller got this mapping from the kernel, and nothing uses it any more.
    unsafe { raw!(libc::SYS_munmap, base, length) };
}

/// Up to where holes are known. To those who may not write a file the kernel says that it has none: they get a whole one,
/// as it is now, or none.
fn known_bytes(stat: &libc::stat, writable: bool) -> Option<usize> {
    let user = kernel::user();
    if writable || user == stat.st_uid || user == 0 {
        return Some(usize::MAX);
    }
    const BLOCK: i64 = 512;
    let is_whole = stat.st_blocks.saturating_mul(BLOCK) >= stat.st_size;
    usize::try_from(stat.st_size).ok().filter(|_| is_whole)
}

/// The file of a descriptor, mapped, with one more reference. Under the lock.
pub fn shown(fd: libc::c_int, stat: &libc::stat, writable: bool) -> Option<usize> {
    let size = usize::try_from(stat.st_size).ok()?;
    let known_bytes = known_bytes(stat, writable)?;
    let is_same = |file: &File| {
        file.state.load(Ordering::Relaxed) == USED
            && file.device.load(Ordering::Relaxed) == stat.st_dev
            && file.inode.load(Ordering::Relaxed) == stat.st_ino
            && file.writable.load(Ordering::Relaxed) == writable
            && file.length.load(Ordering::Relaxed) >= size
    };
    if let Some(index) = known().iter().position(is_same) {
        ALL[index].references.fetch_add(1, Ordering::Relaxed);
        ALL[index].follow_size(size);
        return Some(index);
    }
    let index = ALL.iter().position(|file| file.state.load(Ordering::Relaxed) == FREE)?;
    let length = size.checked_mul(2)?.checked_next_power_of_two()?.max(MAPPED_MIN);
    let base = kernel::map_by_child(fd, length, writable)?;
    let bits = length / PAGE / 8;
    let Some(present) = map_table(bits) else {
        unmap(base, length);
        return None;
    };
    let file = &ALL[index];
    file.base.store(base, Ordering::Relaxed);
    file.length.store(length, Ordering::Relaxed);
    file.limit.store(0, Ordering::Relaxed);
    file.present.store(present.cast(), Ordering::Relaxed);
    file.misses.store(0, Ordering::Relaxed);
    file.device.store(stat.st_dev, Ordering::Relaxed);
    file.inode.store(stat.st_ino, Ordering::Relaxed);
    file.writable.store(writable, Ordering::Relaxed);
    file.known_bytes.store(known_bytes, Ordering::Relaxed);
    file.dirty.store(false, Ordering::Relaxed);
    file.dated.store(false, Ordering::Relaxed);
    file.references.store(1, Ordering::Relaxed);
    file.state.store(USED, Ordering::Release);
    HIGH.fetch_max(index + 1, Ordering::AcqRel);
    file.follow_size(size);
    Some(index)
}

/// A descriptor does not show the file any more. Under the lock, after the table of descriptors says so.
pub fn leave(index: usize) {
    let file = &ALL[index];
    if file.references.fetch_sub(1, Ordering::AcqRel) == 1 {
        file.state.store(RETIRED, Ordering::Relaxed);
        reclaim();
    }
}

/// Slots whose operations of the round's beginning may still run. Only under the lock.
static PENDING: [AtomicBool; SLOTS] = [const { AtomicBool::new(false) }; SLOTS];
/// Whether the slots show all operations that the round waits for.
static IS_SEEN: AtomicBool = AtomicBool::new(false);
/// How often a close looks whether the operations of other threads have ended, before it leaves that to the next one.
const TRIES: usize = 200;

/// Unmaps what no operation can use. Never waits for long: an operation may be this thread's own, interrupted.
fn reclaim() {
    for _ in 0..TRIES {
        let is_leaving = |file: &&File| file.state.load(Ordering::Relaxed) == LEAVING;
        if !known().iter().any(|file| is_leaving(&file)) {
            let mut is_any = false;
            for file in known().iter().filter(|file| file.state.load(Ordering::Relaxed) == RETIRED) {
                file.state.store(LEAVING, Ordering::Relaxed);
                is_any = true;
            }
            if !is_any {
                return;
            }
            PENDING.iter().for_each(|pending| pending.store(true, Ordering::Relaxed));
            IS_SEEN.store(false, Ordering::Relaxed);
        }
        if !IS_SEEN.load(Ordering::Relaxed) {
            if !stats::see_all() {
                return;
            }
            IS_SEEN.store(true, Ordering::Relaxed);
        }
        for (pending, slot) in PENDING.iter().zip(stats::used()) {
            if slot.is_idle() {
                pending.store(false, Ordering::Relaxed);
            }
        }
        let slots = stats::used().len();
        if PENDING[..slots].iter().any(|pending| pending.load(Ordering::Relaxed)) {
            core::hint::spin_loop();
            continue;
        }
        known().iter().filter(is_leaving).for_each(File::free);
        if !known().iter().any(File::is_writable) {
            shared::maps_nothing();
        }
    }
}

/// Files that this process may write to. Under the lock.
pub fn for_each_writable(mut work: impl FnMut(Identity)) {
    known().iter().filter(|file| file.is_writable()).for_each(|file| work(file.identity()));
}

/// In a child of `fork`: the parent brings the times up to date for what it wrote.
pub fn forget_dirt() {
    known().iter().for_each(|file| file.dirty.store(false, Ordering::Relaxed));
}

/// Brings the times of all files up to date that were written here.
pub fn date_all() {
    if ANY_DIRTY.load(Ordering::Relaxed) {
        date_dirty();
    }
}

#[inline(never)]
fn date_dirty() {
    // A copy of the process has nothing to bring up to date.
    lifetime::notice_copy();
    if ANY_DIRTY.swap(false, Ordering::AcqRel) {
        (0..known().len()).for_each(date);
    }
}

/// Brings a file's times up to date, if it was written here: by a descriptor that is its own, now and in this process.
/// A child of `vfork` may have closed its parent's, or have something else there; then that is left to the parent.
pub fn date(index: usize) {
    let file = &ALL[index];
    if !file.dirty.swap(false, Ordering::AcqRel) {
        return;
    }
    let writer = file.writer.load(Ordering::Relaxed);
    let is_own = |&fd: &libc::c_int| kernel::keeping_errno(|| file.is_of(fd));
    match Some(writer).filter(is_own).or_else(|| descriptors::showing(index).find(is_own)) {
        Some(fd) => {
            file.dated.store(false, Ordering::Relaxed);
            kernel::touch(fd);
        }
        None if !descriptors::are_this_process_s() => file.wrote_by(writer),
        None => {}
    }
}

/// What is known of holes is forgotten: some file has new ones. An operation of its own: what it finds in use stays mapped.
pub fn forget_present() {
    let _active = stats::mine().enter();
    for file in known().iter().filter(|file| file.state.load(Ordering::Acquire) == USED) {
        file.clear_present();
    }
}

impl File {
    fn free(&self) {
        unmap(self.base.load(Ordering::Relaxed), self.length.load(Ordering::Relaxed));
        unmap(self.present.load(Ordering::Relaxed).cast(), self.length.load(Ordering::Relaxed) / PAGE / 8);
        self.state.store(FREE, Ordering::Release);
    }

    fn is_writable(&self) -> bool {
        self.state.load(Ordering::Relaxed) != FREE && self.writable.load(Ordering::Relaxed)
    }

    pub fn identity(&self) -> Identity {
        Identity::new(self.device.load(Ordering::Relaxed), self.inode.load(Ordering::Relaxed))
    }

    /// Where operations must end.
    pub fn limit(&self) -> usize {
        self.limit.load(Ordering::Acquire)
    }

    /// The address of an offset; below the mapping's length.
    pub fn address(&self, offset: usize) -> *mut u8 {
        self.base.load(Ordering::Relaxed).wrapping_add(offset)
    }

    /// Has the processor fetch what lies at an offset, any offset: a copy from there begins soon.
    #[inline(always)]
    pub fn fetch(&self, offset: usize) {
        copy::fetch(self.address(offset));
    }

    pub fn is_mapped(&self, end: usize) -> bool {
        end <= self.length.load(Ordering::Relaxed)
    }

    /// Whether the file still reaches beyond `limit`; asked before and after each copy. If not, nothing is known of it any more.
    ///
    /// # Safety
    /// The caller is in an operation that found this file, and the handlers of `fault` are installed.
    pub unsafe fn still_reaches(&self, limit: usize) -> bool {
        // SAFETY: the page lies in the mapping, which stays while the operation runs.
        let is_there = unsafe { copy::is_readable(self.address(limit), 1) };
        if !is_there {
            self.limit.store(0, Ordering::Release);
            self.clear_present();
        }
        is_there
    }

    fn clear_present(&self) {
        let words = self.length.load(Ordering::Relaxed) / PAGE / 64;
        // Only words up to the last page ever shown can be set; reading the others would give them memory.
        for word in 0..words.min(self.limit().div_ceil(PAGE * 64) + 1) {
            self.word(word).store(0, Ordering::Relaxed);
        }
    }

    #[inline(always)]
    fn word(&self, index: usize) -> &AtomicU64 {
        assert!(index < self.length.load(Ordering::Relaxed) / PAGE / 64);
        // SAFETY: within the table, which has a bit for each page of the mapping and stays as long as it.
        unsafe { &*self.present.load(Ordering::Relaxed).add(index) }
    }

    fn bits(first: usize, last: usize, word: usize) -> u64 {
        let from = if word == first / 64 { first % 64 } else { 0 };
        let to = if word == last / 64 { last % 64 } else { 63 };
        (u64::MAX >> (63 - (to - from))) << from
    }

    /// Whether all pages of a range, of at least a byte and within the mapping, are known to have storage.
    #[inline(always)]
    pub fn is_present(&self, offset: usize, bytes: usize) -> bool {
        let (first, last) = (offset / PAGE, (offset + bytes - 1) / PAGE);
        if first == last {
            return self.word(first / 64).load(Ordering::Relaxed) >> (first % 64) & 1 == 1;
        }
        self.are_present(first, last)
    }

    fn are_present(&self, first: usize, last: usize) -> bool {
        (first / 64..=last / 64).all(|word| {
            let wanted = Self::bits(first, last, word);
            self.word(word).load(Ordering::Relaxed) & wanted == wanted
        })
    }

    fn set_present(&self, offset: usize, bytes: usize) {
        let (first, last) = (offset / PAGE, (offset + bytes - 1) / PAGE);
        for word in first / 64..=last / 64 {
            self.word(word).fetch_or(Self::bits(first, last, word), Ordering::Relaxed);
        }
    }

    /// Asks the kernel which pages around an offset have storage.
    fn look(&self, offset: usize) {
        let first = offset / PAGE / LOOK * LOOK;
        let mut found = [0u8; LOOK];
        let pages = LOOK.min(self.length.load(Ordering::Relaxed) / PAGE - first);
        // SAFETY: a range of this file's mapping, and a table of a byte for each of its pages.
        let result = kernel::keeping_errno(|| unsafe {
            raw!(libc::SYS_mincore, self.address(first * PAGE), pages * PAGE, found.as_mut_ptr())
        });
        if result != 0 {
            return;
        }
        // One call instead of a fault for each page. Only where no page would be made by it.
        if pages == LOOK && found.iter().all(|page| page & 1 == 1) {
            let advice = match self.writable.load(Ordering::Relaxed) {
                true => libc::MADV_POPULATE_WRITE,
                false => libc::MADV_POPULATE_READ,
            };
            // SAFETY: a range of this file's mapping; what its pages hold does not change.
            kernel::keeping_errno(|| unsafe {
                raw!(libc::SYS_madvise, self.address(first * PAGE), pages * PAGE, advice)
            });
        }
        for word in 0..pages.div_ceil(64) {
            let bits = found[word * 64..(word + 1) * 64]
                .iter()
                .enumerate()
                .fold(0, |bits, (at, page)| bits | (u64::from(page & 1) << at));
            if bits != 0 {
                self.word(first / 64 + word).fetch_or(bits, Ordering::Relaxed);
            }
        }
    }

    /// For an operation that cannot be served because some page is not known to have storage: whether all are found to.
    #[inline(never)]
    pub fn is_found(&self, offset: usize, bytes: usize) -> bool {
        self.missed(offset, bytes);
        self.is_present(offset, bytes)
    }

    fn missed(&self, offset: usize, bytes: usize) {
        let misses = self.misses.fetch_add(1, Ordering::Relaxed);
        let stretches = (self.limit() / (LOOK * PAGE)) as u32 + 1;
        if misses > stretches.saturating_mul(LOOKS_PER_STRETCH) && misses % LOOK_EVERY != 0 {
            return;
        }
        let first = offset / PAGE / LOOK;
        let last = (offset + bytes - 1) / PAGE / LOOK;
        (first..=last).for_each(|stretch| self.look(stretch * LOOK * PAGE));
    }

    /// The file was seen to be at least so long.
    fn follow_size(&self, size: usize) {
        let Some(limit) = size.checked_sub(1).map(|last| last / PAGE * PAGE) else {
            return;
        };
        let is_known = limit < self.known_bytes.load(Ordering::Relaxed);
        if limit <= self.limit() || !is_known || !self.is_mapped(limit + PAGE) {
            return;
        }
        if !self.is_present(limit, 1) {
            self.look(limit);
        }
        if self.is_present(limit, 1) {
            self.limit.fetch_max(limit, Ordering::AcqRel);
        }
    }

    /// The kernel read or wrote this range, of at least a byte: it is within the file now.
    pub fn follow(&self, offset: usize, bytes: usize, wrote: bool) {
        if wrote {
            self.set_present(offset, bytes);
        }
        self.follow_size(offset + bytes);
    }

    /// The kernel wrote here, and set the file's times.
    pub fn wrote_by_kernel(&self) {
        self.dated.store(true, Ordering::Relaxed);
    }

    /// Whether the next write may be served: the file's times tell of the first one since they were exact.
    pub fn is_dated(&self) -> bool {
        self.dated.load(Ordering::Relaxed)
    }

    pub fn wrote_by(&self, fd: libc::c_int) {
        if !self.dirty.load(Ordering::Relaxed) {
            self.writer.store(fd, Ordering::Relaxed);
            self.dirty.store(true, Ordering::Release);
        }
        if !ANY_DIRTY.load(Ordering::Relaxed) {
            ANY_DIRTY.store(true, Ordering::Release);
        }
    }

    /// Whether an open descriptor is of this file.
    pub fn is_of(&self, fd: libc::c_int) -> bool {
        kernel::fstat(fd).is_some_and(|stat| {
            stat.st_dev == self.device.load(Ordering::Relaxed)
                && stat.st_ino == self.inode.load(Ordering::Relaxed)
        })
    }
}
