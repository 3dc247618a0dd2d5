//! Pure placement decisions: what stays in memory, what streams, on which page size, how much memory there is.
//!
//! Nothing here does I/O, reads a clock or knows a kernel: time is counted in bytes that were read, inputs
//! come as arguments, and the same inputs give the same decisions. The simulator runs this very code.
#![forbid(unsafe_code)]

mod keep_set;
mod page_size;
mod prefault;
mod score;
mod split;
mod stream_reserve;
pub mod tier;

pub use keep_set::{Class, KeepSet, Key, Verdict};
pub use page_size::{HugePageChoice, PageSupport, PoolPages, pool_pages};
pub use prefault::prefault_target;
pub use score::{AccessClock, Score, TICKS_PER_HALF_LIFE};
pub use split::{Split, SplitDecision, SplitLimits, SplitTick};
pub use stream_reserve::StreamReserve;
