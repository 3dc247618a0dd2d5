//! perf_event_open(2): tracepoints of a process tree, events at one instruction, sampled loads.
//!
//! Invariant: an event is gone when its descriptor is closed, so nothing stays attached to a program after us.

mod breakpoint;
mod loads;
mod ring;
mod tree;

pub use breakpoint::Breakpoint;
pub use loads::{Load, LoadSamples};
pub use tree::{Event, Mapping, TreeEvents};

use std::fs;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

use perf_event_open_sys::bindings::perf_event_attr;
use rustix::mount::{MountFlags, mount};

const TRACEFS: &str = "/sys/kernel/tracing";

/// Attributes with their size filled in, of an event that closes on exec.
pub(crate) fn attributes(kind: u32, config: u64) -> perf_event_attr {
    let mut attr = perf_event_attr { type_: kind, config, ..Default::default() };
    attr.size = size_of::<perf_event_attr>() as u32;
    attr
}

/// Opens an event of one thread (0: the calling one, -1: all) on one processor (-1: all).
pub(crate) fn open(attr: &mut perf_event_attr, thread: i32, processor: i32) -> io::Result<OwnedFd> {
    const CLOSE_ON_EXEC: libc::c_ulong = 8;
    // SAFETY: `attr` outlives the call and tells its own size; the rest are numbers.
    let fd = unsafe { perf_event_open_sys::perf_event_open(attr, thread, processor, -1, CLOSE_ON_EXEC) };
    if fd < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the kernel has just given this descriptor to us alone.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// A tracepoint's number.
fn tracepoint(name: &str) -> io::Result<u64> {
    let id = format!("{TRACEFS}/events/{name}/id");
    if !fs::exists(format!("{TRACEFS}/events")).unwrap_or(false) {
        mount("none", TRACEFS, "tracefs", MountFlags::empty(), None)?;
    }
    let text =
        fs::read_to_string(&id).map_err(|error| io::Error::new(error.kind(), format!("{id}: {error}")))?;
    text.trim().parse().map_err(|_| io::Error::other(format!("{id} has no number")))
}

/// Sends the samples of an event to another one's buffer.
fn redirect(event: &OwnedFd, to: &OwnedFd) -> io::Result<()> {
    // SAFETY: both are open events; the call takes numbers only.
    let done = unsafe { perf_event_open_sys::ioctls::SET_OUTPUT(event.as_raw_fd(), to.as_raw_fd()) };
    if done < 0 { Err(io::Error::last_os_error()) } else { Ok(()) }
}
