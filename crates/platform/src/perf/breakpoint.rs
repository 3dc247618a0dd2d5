//! An event each time one instruction is executed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::available_parallelism;

use perf_event_open_sys::bindings::{HW_BREAKPOINT_X, PERF_RECORD_SAMPLE, PERF_SAMPLE_TID, PERF_TYPE_BREAKPOINT};

use super::ring::Ring;
use super::{attributes, open};

const UPROBE_TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// How the processor is made to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mechanism {
    /// The kernel's probe at an offset in a file, as root.
    Uprobe,
    /// A breakpoint of the processor at an address, as any user where the kernel lets them.
    Hardware,
}

/// A program's instruction that is watched. Readable when it was executed.
#[derive(Debug)]
pub struct Breakpoint {
    events: Vec<(OwnedFd, Ring)>,
    mechanism: Mechanism,
}

impl Breakpoint {
    /// Watches an offset in a file, wherever the process and what it starts have mapped it.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` for all but root; `NotFound` where it has no such probes.
    pub fn in_file(path: &Path, offset: u64, process: u32) -> io::Result<Self> {
        let kind = fs::read_to_string(UPROBE_TYPE)?;
        let kind = kind.trim().parse().map_err(|_| io::Error::other(format!("{UPROBE_TYPE} has no number")))?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut attr = attributes(kind, 0);
        attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
        attr.__bindgen_anon_4.probe_offset = offset;
        Self::opened(attr, process, Mechanism::Uprobe)
    }

    /// Watches an address in one process, and in the threads that this thread of it starts.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` where users may not; `NotFound` or `Unsupported` without such a processor.
    pub fn at_address(address: u64, process: u32) -> io::Result<Self> {
        let mut attr = attributes(PERF_TYPE_BREAKPOINT, 0);
        attr.bp_type = HW_BREAKPOINT_X;
        attr.__bindgen_anon_3.bp_addr = address;
        attr.__bindgen_anon_4.bp_len = size_of::<libc::c_long>() as u64;
        attr.set_exclude_kernel(1);
        attr.set_exclude_hv(1);
        Self::opened(attr, process, Mechanism::Hardware)
    }

    fn opened(
        mut attr: perf_event_open_sys::bindings::perf_event_attr,
        process: u32,
        mechanism: Mechanism,
    ) -> io::Result<Self> {
        attr.sample_type = PERF_SAMPLE_TID.into();
        attr.__bindgen_anon_1.sample_period = 1;
        attr.__bindgen_anon_2.wakeup_events = 1;
        attr.set_inherit(1);
        let process = i32::try_from(process).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
        let mut events = Vec::new();
        // An event that children inherit has a buffer for one processor.
        for processor in 0..available_parallelism()?.get() {
            let event = open(&mut attr, process, processor as i32)?;
            let ring = Ring::map(&event, 1)?;
            events.push((event, ring));
        }
        Ok(Self { events, mechanism })
    }

    /// How often it was executed since the last call.
    pub fn hits(&mut self) -> u64 {
        let mut hits = 0;
        for (_, ring) in &mut self.events {
            ring.drain(|kind, _| hits += u64::from(kind == PERF_RECORD_SAMPLE));
        }
        hits
    }

    /// How it is watched.
    #[must_use]
    pub fn mechanism(&self) -> Mechanism {
        self.mechanism
    }

    /// What becomes readable when it is executed.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(|(event, _)| event.as_fd())
    }
}
