//! System calls and nearly all unsafe code of Warmset, one module per kernel area.

pub mod io;
pub mod mm;
mod sched;
pub mod sysinfo;
