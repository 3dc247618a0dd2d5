//! System calls and nearly all unsafe code of Warmset, one module per kernel area.

pub mod chase;
pub mod counters;
pub mod damon;
pub mod detach;
pub mod extents;
pub mod fork;
pub mod io;
pub mod migrate;
pub mod mm;
pub mod opens;
pub mod owner;
pub mod perf;
#[cfg(target_arch = "x86_64")]
pub mod ptrace;
pub mod residency;
#[cfg_attr(any(shuttle, miri), allow(dead_code))]
mod sched;
pub mod seek;
pub mod signals;
pub mod status;
pub mod sysinfo;
pub mod tmpfs;
pub mod units;
