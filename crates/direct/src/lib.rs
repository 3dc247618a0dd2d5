//! A preload library that serves reads and writes of files on tmpfs by memory copy.
//!
//! The kernel keeps names, sizes, permissions, descriptors and their positions. `pread`, `pwrite` and their vector forms
//! on a file below a served directory copy between the caller's buffer and a shared mapping of the file, without a
//! system call; `read`, `write`, `readv` and `writev` with one that moves the position. All else goes to the kernel. Both
//! paths touch the same pages, so a call that is not served is slower, never wrong.
//! `docs/internals/direct.md` has the invariants.
//!
//! Read once, when the library is loaded: `WARMSET_DIRECT_DIRS` (absolute directories, separated by colons),
//! `WARMSET_DIRECT_STRICT=1` (writes go to the kernel, which keeps timestamps exact), `WARMSET_DIRECT_STATS` (a file
//! that gets one line of JSON with the counters when the process exits) and `WARMSET_DIRECT_AFTER` (the number of
//! operations on a descriptor after which its file is mapped; 128).
#![cfg(all(target_os = "linux", target_arch = "x86_64"))]

mod calls;
mod copy;
mod data;
mod descriptors;
mod fault;
mod files;
mod kernel;
mod lifetime;
mod lock;
mod names;
mod ranges;
mod served;
mod shared;
mod stats;
mod thread;
mod unwind;

/// Runs when the library is loaded, before the program's `main`.
extern "C" fn on_load() {
    // Others' programs inherit the library, too: one of musl must run as without it.
    if kernel::has_glibc() {
        served::read_environment();
    }
    if served::any() {
        lifetime::watch_forks_and_exit();
    }
}

#[used]
#[unsafe(link_section = ".init_array")]
static ON_LOAD: extern "C" fn() = on_load;
