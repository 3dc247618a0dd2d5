//! Which pages of a file are in the page cache.

use std::io;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::ptr;

const PAGE_BYTES: u64 = 4096;

/// For each page of the first `bytes` of the file, whether it is in the page cache. The kernel tells the truth to the
/// file's owner and to who may write it only.
///
/// # Errors
/// The kernel's.
pub fn pages(file: BorrowedFd<'_>, bytes: u64) -> io::Result<Vec<bool>> {
    let count = usize::try_from(bytes.div_ceil(PAGE_BYTES)).map_err(|_| io::ErrorKind::InvalidInput)?;
    if count == 0 {
        return Ok(Vec::new());
    }
    let length = count * PAGE_BYTES as usize;
    let mut found = vec![0u8; count];
    // SAFETY: the kernel chooses a free address for the mapping, which is not read: a file that has become shorter does
    // no harm. `found` has a byte for each of its pages.
    let done = unsafe {
        let base =
            libc::mmap(ptr::null_mut(), length, libc::PROT_READ, libc::MAP_SHARED, file.as_raw_fd(), 0);
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let done = libc::mincore(base, length, found.as_mut_ptr());
        libc::munmap(base, length);
        done
    };
    if done < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(found.into_iter().map(|page| page & 1 == 1).collect())
}
