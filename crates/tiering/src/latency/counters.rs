//! Latencies from the processor's own counters: Intel's caching agents, AMD's L3 caches.
//!
//! Both are told apart by distance only, so this is for two tiers: the processors' own node, and one that is farther.
//! They count what everybody reads from that node's processors, not the managed process alone. A tier that nobody
//! reads from has no mean latency; the probe's stands in.

use std::io;
use std::time::Instant;

use warmset_platform::counters::Counter;
use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::numa::node_cpus;

use super::{LatencySource, ProbeSource, Reading, Tracked, counted};
use crate::{Error, Topology};

const INTEL: &str = "uncore_cha";
const AMD: &str = "amd_l3";
/// Requests to an agent, the cycles that they spend there, and its clock.
const INTEL_INSERTS: u64 = 0x35;
const INTEL_OCCUPANCY: u64 = 0x36;
const INTEL_CLOCK: u64 = 0x01;
/// Data reads that missed the cache, for memory here, at another processor, on a CXL device.
const INTEL_LOCAL: u64 = 0xC816_FE01;
const INTEL_REMOTE: u64 = 0xC817_7E01;
const INTEL_CXL: u64 = 0x10_C817_8201;
/// Sampled latencies in units of 10 ns, and how many were sampled.
const AMD_LATENCY: u64 = 0xAC;
const AMD_REQUESTS: u64 = 0xAD;
const AMD_UNIT_NS: f64 = 10.0;
const AMD_NEAR: u64 = 0x01;
const AMD_FAR: u64 = 0x02;
const AMD_EXTENSION: u64 = 0x30;

/// The two counters of one tier: what accesses cost together, and how many there were.
#[derive(Debug)]
struct Pair {
    cost: Counter,
    count: Counter,
    last: Option<(u64, u64)>,
}

impl Pair {
    /// The differences since the last look; `None` for the first, and where a counter went back or cannot be read.
    fn step(&mut self) -> Option<(u64, u64)> {
        let now = (self.cost.read().ok()?, self.count.read().ok()?);
        let last = self.last.replace(now)?;
        Some((counted(last.0, now.0)?, counted(last.1, now.1)?))
    }
}

/// The counters of this machine.
#[derive(Debug)]
pub struct CounterSource {
    pairs: Vec<Pair>,
    clock: Option<(Counter, Option<u64>)>,
    idle: ProbeSource,
    last: Instant,
}

impl CounterSource {
    /// Opens them.
    ///
    /// # Errors
    /// When this processor has none, they may not be used, or there are more tiers than they tell apart.
    pub fn open(root: &Root, topology: &Topology) -> Result<Self, Error> {
        let [near, far] = &topology.tiers[..] else {
            return Err(Error::NoLatency(
                "the processor's counters tell two tiers apart: use --latency probe".into(),
            ));
        };
        let cpus = node_cpus(root, near.node);
        let intel = |event, mask| Counter::open(root, INTEL, &[("event", event), ("umask", mask)], &cpus);
        let far_mask = if far.has_cpus { INTEL_REMOTE } else { INTEL_CXL };
        let pairs = [INTEL_LOCAL, far_mask]
            .map(|mask| pair(intel(INTEL_OCCUPANCY, mask), intel(INTEL_INSERTS, mask)));
        let [near_pair, far_pair] = pairs;
        let (pairs, clock) = match (near_pair, far_pair) {
            (Ok(near), Ok(far)) => {
                let clock = Counter::open(root, INTEL, &[("event", INTEL_CLOCK)], &cpus).map_err(refused)?;
                (vec![near, far], Some((clock, None)))
            }
            (Err(error), _) | (_, Err(error)) if error.kind() != io::ErrorKind::NotFound => {
                return Err(refused(error));
            }
            _ => (amd(root, &cpus, far.has_cpus).map_err(refused)?, None),
        };
        Ok(Self { pairs, clock, idle: ProbeSource::new(root, topology)?, last: Instant::now() })
    }
}

fn pair(cost: io::Result<Counter>, count: io::Result<Counter>) -> io::Result<Pair> {
    Ok(Pair { cost: cost?, count: count?, last: None })
}

