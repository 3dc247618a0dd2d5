//! Page-cache tracepoints and mappings of all programs that the calling thread starts, with their children.

use std::io;
use std::os::fd::OwnedFd;
use std::path::PathBuf;

use perf_event_open_sys::bindings::{
    PERF_COUNT_SW_DUMMY, PERF_RECORD_FORK, PERF_RECORD_LOST, PERF_RECORD_MMAP2, PERF_RECORD_SAMPLE,
    PERF_SAMPLE_RAW, PERF_SAMPLE_REGS_USER, PERF_SAMPLE_TID, PERF_SAMPLE_TIME, PERF_TYPE_SOFTWARE,
    PERF_TYPE_TRACEPOINT,
};

use super::ring::Ring;
use super::{attributes, open, redirect, tracepoint};
use crate::opens::FileId;
use crate::sysinfo::{Root, numa};

/// Ranges that a program reads, that a fault maps around it, and that a fault waits for.
const TRACEPOINTS: [&str; 3] =
    ["filemap/mm_filemap_get_pages", "filemap/mm_filemap_map_pages", "filemap/mm_filemap_fault"];
const RING_PAGES: usize = 512;
const PAGE_BYTES: u64 = 4096;
/// The bit of the instruction pointer in `sample_regs_user`.
#[cfg(target_arch = "x86_64")]
const INSTRUCTION_POINTER: u64 = 1 << 8;
#[cfg(target_arch = "aarch64")]
const INSTRUCTION_POINTER: u64 = 1 << 32;

/// What was seen.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Pages of a file were looked for.
    Touch {
        /// When, on the monotonic clock.
        at_ns: u64,
        /// The process.
        process: u32,
        /// The file.
        file: FileId,
        /// The first byte.
        start: u64,
        /// The byte after the last one.
        end: u64,
        /// The user's instruction at that time.
        instruction: u64,
    },
    /// A file was mapped.
    Map(Mapping),
    /// A process or thread was started.
    Fork {
        /// When, on the monotonic clock.
        at_ns: u64,
        /// The new process.
        process: u32,
        /// The one that started it.
        parent: u32,
    },
}

/// A file in a process's address space.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapping {
    /// When, on the monotonic clock.
    pub at_ns: u64,
    /// The process.
    pub process: u32,
    /// Its first address.
    pub address: u64,
    /// How many bytes.
    pub bytes: u64,
    /// Where in the file it starts.
    pub offset: u64,
    /// The file.
    pub file: FileId,
    /// The file's path.
    pub path: PathBuf,
}

impl Event {
    /// When, on the monotonic clock.
    #[must_use]
    pub fn at_ns(&self) -> u64 {
        match self {
            Self::Touch { at_ns, .. } | Self::Fork { at_ns, .. } => *at_ns,
            Self::Map(mapping) => mapping.at_ns,
        }
    }
}

/// Events of programs that are started by the thread that made this.
#[derive(Debug)]
pub struct TreeEvents {
    rings: Vec<Ring>,
    _events: Vec<OwnedFd>,
    kinds: [u64; 3],
    /// Events that found no room.
    lost: u64,
}

impl TreeEvents {
    /// Records whatever the calling thread starts from now on, from each program's exec on, on all processors.
    ///
    /// # Errors
    /// The kernel's: `PermissionDenied` without CAP_PERFMON; `NotFound` where it has no such tracepoints.
    pub fn of_this_thread() -> io::Result<Self> {
        let mut kinds = [0; 3];
        for (kind, name) in kinds.iter_mut().zip(TRACEPOINTS) {
            *kind = tracepoint(name)?;
        }
        let (mut rings, mut events) = (Vec::new(), Vec::new());
        for processor in numa::online_cpus(&Root::live()) {
            let mut first = attributes(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_DUMMY.into());
            first.set_mmap(1);
            first.set_mmap2(1);
            first.set_mmap_data(1);
            first.set_task(1);
            let first = opened(&mut first, processor)?;
            rings.push(Ring::map(&first, RING_PAGES)?);
            for kind in kinds {
                let mut attr = attributes(PERF_TYPE_TRACEPOINT, kind);
                attr.sample_regs_user = INSTRUCTION_POINTER;
                attr.__bindgen_anon_1.sample_period = 1;
                let event = opened(&mut attr, processor)?;
                redirect(&event, &first)?;
                events.push(event);
            }
            events.push(first);
        }
        Ok(Self { rings, _events: events, kinds, lost: 0 })
    }

