//! Moves pages between nodes.

mod kernel;

use std::io;

use serde::Serialize;

pub use kernel::KernelMover;

/// No call into the kernel is meant to take longer: it holds locks that the process may wait for.
pub const CALL_MS_MAX: u64 = 20;

/// What became of the pages of one chunk.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize)]
pub struct Outcome {
    /// Bytes that were moved.
    pub moved_bytes: u64,
    /// Base pages that are on the wanted node now.
    pub there: u64,
    /// Base pages that are elsewhere still.
    pub left: u64,
    /// Of `left`: the kernel said busy (pinned, under I/O).
    pub busy: u64,
    /// Of `left`: shared with another process.
    pub shared: u64,
    /// Of `left`: no memory on the node.
    pub full: u64,
}

/// Looks at pages and moves them.
pub trait Mover: std::fmt::Debug {
    /// The node of each page, or a negative number for one that is not there.
    ///
    /// # Errors
    /// When the process is gone or may not be looked at.
    fn locations(&mut self, pid: u32, addresses: &[u64]) -> io::Result<Vec<i32>>;
    /// Moves what is present of `[start, start + CHUNK_BYTES)` to a node.
    ///
    /// # Errors
    /// When the process is gone, its pages may not be moved, or the node is offline. A page that does not move is no
    /// error.
    fn move_chunk(&mut self, pid: u32, start: u64, node: u32) -> io::Result<Outcome>;
}
