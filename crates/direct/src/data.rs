//! The positional reads and writes that are served here, and what is learnt from those that are not.

use libc::{c_int, c_void, iovec};

use crate::stats::{self, Active, Counter, Slot};
use crate::{copy, descriptors, files};

/// Of an operation that reaches the file's last page, so much must lie before it to be worth two parts.
const PART_MIN: usize = 64 << 10;
/// What the kernel transfers at most in one call: of longer ones it tells how much it did.
const BYTES_MAX: usize = 0x7fff_f000;
/// Where a program's addresses end, with four levels of page tables.
const ADDRESSES_END: usize = 0x7fff_ffff_f000;
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
fn prepare(fd: c_int, way: Way, bytes: usize, offset: i64, in_parts: bool) -> Option<Operation> {
    let may_be = descriptors::shown(fd)?;
    if way == Way::Write && !(may_be.can_write && descriptors::none_appends()) {
        return None;
    }
    let active = stats::mine().enter();
    let shown = descriptors::shown(fd)?;
    let file = files::at(shown.index);
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
    if !file.is_present(offset, served) {
        if way == Way::Read {
            file.missed(offset, served);
        }
        if !file.is_present(offset, served) {
            return None;
        }
    }
    // SAFETY: this operation found the file, and is active.
    unsafe { file.still_reaches(limit) }.then_some(Operation { active, file, offset, limit, served })
}

impl Operation {
    /// Copies `bytes` at a place in the range; false at any fault.
    ///
    /// # Safety
    /// `buffer` is what the program passed for this, good or bad.
    unsafe fn copy(&self, way: Way, buffer: *mut u8, at: usize, bytes: usize) -> bool {
        let here = self.file.address(self.offset + at);
        // SAFETY: the file's side lies below its limit, in a mapping that stays while the operation is active; the
        // other side is the program's. The handlers were installed before any file was mapped.
        unsafe {
            match way {
                Way::Read => copy::copy(buffer, here, bytes, copy::AROUND_INTO_BUFFER),
                Way::Write => copy::copy(here, buffer, bytes, copy::AROUND_INTO_FILE),
            }
        }
    }