    /// Hands over what has arrived, in no order.
    pub fn drain(&mut self, mut take: impl FnMut(Event)) {
        let mut lost = 0;
        let kinds = self.kinds;
        for ring in &mut self.rings {
            ring.drain(|kind, bytes| match kind {
                PERF_RECORD_LOST => lost += number(bytes, 8).unwrap_or(0),
                PERF_RECORD_SAMPLE => sample(bytes, &kinds).into_iter().for_each(&mut take),
                PERF_RECORD_MMAP2 => mapping(bytes).map(Event::Map).into_iter().for_each(&mut take),
                PERF_RECORD_FORK => fork(bytes).into_iter().for_each(&mut take),
                _ => {}
            });
        }
        self.lost += lost;
    }

    /// How many events found no room in the buffers.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

fn opened(attr: &mut perf_event_open_sys::bindings::perf_event_attr, processor: u32) -> io::Result<OwnedFd> {
    attr.sample_type =
        u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_RAW | PERF_SAMPLE_REGS_USER);
    attr.sample_regs_user = INSTRUCTION_POINTER;
    attr.set_disabled(1);
    attr.set_inherit(1);
    attr.set_enable_on_exec(1);
    attr.set_sample_id_all(1);
    attr.set_use_clockid(1);
    attr.clockid = libc::CLOCK_MONOTONIC;
    attr.set_watermark(1);
    attr.__bindgen_anon_2.wakeup_watermark = 1 << 30;
    open(attr, 0, processor as i32)
}

fn half(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// pid, tid, time, the size of the raw data, the data, the registers' ABI and the registers.
fn sample(bytes: &[u8], kinds: &[u64; 3]) -> Option<Event> {
    const RAW: usize = 20;
    let (process, at_ns) = (half(bytes, 0)?, number(bytes, 8)?);
    let raw_bytes = half(bytes, 16)? as usize;
    let raw = bytes.get(RAW..RAW + raw_bytes)?;
    let instruction = match number(bytes, RAW + raw_bytes)? {
        0 => 0,
        _ => number(bytes, RAW + raw_bytes + 8)?,
    };
    let kind = u64::from(half(raw, 0)? & 0xffff);
    let device = half(raw, 16)?;
    let file =
        FileId { device: rustix::fs::makedev(device >> 20, device & 0xf_ffff), inode: number(raw, 8)? };
    let first = number(raw, 24)?;
    let last = if kind == kinds[2] { first } else { number(raw, 32)? };
    let (start, end) = (first.checked_mul(PAGE_BYTES)?, last.checked_add(1)?.checked_mul(PAGE_BYTES)?);
    (start < end).then_some(Event::Touch { at_ns, process, file, start, end, instruction })
}

/// pid, tid, address, length, offset, device, inode, its generation, protection, flags, name, and pid, tid and time.
fn mapping(bytes: &[u8]) -> Option<Mapping> {
    let (major, minor) = (half(bytes, 32)?, half(bytes, 36)?);
    let name = bytes.get(64..)?;
    let name = &name[..name.iter().position(|&byte| byte == 0)?];
    let at_ns = number(bytes, bytes.len().checked_sub(8)?)?;
    name.starts_with(b"/").then(|| Mapping {
        at_ns,
        process: half(bytes, 0).unwrap_or(0),
        address: number(bytes, 8).unwrap_or(0),
        bytes: number(bytes, 16).unwrap_or(0),
        offset: number(bytes, 24).unwrap_or(0),
        file: FileId { device: rustix::fs::makedev(major, minor), inode: number(bytes, 40).unwrap_or(0) },
        path: PathBuf::from(<std::ffi::OsStr as std::os::unix::ffi::OsStrExt>::from_bytes(name)),
    })
}

fn fork(bytes: &[u8]) -> Option<Event> {
    Some(Event::Fork { at_ns: number(bytes, 16)?, process: half(bytes, 0)?, parent: half(bytes, 4)? })
}