fn amd(root: &Root, cpus: &[u32], far_has_cpus: bool) -> io::Result<Vec<Pair>> {
    let open = |event, mask| {
        let everywhere = [("enallcores", 1), ("enallslices", 1), ("sliceid", 3), ("threadmask", 3)];
        let mut terms = vec![("event", event), ("umask", mask)];
        terms.extend(everywhere);
        Counter::open(root, AMD, &terms, cpus)
    };
    let far = if far_has_cpus { AMD_FAR } else { AMD_EXTENSION };
    [AMD_NEAR, far].into_iter().map(|mask| pair(open(AMD_LATENCY, mask), open(AMD_REQUESTS, mask))).collect()
}

fn refused(error: io::Error) -> Error {
    let advice = match error.kind() {
        io::ErrorKind::PermissionDenied => "; they need root or CAP_PERFMON",
        _ => "; use --latency probe",
    };
    Error::NoLatency(format!("the processor's counters cannot be used: {error}{advice}"))
}

impl LatencySource for CounterSource {
    fn name(&self) -> &'static str {
        "counters"
    }

    fn read(&mut self, tracked: &[Tracked]) -> Vec<Reading> {
        let elapsed_ns = self.last.elapsed().as_nanos() as f64;
        self.last = Instant::now();
        let ns_per_cycle = match &mut self.clock {
            Some((counter, last)) => counter.read().ok().and_then(|now| {
                let cycles = counted(last.replace(now)?, now)?;
                // A clock that stands still is a counter that has stopped.
                (cycles > 0).then(|| elapsed_ns * counter.units() as f64 / cycles as f64)
            }),
            None => Some(AMD_UNIT_NS),
        };
        let counts_all = self.clock.is_some();
        let steps: Vec<Option<(u64, u64)>> = self.pairs.iter_mut().map(Pair::step).collect();
        let is_idle = |step: &Option<(u64, u64)>| matches!(step, Some((_, 0)));
        let idle = if steps.iter().any(is_idle) { self.idle.read(tracked) } else { Vec::new() };
        let reading = |(at, step): (usize, Option<(u64, u64)>)| {
            let stand_in = idle.get(at).and_then(|reading| reading.latency_ns);
            ns_per_cycle
                .map_or_else(Reading::default, |unit| judged(step, unit, elapsed_ns, counts_all, stand_in))
        };
        steps.into_iter().enumerate().map(reading).collect()
    }
}

/// Little's law: what the requests cost together, divided by their number.
fn judged(
    step: Option<(u64, u64)>,
    unit_ns: f64,
    elapsed_ns: f64,
    counts_all: bool,
    idle_ns: Option<f64>,
) -> Reading {
    match step {
        None => Reading::default(),
        Some((_, 0)) => Reading { latency_ns: idle_ns, rate_per_ns: Some(0.0) },
        Some((cost, count)) => Reading {
            latency_ns: Some(cost as f64 * unit_ns / count as f64),
            rate_per_ns: counts_all.then(|| count as f64 / elapsed_ns.max(1.0)),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_latency_is_cost_by_count_in_the_unit_of_the_clock() {
        let reading = judged(Some((3000, 10)), 0.5, 1000.0, true, None);
        assert_eq!(reading, Reading { latency_ns: Some(150.0), rate_per_ns: Some(0.01) });
        let sampled = judged(Some((30, 2)), AMD_UNIT_NS, 1000.0, false, None);
        assert_eq!(sampled, Reading { latency_ns: Some(150.0), rate_per_ns: None }, "samples are no rate");
    }

    #[test]
    fn an_idle_tier_is_no_stopped_counter() {
        let idle = judged(Some((0, 0)), 1.0, 1000.0, true, Some(90.0));
        assert_eq!(idle, Reading { latency_ns: Some(90.0), rate_per_ns: Some(0.0) });
        assert_eq!(judged(None, 1.0, 1000.0, true, Some(90.0)), Reading::default());
    }

    #[test]
    fn a_counter_that_went_back_has_no_difference() {
        assert_eq!((counted(5, 7), counted(7, 5)), (Some(2), None));
    }

    #[test]
    fn a_machine_without_them_is_told_what_to_use() {
        let empty = tempfile::tempdir().unwrap();
        let tier = |node| crate::Tier { node, total_bytes: 1 << 30, has_cpus: node == 0 };
        let topology = Topology { tiers: vec![tier(0), tier(1)] };
        let error = CounterSource::open(&Root::at(empty.path()), &topology).unwrap_err().to_string();
        assert!(error.contains("--latency probe"), "{error}");
    }
}
