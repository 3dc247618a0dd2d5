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
pub mod maps;
pub mod memory;
pub mod mounts;
pub mod numa;
pub mod pages;
pub mod process;
mod root;
pub mod tree;
pub mod uring;

use std::path::PathBuf;

pub use root::Root;

/// What binds this process's memory first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MemoryBound {
    /// The most memory it can use.
    pub limit_bytes: u64,
    /// The file that says so, as a path on the machine.
    pub file: PathBuf,
}

/// The most memory this process can use: physical memory, or the tightest cgroup limit on the way to the root.
///
/// `None` only where neither `/proc/meminfo` nor a cgroup limit can be read.
pub fn memory_bound(root: &Root) -> Option<MemoryBound> {
    let physical = memory::read(root)
        .total_bytes
        .map(|limit_bytes| MemoryBound { limit_bytes, file: PathBuf::from("/proc/meminfo") });
    let limits = cgroup::memory_limits(root);
    let limited = cgroup::tightest(&limits)
        .map(|limit| MemoryBound { limit_bytes: limit.limit_bytes, file: limit.file.clone() });
    physical.into_iter().chain(limited).min_by_key(|bound| bound.limit_bytes)
}

/// How much less than its limit a process that holds `own_bytes` can have, because others under the same limit hold
/// memory. A limit is a cgroup's: what other programs take of the machine's memory is not counted.
pub fn memory_beside_bytes(root: &Root, own_bytes: u64) -> u64 {
    cgroup::beside_bytes(root, &cgroup::memory_limits(root), own_bytes)
}
