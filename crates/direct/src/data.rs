//! The reads and writes that are served here, and what is learnt from those that are not.

use libc::{c_int, c_void, iovec};

use crate::ranges::{self, Guard};
use crate::stats::{self, Active, Counter, Slot};
use crate::{copy, descriptors, files, kernel, shared};

/// Of an operation that reaches the file's last page, so much must lie before it to be worth two parts.
const PART_MIN: usize = 64 << 10;
/// What the kernel transfers at most in one call: of longer ones it tells how much it did.
const BYTES_MAX: usize = 0x7fff_f000;
/// Where a program's addresses end, with four levels of page tables.
const ADDRESSES_END: usize = 0x7fff_ffff_f000;
/// After so many operations of the kernel's at a position, that is asked for.
const RESYNC_EVERY: u64 = 64;
/// Calls with more buffers go to the kernel.
const BUFFERS_MAX: usize = 16;

#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Way {
    Read,
    Write,
}

/// One served operation: the file, the range that was asked for and how much of it is served.
struct Operation {
    active: Active,
    file: &'static files::File,
    offset: usize,
    limit: usize,
    served: usize,
}

/// Whether this range of this descriptor can be served, in whole or, `in_parts`, up to the file's last page.
#[inline(always)]
fn prepare(fd: c_int, way: Way, bytes: usize, offset: i64, in_parts: bool) -> Option<Operation> {
    let may_be = descriptors::shown(fd)?;
    if way == Way::Write && !(may_be.can_write && descriptors::none_appends()) {
        return None;
    }
    let active = stats::mine().enter();
    let shown = descriptors::shown(fd)?;
    let file = files::at(shown.index);
    if crate::served::has_ring() && is_another_now(fd, file) {
        return None;
    }
    let offset = usize::try_from(offset).ok().filter(|_| bytes > 0)?;
    let end = offset.checked_add(bytes)?;
    let may_write = shown.can_write && file.is_dated() && crate::served::may_write_to(end);
    if bytes > BYTES_MAX || (way == Way::Write && !may_write) {
        return None;
    }
    let limit = file.limit();
    let served = if end <= limit {
        bytes
    } else if in_parts && limit > offset && limit - offset >= PART_MIN {
        limit - offset
    } else {
        return None;
    };
    if !file.is_present(offset, served) && !file.is_found(offset, served) {
        return None;
    }
    Some(Operation { active, file, offset, limit, served })
}

/// Whether the descriptor was closed and opened again unseen; then nothing is known of it any more.
#[cold]
#[inline(never)]
fn is_another_now(fd: c_int, file: &files::File) -> bool {
    let is_another = !kernel::keeping_errno(|| file.is_of(fd));
    if is_another {
        descriptors::forget(fd);
    }
    is_another
}

/// What the program passed: where the bytes go to or come from.
struct Buffers<'a> {
    parts: &'a [iovec],
    bytes: usize,
}

impl Buffers<'_> {
    /// Whether the first `bytes` of them can be read; looked at before a file is changed.
    ///
    /// # Safety
    /// The handlers of `fault` are installed.
    #[inline(always)]
    unsafe fn are_readable(&self, bytes: usize) -> bool {
        let mut left = bytes;
        self.parts.iter().all(|part| {
            let here = part.iov_len.min(left);
            left -= here;
            // SAFETY: as the caller promises.
            unsafe { copy::is_readable(part.iov_base.cast(), here) }
        })
    }

    /// Whether they lie where a program's addresses can: the kernel looks at that before it begins.
    fn are_in_bounds(&self) -> bool {
        self.parts.iter().all(|part| {
            (part.iov_base as usize).checked_add(part.iov_len).is_some_and(|end| end <= ADDRESSES_END)
        })
    }
}

impl Operation {
    /// The lock of `bytes` for a write, none inside for a read; none at all if it can't be had.
    #[inline(always)]
    fn lock(&self, way: Way, bytes: usize) -> Option<Option<Guard>> {
        match way {
            Way::Read => Some(None),
            Way::Write => ranges::lock(self.file.identity(), self.offset, bytes).map(Some),
        }
    }

