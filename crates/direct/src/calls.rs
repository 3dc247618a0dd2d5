//! Reads and writes, as libc exports them: served if they can be, else libc's own.

use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};

use crate::data::{Way, transfer, transfer_here, transfer_vector};
use crate::descriptors;
use crate::kernel::next;

/// `pread` and `pwrite`: the buffer, its length, the offset.
macro_rules! positional {
    ($($name:ident $way:ident $buffer:ty),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, buffer: $buffer, bytes: size_t, offset: off64_t) -> ssize_t {
            let kernel = move |buffer: *mut c_void, bytes: size_t, offset: off64_t| {
                next!($name: fn(c_int, *mut c_void, size_t, off64_t) -> ssize_t; fd, buffer, bytes, offset)
            };
            // SAFETY: the caller's arguments.
            unsafe { transfer(fd, Way::$way, buffer as *mut c_void, bytes, offset, kernel) }
        }
    )*};
}

positional!(pread Read *mut c_void, pread64 Read *mut c_void, pwrite Write *const c_void, pwrite64 Write *const c_void);

/// `read` and `write`: the buffer and its length, at the descriptor's position.
macro_rules! at_position {
    ($($name:ident $way:ident $buffer:ty),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, buffer: $buffer, bytes: size_t) -> ssize_t {
            let kernel = move || next!($name: fn(c_int, $buffer, size_t) -> ssize_t; fd, buffer, bytes);
            // SAFETY: the caller's arguments.
            unsafe { transfer_here(fd, Way::$way, buffer as *mut c_void, bytes, kernel) }
        }
    )*};
}

at_position!(read Read *mut c_void, write Write *const c_void);

/// Finds what `read` and `write` of no bytes go on to, before the program begins.
pub fn find_next() {
    let errno = crate::kernel::errno();
    // SAFETY: no descriptor has this number, and no byte is moved.
    unsafe {
        read(-1, core::ptr::null_mut(), 0);
        write(-1, core::ptr::null(), 0);
    }
    crate::kernel::set_errno(errno);
}

/// `readv` and `writev`: an array of buffers, at the descriptor's position.
macro_rules! vectors_at_position {
    ($($name:ident $way:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, vector: *const iovec, count: c_int) -> ssize_t {
            let kernel = move || next!($name: fn(c_int, *const iovec, c_int) -> ssize_t; fd, vector, count);
            // SAFETY: the caller's arguments.
            unsafe { transfer_vector(fd, Way::$way, vector, count, None, kernel) }
        }
    )*};
}

vectors_at_position!(readv Read, writev Write);

/// `preadv` and `pwritev`: an array of buffers, the offset.
macro_rules! vectors {
    ($($name:ident $way:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t {
            let kernel =
                move || next!($name: fn(c_int, *const iovec, c_int, off64_t) -> ssize_t; fd, vector, count, offset);
            // SAFETY: the caller's arguments.
            unsafe { transfer_vector(fd, Way::$way, vector, count, Some(offset), kernel) }
        }
    )*};
}

vectors!(preadv Read, preadv64 Read, pwritev Write, pwritev64 Write);

/// `preadv2` and `pwritev2`: with any flag the kernel does it. Offset -1 is the descriptor's position.
macro_rules! flagged {
    ($($name:ident $way:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int,
            vector: *const iovec,
            count: c_int,
            offset: off64_t,
            flags: c_int,
        ) -> ssize_t {
            let kernel = move || {
                next!($name: fn(c_int, *const iovec, c_int, off64_t, c_int) -> ssize_t;
                    fd, vector, count, offset, flags)
            };
            if flags != 0 {
                let result = kernel();
                if offset == -1 {
                    descriptors::advance_position(fd, result);
                }
                return result;
            }
            // SAFETY: the caller's arguments.
            unsafe { transfer_vector(fd, Way::$way, vector, count, (offset != -1).then_some(offset), kernel) }
        }
    )*};
}

flagged!(preadv2 Read, preadv64v2 Read, pwritev2 Write, pwritev64v2 Write);

/// What gcc's `_FORTIFY_SOURCE` calls: `read` with the size of the buffer, which libc checks.
///
/// # Safety
/// As libc's.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn __read_chk(
    fd: c_int,
    buffer: *mut c_void,
    bytes: size_t,
    room: size_t,
) -> ssize_t {
    if bytes > room {
        return next!(__read_chk: fn(c_int, *mut c_void, size_t, size_t) -> ssize_t; fd, buffer, bytes, room);
    }
    // SAFETY: the caller's arguments, and the buffer has room for them.
    unsafe { read(fd, buffer, bytes) }
}

/// The same for `pread`: with the size of the buffer, which libc checks.
macro_rules! fortified {
    ($($name:ident $plain:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C-unwind" fn $name(
            fd: c_int,
            buffer: *mut c_void,
            bytes: size_t,
            offset: off64_t,
            room: size_t,
        ) -> ssize_t {
            if bytes > room {
                return next!($name: fn(c_int, *mut c_void, size_t, off64_t, size_t) -> ssize_t;
                    fd, buffer, bytes, offset, room);
            }
            // SAFETY: the caller's arguments, and the buffer has room for them.
            unsafe { $plain(fd, buffer, bytes, offset) }
        }
    )*};
}

fortified!(__pread_chk pread, __pread64_chk pread64);