    /// After the copies: whether they count.
    fn finish(self, fd: c_int, way: Way) -> Option<usize> {
        // SAFETY: this operation found the file, and is active.
        if !unsafe { self.file.still_reaches(self.limit) } {
            return None;
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

/// Serves a read or write, or a beginning of it; none if the kernel is to do it.
///
/// # Safety
/// As `pread` and `pwrite`; a bad buffer is no error here.
unsafe fn serve(fd: c_int, way: Way, buffer: *mut u8, bytes: usize, offset: i64) -> Option<usize> {
    // The kernel looks at a buffer's bounds before it begins.
    let in_parts = (buffer as usize).checked_add(bytes).is_some_and(|end| end <= ADDRESSES_END);
    let operation = prepare(fd, way, bytes, offset, in_parts)?;
    // SAFETY: the buffer is the program's; it is looked at before the file is changed.
    let is_done = unsafe {
        (way == Way::Read || copy::is_readable(buffer, operation.served))
            && operation.copy(way, buffer, 0, operation.served)
    };
    if is_done { operation.finish(fd, way) } else { None }
}

/// Learns from an operation that the kernel did.
fn follow(fd: c_int, way: Way, offset: i64, result: isize) {
    // At once: what lies elsewhere must cost next to nothing, and is not counted.
    if descriptors::is_kernels(fd) {
        return;
    }
    let slot = stats::mine();
    slot.count(Counter::Passed, 1);
    let active = slot.enter();
    let Some(shown) = descriptors::shown(fd) else {
        drop(active);
        descriptors::count(fd, result.max(0).unsigned_abs());
        return;
    };
    let (Ok(offset), Ok(bytes)) = (usize::try_from(offset), usize::try_from(result)) else {
        return;
    };
    if bytes == 0 {
        return;
    }
    let file = files::at(shown.index);
    // Files that descriptors may not write here are never written here: what others write is looked up instead.
    let wrote = way == Way::Write && shown.can_write;
    let Some(end) = offset.checked_add(bytes) else {
        return;
    };
    // The page in which it ends, and the room up to its end.
    if !file.is_mapped(end.next_multiple_of(files::PAGE)) {
        drop(active);
        descriptors::remap(fd);
    } else if way == Way::Read || wrote {
        file.follow(offset, bytes, wrote);
    }
}

/// A whole `pread` or `pwrite`; `kernel` does what is not served, from a buffer, a length and an offset.
///
/// # Safety
/// As `pread` and `pwrite`.
pub unsafe fn transfer(
    fd: c_int,
    way: Way,
    buffer: *mut c_void,
    bytes: usize,
    offset: i64,
    kernel: impl FnOnce(*mut c_void, usize, i64) -> isize,
) -> isize {
    // SAFETY: passed on.
    let served = unsafe { serve(fd, way, buffer.cast(), bytes, offset) }.unwrap_or(0);
    if served == bytes && bytes > 0 {
        return served as isize;
    }
    let rest = offset.wrapping_add(served as i64);
    let result = kernel(buffer.wrapping_byte_add(served), bytes - served, rest);
    if crate::served::any() {
        follow(fd, way, rest, result);
    }
    if served > 0 { served as isize + result.max(0) } else { result }
}

/// Serves a read or write of several buffers as a whole; none if the kernel is to do it.
///
/// # Safety
/// As `preadv` and `pwritev`; bad pointers are no error here.
unsafe fn serve_vector(
    fd: c_int,
    way: Way,
    vector: *const iovec,
    count: c_int,
    offset: i64,
) -> Option<usize> {
    descriptors::shown(fd)?;
    let count = usize::try_from(count).ok().filter(|count| (1..=BUFFERS_MAX).contains(count))?;
    let mut buffers = [iovec { iov_base: core::ptr::null_mut(), iov_len: 0 }; BUFFERS_MAX];
    // SAFETY: the program's array may be bad, and the copy ends at a fault; ours has room for `count`.
    let is_read = unsafe {
        let bytes = count * size_of::<iovec>();
        copy::copy(buffers.as_mut_ptr().cast(), vector.cast(), bytes, copy::AROUND_INTO_BUFFER)
    };
    let buffers = buffers.get(..count).filter(|_| is_read)?;
    let bytes = buffers
        .iter()
        .try_fold(0usize, |sum, each| sum.checked_add(each.iov_len))
        .filter(|&sum| sum <= isize::MAX as usize)?;
    let operation = prepare(fd, way, bytes, offset, false)?;
    // SAFETY: looked at before the file is changed.
    let is_good = way == Way::Read
        || buffers.iter().all(|each| unsafe { copy::is_readable(each.iov_base.cast(), each.iov_len) });
    let mut at = 0;
    let is_done = is_good
        && buffers.iter().all(|each| {
            // SAFETY: the program's buffer; their lengths add up to what is served.
            let is_done = unsafe { operation.copy(way, each.iov_base.cast(), at, each.iov_len) };
            at += each.iov_len;
            is_done
        });
    if is_done { operation.finish(fd, way) } else { None }
}

/// A whole `preadv` or `pwritev`.
///
/// # Safety
/// As `preadv` and `pwritev`.
pub unsafe fn transfer_vector(
    fd: c_int,
    way: Way,
    vector: *const iovec,
    count: c_int,
    offset: i64,
    kernel: impl FnOnce() -> isize,
) -> isize {
    // SAFETY: passed on.
    if let Some(served) = unsafe { serve_vector(fd, way, vector, count, offset) } {
        return served as isize;
    }
    let result = kernel();
    if crate::served::any() {
        follow(fd, way, offset, result);
    }
    result
}