    /// Copies what is served, between two looks at the page that tells whether the file was cut; false at any fault.
    ///
    /// # Safety
    /// The buffers are what the program passed for this, good or bad.
    #[inline(always)]
    unsafe fn copy(&self, way: Way, buffers: &Buffers) -> bool {
        let mut at = 0;
        let witness = self.file.address(self.limit);
        let around = match way {
            Way::Read => copy::around_into_buffer(),
            Way::Write => copy::around_into_file(self.limit),
        };
        buffers.parts.iter().all(|part| {
            let bytes = part.iov_len.min(self.served - at);
            let here = self.file.address(self.offset + at);
            let there: *mut u8 = part.iov_base.cast();
            at += bytes;
            // SAFETY: the file's side lies below its limit, in a mapping that stays while the operation is active; the
            // other side is the program's. The handlers were installed before any file was mapped.
            unsafe {
                match way {
                    Way::Read => copy::copy(there, here, bytes, around, witness),
                    Way::Write => copy::copy(here, there, bytes, around, witness),
                }
            }
        })
    }

    /// Whether the file is as long as it was; if not, it is known from now on.
    #[inline(never)]
    fn still_reaches(&self) -> bool {
        // SAFETY: this operation found the file, and is active.
        unsafe { self.file.still_reaches(self.limit) }
    }

    /// Does it; none at any fault, and if the file was cut meanwhile. A write holds its range.
    ///
    /// # Safety
    /// As [`Operation::copy`]; for a write, the buffers were found readable.
    #[inline(always)]
    unsafe fn run(self, fd: c_int, way: Way, buffers: &Buffers, guard: Option<&Guard>) -> Option<usize> {
        loop {
            // SAFETY: passed on.
            if !unsafe { self.copy(way, buffers) } {
                self.still_reaches();
                return None;
            }
            // A handler of this thread may have written in the middle of this: then its write was the first.
            if !guard.is_some_and(Guard::was_interrupted) {
                break;
            }
        }
        let slot: &Slot = self.active.slot();
        match way {
            Way::Read => {
                slot.count(Counter::Reads, 1);
                slot.count(Counter::ReadBytes, self.served as u64);
            }
            Way::Write => {
                self.file.wrote_by(fd);
                slot.count(Counter::Writes, 1);
                slot.count(Counter::WriteBytes, self.served as u64);
            }
        }
        Some(self.served)
    }
}

/// Serves a read or write, or a beginning of it; none if the kernel is to do it. With a write goes the lock of the whole
/// range, until all of it is written.
///
/// All of it is inlined for single buffers, so that nothing passes through memory: a load that takes several stores in
/// waits until these have left the processor, and so for all copies before.
///
/// # Safety
/// As `preadv` and `pwritev`; a bad buffer is no error here.
#[inline(always)]
unsafe fn serve(fd: c_int, way: Way, buffers: &Buffers, offset: i64) -> Option<(usize, Option<Guard>)> {
    let in_parts = buffers.parts.len() == 1 && buffers.are_in_bounds();
    let operation = prepare(fd, way, buffers.bytes, offset, in_parts)?;
    // SAFETY: the buffers are the program's.
    if way == Way::Write && !unsafe { buffers.are_readable(operation.served) } {
        return None;
    }
    let guard = operation.lock(way, buffers.bytes)?;
    // SAFETY: passed on.
    let served = unsafe { operation.run(fd, way, buffers, guard.as_ref()) }?;
    Some((served, guard))
}

/// The same for several buffers, which are served all or not at all.
///
/// # Safety
/// As [`serve`].
#[inline(never)]
unsafe fn serve_all(fd: c_int, way: Way, buffers: &Buffers, offset: i64) -> Option<isize> {
    // SAFETY: passed on.
    let (served, _guard) = unsafe { serve(fd, way, buffers, offset) }?;
    (served == buffers.bytes).then_some(served as isize)
}

