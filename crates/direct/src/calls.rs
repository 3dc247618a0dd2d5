//! Positional reads and writes, as libc exports them: served if they can be, else libc's own.

use libc::{c_int, c_void, iovec, off64_t, size_t, ssize_t};

use crate::data::{Way, transfer, transfer_vector};
use crate::kernel::next;

/// `pread` and `pwrite`: the buffer, its length, the offset.
macro_rules! positional {
    ($($name:ident $way:ident $buffer:ty),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, buffer: $buffer, bytes: size_t, offset: off64_t) -> ssize_t {
            let kernel = |buffer: *mut c_void, bytes: size_t, offset: off64_t| {
                next!($name: fn(c_int, *mut c_void, size_t, off64_t) -> ssize_t; fd, buffer, bytes, offset)
            };
            // SAFETY: the caller's arguments.
            unsafe { transfer(fd, Way::$way, buffer as *mut c_void, bytes, offset, kernel) }
        }
    )*};
}

positional!(pread Read *mut c_void, pread64 Read *mut c_void, pwrite Write *const c_void, pwrite64 Write *const c_void);

/// `preadv` and `pwritev`: an array of buffers, the offset.
macro_rules! vectors {
    ($($name:ident $way:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(fd: c_int, vector: *const iovec, count: c_int, offset: off64_t) -> ssize_t {
            let kernel =
                || next!($name: fn(c_int, *const iovec, c_int, off64_t) -> ssize_t; fd, vector, count, offset);
            // SAFETY: the caller's arguments.
            unsafe { transfer_vector(fd, Way::$way, vector, count, offset, kernel) }
        }
    )*};
}

vectors!(preadv Read, preadv64 Read, pwritev Write, pwritev64 Write);

/// `preadv2` and `pwritev2`: with any flag, or at the descriptor's position, the kernel does it.
macro_rules! flagged {
    ($($name:ident $way:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
            fd: c_int,
            vector: *const iovec,
            count: c_int,
            offset: off64_t,
            flags: c_int,
        ) -> ssize_t {
            let kernel = || {
                next!($name: fn(c_int, *const iovec, c_int, off64_t, c_int) -> ssize_t;
                    fd, vector, count, offset, flags)
            };
            if flags != 0 || offset < 0 {
                return kernel();
            }
            // SAFETY: the caller's arguments.
            unsafe { transfer_vector(fd, Way::$way, vector, count, offset, kernel) }
        }
    )*};
}

flagged!(preadv2 Read, preadv64v2 Read, pwritev2 Write, pwritev64v2 Write);

/// What gcc's `_FORTIFY_SOURCE` calls: `pread` with the size of the buffer, which libc checks.
macro_rules! fortified {
    ($($name:ident $plain:ident),*) => {$(
        /// # Safety
        /// As libc's.
        #[unsafe(no_mangle)]
        pub unsafe extern "C" fn $name(
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
