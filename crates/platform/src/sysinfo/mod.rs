//! What this machine is, read from `/proc` and `/sys`: kernel, huge pages, NUMA nodes, memory, cgroup limits, disks.
//!
//! Invariant: parsing is pure and total. Every parser takes a text and returns what it could read of it; a malformed or
//! missing file costs that one fact, never a panic and never the facts beside it. Files are opened below a [`Root`], so
//! that a test can hand in a fixture tree.
//!
//! It does not judge: what follows from a fact is said by `warmset doctor`, what is done about it by `placement`.

pub mod cgroup;
pub mod disk;
pub mod kernel;
pub mod memory;
pub mod mounts;
pub mod numa;
pub mod pages;
pub mod process;
mod root;
pub mod uring;

pub use root::Root;

/// The most memory this process can use: physical memory, or the tightest cgroup limit on the way to the root.
///
/// `None` only where neither `/proc/meminfo` nor a cgroup limit can be read.
pub fn memory_limit_bytes() -> Option<u64> {
    memory_limit_bytes_below(&Root::live())
}

/// [`memory_limit_bytes`] for a machine whose files lie below `root`.
pub fn memory_limit_bytes_below(root: &Root) -> Option<u64> {
    let physical = memory::read(root).total_bytes;
    let limited = cgroup::tightest(&cgroup::memory_limits(root)).map(|limit| limit.limit_bytes);
    match (physical, limited) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    }
}
