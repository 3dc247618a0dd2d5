//! The ring buffer that an event's samples arrive in.

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};
use std::ptr;
use std::sync::atomic::{AtomicU64, Ordering};

use perf_event_open_sys::bindings::perf_event_mmap_page;

const PAGE_BYTES: usize = 4096;

/// A mapped ring buffer.
///
/// Invariant: `base` is a mapping of one header page and `data_bytes` bytes, a power of two, until it is dropped.
#[derive(Debug)]
pub(super) struct Ring {
    base: *mut u8,
    data_bytes: usize,
}

// SAFETY: the mapping belongs to this value alone, and has no thread of its own.
unsafe impl Send for Ring {}

impl Ring {
    /// Maps the buffer of an event, with a power of two of pages for data.
    pub(super) fn map(event: &OwnedFd, pages: usize) -> io::Result<Self> {
        let data_bytes = pages.next_power_of_two() * PAGE_BYTES;
        let access = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: the kernel chooses a free address; the descriptor is an open event.
        let base = unsafe {
            libc::mmap(
                ptr::null_mut(),
                data_bytes + PAGE_BYTES,
                access,
                libc::MAP_SHARED,
                event.as_raw_fd(),
                0,
            )
        };
        if base == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Self { base: base.cast(), data_bytes })
    }

    /// Hands over all records that have arrived: their kind, and their bytes without the header.
    pub(super) fn drain(&mut self, mut take: impl FnMut(u32, &[u8])) {
        let header = self.base.cast::<perf_event_mmap_page>();
        // SAFETY: `base` starts with the kernel's header page, whose positions are only written atomically.
        let (head, tail) = unsafe {
            let head = AtomicU64::from_ptr(&raw mut (*header).data_head);
            (head.load(Ordering::Acquire), AtomicU64::from_ptr(&raw mut (*header).data_tail))
        };
        let mut at = tail.load(Ordering::Relaxed);
        let mut record = Vec::with_capacity(256);
        while at < head {
            self.copy(at, 8, &mut record);
            let kind = u32::from_ne_bytes(record[..4].try_into().expect("four bytes"));
            let size = usize::from(u16::from_ne_bytes(record[6..8].try_into().expect("two bytes")));
            if size < 8 {
                break;
            }
            self.copy(at + 8, size - 8, &mut record);
            take(kind, &record);
            at += size as u64;
        }
        tail.store(head, Ordering::Release);
    }

    /// Copies bytes from a position, around the buffer's end.
    fn copy(&self, at: u64, count: usize, to: &mut Vec<u8>) {
        to.clear();
        let start = (at % self.data_bytes as u64) as usize;
        let first = count.min(self.data_bytes - start);
        // SAFETY: both parts lie within the data area, whose bytes up to `data_head` the kernel does not write before
        // `data_tail` has passed them.
        unsafe {
            let data = self.base.add(PAGE_BYTES);
            to.extend_from_slice(std::slice::from_raw_parts(data.add(start), first));
            to.extend_from_slice(std::slice::from_raw_parts(data, count - first));
        }
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: the mapping is this value's own, and no reference into it is left.
        unsafe { libc::munmap(self.base.cast(), self.data_bytes + PAGE_BYTES) };
    }
}
