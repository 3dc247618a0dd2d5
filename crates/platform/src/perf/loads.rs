//! Loads that the processor samples with their address and latency: Intel's `mem-loads`, AMD's `ibs_op`.
//!
//! Invariant: an event is encoded as this kernel's own files below `/sys/bus/event_source` say; what a sample's words
//! mean is perf_event_open(2)'s, not the processor's.

use std::io;
use std::os::fd::OwnedFd;

use perf_event_open_sys::bindings::{
    PERF_RECORD_LOST, PERF_RECORD_SAMPLE, PERF_SAMPLE_ADDR, PERF_SAMPLE_DATA_SRC, PERF_SAMPLE_TID,
    PERF_SAMPLE_WEIGHT,
};

use super::ring::Ring;
use super::{attributes, open};
use crate::counters::{DEVICES, encoded};
use crate::sysinfo::{Root, numa};

const RING_PAGES: usize = 64;
/// Intel's units in the order of preference: the only one, or the fast cores of a hybrid processor.
const INTEL: [&str; 2] = ["cpu", "cpu_core"];
const AMD: &str = "ibs_op";
/// Counts operations, not cycles: operations are what loads are a part of.
const AMD_TERMS: [(&str, u64); 1] = [("cnt_ctl", 1)];
/// AMD takes multiples of 16 only.
const PERIOD_STEP: u64 = 16;

// Fields of `union perf_mem_data_src` in linux/perf_event.h.
const OPERATION_LOAD: u64 = 0x02;
const LEVEL_SHIFT: u32 = 5;
/// Memory of the own node, or of another one, one or two hops away.
const LEVEL_MEMORY: u64 = 0x80 | 0x100 | 0x200;
const LEVEL_NUMBER_SHIFT: u32 = 33;
const LEVEL_NUMBER_MASK: u64 = 0xf;
/// CXL memory, RAM, persistent memory.
const LEVEL_NUMBERS_MEMORY: [u64; 3] = [0x09, 0x0d, 0x0e];

/// A load that memory served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Load {
    /// The process.
    pub process: u32,
    /// The address.
    pub address: u64,
    /// What it took, in cycles of the processor; 0 if that was not measured.
    pub latency_cycles: u64,
}

/// Sampled loads of all processes, on all processors.
#[derive(Debug)]
pub struct LoadSamples {
    rings: Vec<Ring>,
    _events: Vec<OwnedFd>,
    lost: u64,
}

impl LoadSamples {
    /// Samples about one load (Intel) or operation (AMD) in `period`, in user mode.
    ///
    /// # Errors
    /// `NotFound` where this processor or kernel has no such event, `PermissionDenied` without `CAP_PERFMON`.
    pub fn start(root: &Root, period: u64) -> io::Result<Self> {
        let event = Description::find(root)?;
        let (mut rings, mut events) = (Vec::new(), Vec::new());
        for processor in numa::online_cpus(root) {
            let mut attr = attributes(event.kind, event.config[0]);
            attr.__bindgen_anon_3.config1 = event.config[1];
            attr.__bindgen_anon_4.config2 = event.config[2];
            attr.__bindgen_anon_1.sample_period = period.next_multiple_of(PERIOD_STEP);
            attr.sample_type =
                u64::from(PERF_SAMPLE_TID | PERF_SAMPLE_ADDR | PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC);
            attr.set_precise_ip(event.precise);
            attr.set_exclude_kernel(u64::from(event.is_intel));
            attr.set_exclude_hv(u64::from(event.is_intel));
            let opened = open(&mut attr, -1, processor as i32)?;
            rings.push(Ring::map(&opened, RING_PAGES)?);
            events.push(opened);
        }
        Ok(Self { rings, _events: events, lost: 0 })
    }

    /// Hands over the loads that have arrived, in no order.
    pub fn drain(&mut self, mut take: impl FnMut(Load)) {
        for ring in &mut self.rings {
            ring.drain(|kind, bytes| match kind {
                PERF_RECORD_LOST => self.lost += number(bytes, 8).unwrap_or(0),
                PERF_RECORD_SAMPLE => load(bytes).into_iter().for_each(&mut take),
                _ => {}
            });
        }
    }

    /// How many samples found no room in the buffers.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }
}

/// The event, as the kernel wants it.
#[derive(Debug, PartialEq, Eq)]
struct Description {
    kind: u32,
    config: [u64; 3],
    precise: u64,
    is_intel: bool,
}