/// Serves a read or write at the descriptor's position; none if the kernel is to do it.
///
/// The kernel keeps the position. It is moved on first, by one call that says where it was, so that no two operations
/// get the same range. If the range then can't be served, the kernel reads or writes it where it is, and the position
/// is moved back by what is missing.
///
/// # Safety
/// As `readv` and `writev`; a bad buffer is no error here.
#[inline(never)]
unsafe fn serve_here(fd: c_int, way: Way, buffers: &Buffers) -> Option<isize> {
    let expected = descriptors::position_of_one_user(fd)?;
    let bytes = i64::try_from(buffers.bytes).ok()?;
    let operation = prepare(fd, way, buffers.bytes, expected, false).filter(Operation::still_reaches)?;
    // SAFETY: the buffers are the program's.
    if way == Way::Write && !unsafe { buffers.are_readable(buffers.bytes) } {
        return None;
    }
    let start = kernel::move_position(fd, bytes)? - bytes;
    descriptors::note_position(fd, start + bytes);
    let operation =
        if start == expected { Some(operation) } else { prepare(fd, way, buffers.bytes, start, false) };
    let served = operation.and_then(|operation| {
        let guard = operation.lock(way, buffers.bytes)?;
        // SAFETY: passed on.
        unsafe { operation.run(fd, way, buffers, guard.as_ref()) }
    });
    if let Some(served) = served {
        return Some(served as isize);
    }
    let guard = lock_for_kernel(fd, way, Some(start), || buffers.bytes);
    let result = kernel::transfer_at(fd, way == Way::Write, buffers.parts, start);
    drop(guard);
    let missing = bytes - result.max(0) as i64;
    if missing > 0 {
        kernel::keeping_errno(|| kernel::move_position(fd, -missing));
        descriptors::note_position(fd, start + bytes - missing);
    }
    follow(fd, way, Some(start), result);
    Some(result)
}

/// The lock of a range that the kernel is to write, if any process may map the file for writing; at an offset, or at
/// the descriptor's position.
fn lock_for_kernel(fd: c_int, way: Way, offset: Option<i64>, bytes: impl FnOnce() -> usize) -> Option<Guard> {
    if way == Way::Read || descriptors::is_other(fd) {
        return None;
    }
    let identity = mapped_identity(fd)?;
    let bytes = bytes().clamp(1, BYTES_MAX);
    let offset = offset.or_else(|| kernel::move_position(fd, 0))?;
    ranges::lock(identity, usize::try_from(offset).ok()?, bytes)
}

/// What tells the descriptor's file apart, if any process may map it for writing.
fn mapped_identity(fd: c_int) -> Option<shared::Identity> {
    if descriptors::is_shown(fd) {
        let active = stats::mine().enter();
        let identity = descriptors::shown(fd).map(|shown| files::at(shown.index).identity());
        drop(active);
        return identity.filter(|&identity| shared::is_mapped(identity));
    }
    // The first time, what is cheaper than looking at the memory that all processes share.
    if !shared::is_attached() {
        descriptors::identity(fd)?;
    }
    if !shared::is_any_mapped() {
        return None;
    }
    let identity = descriptors::identity(fd)?;
    if shared::is_mapped(identity) {
        return Some(identity);
    }
    shared::forget_ended_at_times();
    None
}

/// After the kernel's write without a lock: if another process has mapped the file since, its writes may be mixed with
/// this one, which is done once more, as the later one. `start` is where it began, as far as that is known.
fn repeat_if_mapped(fd: c_int, buffers: &[iovec], start: impl FnOnce() -> Option<i64>, result: isize) {
    if descriptors::is_other(fd) || !shared::is_attached() || !shared::is_any_mapped() {
        return;
    }
    let is_appending = || kernel::status_flags(fd).is_none_or(|flags| flags & libc::O_APPEND != 0);
    let Some(identity) = mapped_identity(fd).filter(|_| !kernel::keeping_errno(is_appending)) else {
        return;
    };
    let all: usize = buffers.iter().map(|each| each.iov_len).sum();
    if all != result.max(0).unsigned_abs() || all == 0 {
        return;
    }
    if let Some(start) = start().and_then(|start| usize::try_from(start).ok()) {
        let guard = ranges::lock(identity, start, all);
        kernel::keeping_errno(|| kernel::transfer_at(fd, true, buffers, start as i64));
        drop(guard);
    }
}

/// The kernel's part: what is not served, under the lock that a write needs, and what is learnt from it.
///
/// # Safety
/// As the call; where the kernel has moved bytes, `buffers` gives the buffers that it has read.
unsafe fn by_kernel<'a>(
    fd: c_int,
    way: Way,
    offset: Option<i64>,
    (bytes, buffers): (impl FnOnce() -> usize, impl FnOnce() -> &'a [iovec]),
    kernel: impl FnOnce() -> isize,
) -> isize {
    if !crate::served::any() {
        return kernel();
    }
    let guard = lock_for_kernel(fd, way, offset, bytes);
    let expected = descriptors::position(fd);
    let result = kernel();
    if way == Way::Write && guard.is_none() && result > 0 {
        // Threads may share the position: it tells where this write began only if nothing else has moved it.
        let began =
            || kernel::move_position(fd, 0)?.checked_sub(result as i64).filter(|&at| Some(at) == expected);
        repeat_if_mapped(fd, buffers(), || offset.or_else(began), result);
    }
    drop(guard);
    follow(fd, way, offset, result);
    result
}

