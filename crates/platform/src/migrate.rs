//! On which NUMA node pages are, and their migration: `move_pages` and `mbind`.
//!
//! The kernel checks every address against the process's mappings: a wrong one costs an error status, nothing else.

use std::ffi::{c_int, c_ulong, c_void};
use std::io;
use std::ptr;

const MPOL_BIND: c_int = 2;
const MPOL_MF_MOVE: c_int = 1 << 1;
const BITS: usize = c_ulong::BITS as usize;

/// The node of each page, or a negative error number: `ENOENT` for a page that is not present, `EFAULT` for one
/// outside any mapping.
///
/// # Errors
/// `ESRCH` if there is no such process, `EPERM` if it may not be looked at.
pub fn locations(pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>> {
    call(pid, addresses, None)
}

/// Moves pages to a node. Returns for each its node now, or a negative error number. Any address of a huge page moves
/// all of it.
///
/// # Errors
/// As for [`locations`]; `ENODEV` for a node that is offline, `EACCES` for one that the process may not use.
pub fn move_to_node(pid: u32, addresses: &[u64], node: u32) -> io::Result<Vec<i32>> {
    let node = c_int::try_from(node).map_err(|_| io::ErrorKind::InvalidInput)?;
    call(pid, addresses, Some(&vec![node; addresses.len()]))
}

fn call(pid: u32, addresses: &[u64], nodes: Option<&[c_int]>) -> io::Result<Vec<i32>> {
    let pid = libc::pid_t::try_from(pid).map_err(|_| io::ErrorKind::InvalidInput)?;
    // 0 would mean this process.
    if pid == 0 {
        return Err(io::Error::from_raw_os_error(libc::ESRCH));
    }
    let pages: Vec<*const c_void> = addresses.iter().map(|&address| address as *const c_void).collect();
    // What the kernel does not reach has no status of its own.
    let mut status: Vec<c_int> = vec![-libc::EBUSY; addresses.len()];
    // SAFETY: the three arrays have `addresses.len()` elements each (`nodes` may be absent) and live during the call;
    // the addresses are those of another address space and are not dereferenced here.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_move_pages,
            pid,
            addresses.len() as c_ulong,
            pages.as_ptr(),
            nodes.map_or(ptr::null(), <[c_int]>::as_ptr),
            status.as_mut_ptr(),
            MPOL_MF_MOVE,
        )
    };
    if outcome < 0 { Err(io::Error::last_os_error()) } else { Ok(status) }
}

/// Binds a range of this process's addresses to a node, for the pages that are still to come.
///
/// # Errors
/// `EINVAL` for a node that does not exist or has no memory.
pub(crate) fn bind(start: usize, len: usize, node: u32) -> io::Result<()> {
    let node = node as usize;
    let mut mask: Vec<c_ulong> = vec![0; node / BITS + 1];
    mask[node / BITS] |= 1 << (node % BITS);
    // SAFETY: the mask has as many bits as is said and lives during the call; the policy of a range decides where its
    // pages come from and changes no byte of it.
    let outcome = unsafe {
        libc::syscall(
            libc::SYS_mbind,
            start as c_ulong,
            len as c_ulong,
            MPOL_BIND,
            mask.as_ptr(),
            // The kernel takes one bit less than it is told.
            (mask.len() * BITS + 1) as c_ulong,
            0,
        )
    };
    if outcome == 0 { Ok(()) } else { Err(io::Error::last_os_error()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mm::{BASE_PAGE_BYTES, HUGE_PAGE_BYTES, Reservation};

    #[test]
    fn pages_of_this_process_are_found_and_others_are_errors() {
        let range = Reservation::anonymous(HUGE_PAGE_BYTES).unwrap();
        range.prefer_base_pages().unwrap();
        // SAFETY: nobody else knows the range.
        unsafe { range.populate(0, BASE_PAGE_BYTES).unwrap() };
        let base = range.base() as u64;
        let addresses = [base, base + BASE_PAGE_BYTES as u64, 0];
        match locations(std::process::id(), &addresses) {
            Ok(found) => {
                assert!(found[0] >= 0, "{found:?}");
                assert_eq!(found[1..], [-libc::ENOENT, -libc::EFAULT]);
            }
            Err(error) => eprintln!("SKIPPED pages_of_this_process_are_found: move_pages: {error}"),
        }
    }

    #[test]
    fn a_process_that_does_not_exist_is_an_error() {
        let error = locations(u32::MAX >> 1, &[4096]).unwrap_err();
        assert!(matches!(error.raw_os_error(), Some(libc::ESRCH | libc::ENOSYS)), "{error}");
        assert!(locations(u32::MAX, &[4096]).is_err());
        assert!(locations(0, &[4096]).is_err());
    }

    #[test]
    fn a_node_that_does_not_exist_cannot_be_bound_to() {
        let range = Reservation::anonymous(HUGE_PAGE_BYTES).unwrap();
        assert!(bind(range.base(), range.len(), 1000).is_err());
    }
}