impl Description {
    fn find(root: &Root) -> io::Result<Self> {
        for unit in INTEL {
            if let Some(text) = root.text(format!("{DEVICES}/{unit}/events/mem-loads")) {
                if root.text(format!("{DEVICES}/{unit}/events/mem-loads-aux")).is_some() {
                    return Err(io::Error::new(
                        io::ErrorKind::NotFound,
                        "this processor samples loads only beside an auxiliary event, which is not supported",
                    ));
                }
                let terms = terms(&text).ok_or_else(|| {
                    io::Error::other(format!("{DEVICES}/{unit}/events/mem-loads is no list of terms"))
                })?;
                let terms: Vec<(&str, u64)> =
                    terms.iter().map(|(name, value)| (name.as_str(), *value)).collect();
                let (kind, config) = encoded(root, unit, &terms)?;
                return Ok(Self { kind, config, precise: 2, is_intel: true });
            }
        }
        if root.text(format!("{DEVICES}/{AMD}/type")).is_some() {
            let (kind, config) = encoded(root, AMD, &AMD_TERMS)?;
            return Ok(Self { kind, config, precise: 0, is_intel: false });
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "the kernel offers no sampled loads on this processor (neither cpu/mem-loads nor ibs_op)",
        ))
    }
}

/// A list such as `event=0xcd,umask=0x1,ldlat=3`; a name alone stands for 1.
fn terms(text: &str) -> Option<Vec<(String, u64)>> {
    let value = |text: &str| match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    };
    let term = |term: &str| match term.split_once('=') {
        Some((name, number)) => Some((name.to_owned(), value(number)?)),
        None => (!term.is_empty()).then(|| (term.to_owned(), 1)),
    };
    text.trim().split(',').map(term).collect()
}

fn number(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_ne_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// pid, tid, address, weight, source; none if it was no load, or a cache served it.
fn load(bytes: &[u8]) -> Option<Load> {
    let process = u32::from_ne_bytes(bytes.get(..4)?.try_into().ok()?);
    let (address, latency_cycles, source) = (number(bytes, 8)?, number(bytes, 16)?, number(bytes, 24)?);
    let is_load = source & OPERATION_LOAD != 0;
    let level = source >> LEVEL_NUMBER_SHIFT & LEVEL_NUMBER_MASK;
    let is_memory = source >> LEVEL_SHIFT & LEVEL_MEMORY != 0 || LEVEL_NUMBERS_MEMORY.contains(&level);
    (is_load && is_memory && address != 0).then_some(Load { process, address, latency_cycles })
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::Path;

    use super::*;

    fn write(root: &Path, name: &str, text: &str) {
        let path = root.join(DEVICES.trim_start_matches('/')).join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    fn record(process: u32, address: u64, weight: u64, source: u64) -> Vec<u8> {
        let mut bytes = process.to_ne_bytes().to_vec();
        bytes.extend(process.to_ne_bytes());
        for word in [address, weight, source] {
            bytes.extend(word.to_ne_bytes());
        }
        bytes
    }

    #[test]
    fn intels_event_is_what_its_files_say() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), "cpu/type", "4\n");
        write(place.path(), "cpu/events/mem-loads", "event=0xcd,umask=0x1,ldlat=3\n");
        write(place.path(), "cpu/format/event", "config:0-7\n");
        write(place.path(), "cpu/format/umask", "config:8-15\n");
        write(place.path(), "cpu/format/ldlat", "config1:0-15\n");
        let found = Description::find(&Root::at(place.path())).unwrap();
        assert_eq!(found, Description { kind: 4, config: [0x1cd, 3, 0], precise: 2, is_intel: true });
        write(place.path(), "cpu/events/mem-loads-aux", "event=0x03,umask=0x82\n");
        let refused = Description::find(&Root::at(place.path())).unwrap_err();
        assert!(refused.to_string().contains("auxiliary"));
    }

    #[test]
    fn amds_event_counts_operations() {
        let place = tempfile::tempdir().unwrap();
        write(place.path(), "ibs_op/type", "9\n");
        write(place.path(), "ibs_op/format/cnt_ctl", "config:19\n");
        let found = Description::find(&Root::at(place.path())).unwrap();
        assert_eq!(found, Description { kind: 9, config: [1 << 19, 0, 0], precise: 0, is_intel: false });
    }

    #[test]
    fn a_machine_without_the_event_says_so() {
        let empty = tempfile::tempdir().unwrap();
        let error = LoadSamples::start(&Root::at(empty.path()), 1000).unwrap_err();
        assert_eq!(error.kind(), io::ErrorKind::NotFound);
        assert!(error.to_string().contains("ibs_op"));
        assert_eq!(terms("event=0xcd,,x"), None);
        assert_eq!(terms("event=abc"), None);
    }

    #[test]
    fn only_loads_from_memory_count() {
        let (local, far, cxl, cache) = (0x80 << 5, 0x100 << 5, 0x09 << 33, 0x0a << 5);
        let seen = |source| load(&record(7, 0x1000, 300, source));
        let wanted = Some(Load { process: 7, address: 0x1000, latency_cycles: 300 });
        for memory in [local, far, cxl] {
            assert_eq!(seen(OPERATION_LOAD | memory), wanted);
            assert_eq!(seen(0x04 | memory), None, "a store");
        }
        assert_eq!(seen(OPERATION_LOAD | cache), None);
        assert_eq!(load(&record(7, 0, 300, OPERATION_LOAD | local)), None, "without an address");
        assert_eq!(load(&record(7, 0x1000, 300, OPERATION_LOAD | local)[..20]), None, "cut");
    }
}