/// Learns from an operation that the kernel did, at an offset, or at the descriptor's position.
fn follow(fd: c_int, way: Way, offset: Option<i64>, result: isize) {
    if !descriptors::is_shown(fd) {
        descriptors::count(fd, result.max(0).unsigned_abs());
        if offset.is_none() {
            descriptors::advance_position(fd, result);
        }
        return;
    }
    let slot = stats::mine();
    slot.count(Counter::Passed, 1);
    let active = slot.enter();
    let Some(shown) = descriptors::shown(fd) else {
        return;
    };
    let file = files::at(shown.index);
    // Files that descriptors may not write here are never written here: what others write is looked up instead.
    let wrote = way == Way::Write && shown.can_write;
    let Some(bytes) = usize::try_from(result).ok().filter(|&bytes| bytes > 0) else {
        return;
    };
    if wrote {
        file.wrote_by_kernel();
    }
    let start = offset.or_else(|| {
        let before = descriptors::position(fd);
        descriptors::advance_position(fd, result);
        // What the hint says is enough here, but it must not be wrong for ever.
        if before.is_some() && slot.is_time_for(Counter::Passed, RESYNC_EVERY) {
            began_at(fd, result)
        } else {
            before
        }
    });
    let Some(end) = start.and_then(|start| usize::try_from(start).ok()?.checked_add(bytes)) else {
        return;
    };
    // The page in which it ends, and the room up to its end.
    if !file.is_mapped(end.next_multiple_of(files::PAGE)) {
        drop(active);
        descriptors::remap(fd);
    } else if way == Way::Read || wrote {
        file.follow(end - bytes, bytes, wrote);
    }
}

/// Where the kernel's operation at the descriptor's position began, by asking where the position is now.
fn began_at(fd: c_int, result: isize) -> Option<i64> {
    descriptors::position(fd)?;
    let now = kernel::keeping_errno(|| kernel::move_position(fd, 0))?;
    descriptors::note_position(fd, now);
    now.checked_sub(result as i64)
}

/// A whole `pread` or `pwrite`; `kernel` does what is not served, from a buffer, a length and an offset.
///
/// # Safety
/// As `pread` and `pwrite`.
#[inline(always)]
pub unsafe fn transfer(
    fd: c_int,
    way: Way,
    buffer: *mut c_void,
    bytes: usize,
    offset: i64,
    kernel: impl FnOnce(*mut c_void, usize, i64) -> isize,
) -> isize {
    // At once: what lies elsewhere must cost next to nothing.
    if descriptors::is_other(fd) {
        return kernel(buffer, bytes, offset);
    }
    match way {
        // SAFETY: passed on.
        Way::Read => unsafe { transfer_own::<false, _>(fd, buffer, bytes, offset, kernel) },
        // SAFETY: passed on.
        Way::Write => unsafe { transfer_own::<true, _>(fd, buffer, bytes, offset, kernel) },
    }
}

/// Compiled for each way by itself, and apart from the look above, which needs no room on the stack.
///
/// # Safety
/// As [`transfer`].
#[inline(never)]
unsafe fn transfer_own<const IS_WRITE: bool, Kernel: FnOnce(*mut c_void, usize, i64) -> isize>(
    fd: c_int,
    buffer: *mut c_void,
    bytes: usize,
    offset: i64,
    kernel: Kernel,
) -> isize {
    let way = if IS_WRITE { Way::Write } else { Way::Read };
    if let Some(shown) = descriptors::shown(fd) {
        if way == Way::Read {
            files::at(shown.index).fetch(offset as usize);
        }
        let buffers = Buffers { parts: &[iovec { iov_base: buffer, iov_len: bytes }], bytes };
        // SAFETY: passed on.
        if let Some((served, guard)) = unsafe { serve(fd, way, &buffers, offset) } {
            if served == bytes {
                return served as isize;
            }
            return finish(fd, way, served, guard, offset, |rest| {
                kernel(buffer.wrapping_byte_add(served), bytes - served, rest)
            });
        }
    }
    // SAFETY: passed on.
    unsafe { transfer_by_kernel(fd, way, buffer, bytes, offset, kernel) }
}

