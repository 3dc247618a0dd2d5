//! An event each time one instruction is executed.

use std::ffi::CString;
use std::fs;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::thread::available_parallelism;

use perf_event_open_sys::bindings::{PERF_RECORD_SAMPLE, PERF_SAMPLE_TID};

use super::ring::Ring;
use super::{attributes, open};

const UPROBE_TYPE: &str = "/sys/bus/event_source/devices/uprobe/type";

/// A program's instruction that is watched. Readable when it was executed.
#[derive(Debug)]
pub struct Breakpoint {
    events: Vec<(OwnedFd, Ring)>,
    process: u32,
}

impl Breakpoint {
    /// Watches an offset in a file, wherever the process and what it starts have mapped it.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` for all but root; `NotFound` where it has no such probes.
    pub fn in_file(path: &Path, offset: u64, process: u32) -> io::Result<Self> {
        let kind = fs::read_to_string(UPROBE_TYPE)?;
        let kind =
            kind.trim().parse().map_err(|_| io::Error::other(format!("{UPROBE_TYPE} has no number")))?;
        let path = CString::new(path.as_os_str().as_bytes())?;
        let mut attr = attributes(kind, 0);
        attr.__bindgen_anon_3.uprobe_path = path.as_ptr() as u64;
        attr.__bindgen_anon_4.probe_offset = offset;
        attr.sample_type = PERF_SAMPLE_TID.into();
        attr.__bindgen_anon_1.sample_period = 1;
        attr.__bindgen_anon_2.wakeup_events = 1;
        let mut events = Vec::new();
        // Not an event of this process that its threads inherit: the kernel would read `path` again in the program's own
        // memory whenever it starts a thread, and starting it would fail.
        for processor in 0..available_parallelism()?.get() {
            let event = open(&mut attr, -1, processor as i32)?;
            let ring = Ring::map(&event, 1)?;
            events.push((event, ring));
        }
        Ok(Self { events, process })
    }

    /// Whether the process, or one that it started and that still runs, has executed it since the last call.
    pub fn was_hit(&mut self) -> bool {
        let (mut hit, process) = (false, self.process);
        self.drain(|by| hit |= descends(by, process));
        hit
    }

    /// Tells which processes have executed it since the last call, whoever started them; once for each time.
    pub fn drain(&mut self, mut executed: impl FnMut(u32)) {
        for (_, ring) in &mut self.events {
            ring.drain(|kind, bytes| {
                if let (PERF_RECORD_SAMPLE, Some(by)) = (kind, bytes.first_chunk()) {
                    executed(u32::from_ne_bytes(*by));
                }
            });
        }
    }

    /// What becomes readable when it is executed.
    pub fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        self.events.iter().map(|(event, _)| event.as_fd())
    }
}

/// Whether a process is, or was started by, another one.
fn descends(process: u32, ancestor: u32) -> bool {
    const GENERATIONS_MAX: usize = 64;
    let parent = |process: &u32| {
        let stat = fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
        stat.rsplit_once(") ")?.1.split(' ').nth(1)?.parse().ok().filter(|&parent| parent > 1)
    };
    std::iter::successors(Some(process), parent).take(GENERATIONS_MAX).any(|each| each == ancestor)
}
