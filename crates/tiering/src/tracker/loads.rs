//! Loads that the processor samples with their addresses: they count accesses, and tell what each took.

use std::collections::BTreeMap;
use std::io;
use std::time::Instant;

use warmset_platform::perf::{Load, LoadSamples};
use warmset_platform::sysinfo::Root;

use super::{Access, Tracker};
use crate::CHUNK_BYTES;

/// Loads per sample, as HeMem samples them.
const PERIOD: u64 = 5003;
const BASE_PAGES_PER_CHUNK: f64 = CHUNK_BYTES as f64 / 4096.0;
/// Used where the clock of the processor is not told: latencies of tiers then still compare.
const CYCLES_PER_NS_DEFAULT: f64 = 2.5;

/// Sampled loads of one process.
#[derive(Debug)]
pub struct LoadTracker {
    samples: LoadSamples,
    pid: u32,
    cycles_per_ns: f64,
    last: Instant,
}

impl LoadTracker {
    /// Starts sampling.
    ///
    /// # Errors
    /// `NotFound` where this machine samples no loads, `PermissionDenied` without `CAP_PERFMON`.
    pub fn start(root: &Root, pid: u32) -> io::Result<Self> {
        let khz = root.number("/sys/devices/system/cpu/cpu0/cpufreq/base_frequency");
        let cycles_per_ns = khz.map_or(CYCLES_PER_NS_DEFAULT, |khz| khz as f64 / 1e6);
        Ok(Self { samples: LoadSamples::start(root, PERIOD)?, pid, cycles_per_ns, last: Instant::now() })
    }
}

impl Tracker for LoadTracker {
    fn name(&self) -> &'static str {
        "loads"
    }

    fn collect(&mut self) -> io::Result<Vec<Access>> {
        let elapsed_s = self.last.elapsed().as_secs_f64().max(1e-3);
        self.last = Instant::now();
        let mut chunks = BTreeMap::new();
        let pid = self.pid;
        self.samples.drain(|load| add(&mut chunks, pid, load));
        Ok(accesses(&chunks, elapsed_s, self.cycles_per_ns))
    }

    fn accesses_per_rate_s(&self) -> f64 {
        1.0
    }

    fn counts(&self) -> bool {
        true
    }
}

/// What was sampled in one chunk.
#[derive(Debug, Default)]
struct Sum {
    loads: u64,
    timed: u64,
    cycles: u64,
}

fn add(chunks: &mut BTreeMap<u64, Sum>, pid: u32, load: Load) {
    if load.process == pid {
        let sum = chunks.entry(load.address / CHUNK_BYTES * CHUNK_BYTES).or_default();
        sum.loads += 1;
        sum.timed += u64::from(load.latency_cycles > 0);
        sum.cycles += load.latency_cycles;
    }
}

fn accesses(chunks: &BTreeMap<u64, Sum>, elapsed_s: f64, cycles_per_ns: f64) -> Vec<Access> {
    let access = |(start, sum): (&u64, &Sum)| Access {
        start: *start,
        end: start + CHUNK_BYTES,
        rate: sum.loads as f64 * PERIOD as f64 / BASE_PAGES_PER_CHUNK / elapsed_s,
        latency_ns: (sum.timed > 0).then(|| sum.cycles as f64 / sum.timed as f64 / cycles_per_ns),
    };
    chunks.iter().map(access).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_of_a_chunk_are_its_rate_and_their_mean_its_latency() {
        let mut chunks = BTreeMap::new();
        let load = |process, address, latency_cycles| Load { process, address, latency_cycles };
        for sampled in
            [load(7, CHUNK_BYTES + 5, 300), load(7, 2 * CHUNK_BYTES - 1, 500), load(7, CHUNK_BYTES, 0)]
        {
            add(&mut chunks, 7, sampled);
        }
        add(&mut chunks, 7, load(7, 5 * CHUNK_BYTES, 0));
        add(&mut chunks, 7, load(8, CHUNK_BYTES, 900));
        let seen = accesses(&chunks, 0.5, 2.0);
        assert_eq!(
            seen.iter().map(|access| access.start).collect::<Vec<_>>(),
            [CHUNK_BYTES, 5 * CHUNK_BYTES]
        );
        assert_eq!((seen[0].latency_ns, seen[1].latency_ns), (Some(200.0), None));
        let per_second = seen[0].rate * BASE_PAGES_PER_CHUNK;
        assert!((per_second - 3.0 * PERIOD as f64 / 0.5).abs() < 1e-6);
    }
}