/// The kernel does the rest of an operation whose beginning was served.
#[inline(never)]
fn finish(
    fd: c_int,
    way: Way,
    served: usize,
    guard: Option<Guard>,
    offset: i64,
    kernel: impl FnOnce(i64) -> isize,
) -> isize {
    let rest = offset + served as i64;
    let result = kernel(rest);
    drop(guard);
    follow(fd, way, Some(rest), result);
    served as isize + result.max(0)
}

/// The kernel does all of it.
///
/// # Safety
/// As [`transfer`].
#[inline(never)]
unsafe fn transfer_by_kernel(
    fd: c_int,
    way: Way,
    buffer: *mut c_void,
    bytes: usize,
    offset: i64,
    kernel: impl FnOnce(*mut c_void, usize, i64) -> isize,
) -> isize {
    let parts = [iovec { iov_base: buffer, iov_len: bytes }];
    // SAFETY: the caller's buffer.
    unsafe { by_kernel(fd, way, Some(offset), (|| bytes, || &parts), || kernel(buffer, bytes, offset)) }
}

/// A whole `read` or `write`.
///
/// # Safety
/// As `read` and `write`.
#[inline(always)]
pub unsafe fn transfer_here(
    fd: c_int,
    way: Way,
    buffer: *mut c_void,
    bytes: usize,
    kernel: impl FnOnce() -> isize,
) -> isize {
    if descriptors::is_other(fd) {
        return kernel();
    }
    // SAFETY: passed on.
    unsafe { transfer_own_here(fd, way, buffer, bytes, kernel) }
}

unsafe fn transfer_own_here(
    fd: c_int,
    way: Way,
    buffer: *mut c_void,
    bytes: usize,
    kernel: impl FnOnce() -> isize,
) -> isize {
    if descriptors::is_shown(fd) {
        let buffers = Buffers { parts: &[iovec { iov_base: buffer, iov_len: bytes }], bytes };
        // SAFETY: passed on.
        if let Some(result) = unsafe { serve_here(fd, way, &buffers) } {
            return result;
        }
    }
    let parts = [iovec { iov_base: buffer, iov_len: bytes }];
    // SAFETY: the caller's buffer.
    unsafe { by_kernel(fd, way, None, (|| bytes, || &parts), kernel) }
}

/// Gives the program's array of buffers to `work`; none if it can't be served as it is.
///
/// # Safety
/// As `preadv`; bad pointers are no error here.
unsafe fn with_buffers<T>(
    fd: c_int,
    vector: *const iovec,
    count: c_int,
    work: impl FnOnce(&Buffers) -> Option<T>,
) -> Option<T> {
    descriptors::shown(fd)?;
    let count = usize::try_from(count).ok().filter(|count| (1..=BUFFERS_MAX).contains(count))?;
    let mut parts = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; BUFFERS_MAX];
    // SAFETY: the program's array may be bad, and the copy ends at a fault; ours has room for `count`.
    let is_read = unsafe {
        let bytes = count * size_of::<iovec>();
        copy::copy(parts.as_mut_ptr().cast(), vector.cast(), bytes, usize::MAX, parts.as_ptr().cast())
    };
    let parts = parts.get(..count).filter(|_| is_read)?;
    let bytes = parts
        .iter()
        .try_fold(0usize, |sum, each| sum.checked_add(each.iov_len))
        .filter(|&sum| sum <= isize::MAX as usize)?;
    work(&Buffers { parts, bytes })
}

/// A whole `preadv` or `pwritev`, or `readv` or `writev`, which have no offset.
///
/// # Safety
/// As they.
pub unsafe fn transfer_vector(
    fd: c_int,
    way: Way,
    vector: *const iovec,
    count: c_int,
    offset: Option<i64>,
    kernel: impl FnOnce() -> isize,
) -> isize {
    if descriptors::is_other(fd) {
        return kernel();
    }
    // SAFETY: passed on.
    let served = unsafe {
        with_buffers(fd, vector, count, |buffers| match offset {
            Some(offset) => serve_all(fd, way, buffers, offset),
            None => serve_here(fd, way, buffers),
        })
    };
    if let Some(served) = served {
        return served;
    }
    // SAFETY: where bytes were moved, the array was good.
    let parts = || unsafe { core::slice::from_raw_parts(vector, count.max(0).unsigned_abs() as usize) };
    // SAFETY: passed on.
    unsafe { by_kernel(fd, way, offset, (|| kernel::sum_of(vector, count), parts), kernel) }
}
