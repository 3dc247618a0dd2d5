//! Where a file's bytes are on its disk: the FIEMAP request of ioctl(2).

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};

/// `struct fiemap` of linux/fiemap.h with room for one extent.
#[repr(C)]
#[derive(Default)]
struct Request {
    start: u64,
    length: u64,
    flags: u32,
    mapped: u32,
    count: u32,
    reserved: u32,
    extent: Extent,
}

#[repr(C)]
#[derive(Default)]
struct Extent {
    logical: u64,
    physical: u64,
    length: u64,
    reserved: [u64; 2],
    flags: u32,
    more: [u32; 3],
}

/// `_IOWR('f', 11, struct fiemap)`, whose size is that without extents.
const FIEMAP: libc::c_ulong = 0xC020_660B;

/// Where on its disk the byte at `offset` is.
///
/// # Errors
/// The kernel's; `NotFound` where there is no such byte on the disk.
pub fn disk_offset(file: BorrowedFd<'_>, offset: u64) -> io::Result<u64> {
    let mut request = Request { start: offset, length: 1, count: 1, ..Request::default() };
    // SAFETY: the request has room for the one extent that it asks for, and outlives the call.
    let done = unsafe { libc::ioctl(file.as_raw_fd(), FIEMAP as _, &raw mut request) };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    if request.mapped == 0 {
        return Err(io::ErrorKind::NotFound.into());
    }
    Ok(request.extent.physical + offset.saturating_sub(request.extent.logical))
}
