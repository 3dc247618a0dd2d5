//! The latency source that works on every machine: pointers followed through memory of each node, by the daemon.

use std::time::Duration;

use warmset_platform::chase::{Chase, largest_cache_bytes};
use warmset_platform::sysinfo::Root;

use super::{LatencySource, Reading, Tracked};
use crate::topology::free_bytes;
use crate::{Error, Topology};

/// How long a node is probed: the daemon's own use of the processor and of the memory's bandwidth.
const PROBE: Duration = Duration::from_micros(500);
const CACHE_BYTES: u64 = 32 << 20;
const RING_BYTES_MIN: u64 = 4 << 20;
const RING_BYTES_MAX: u64 = 256 << 20;
/// The most that is taken of a node's unused memory.
const FREE_PART: u64 = 8;

/// A ring of cache lines on each node, larger than the caches where there is room.
#[derive(Debug)]
pub struct ProbeSource {
    rings: Vec<Chase>,
}

impl ProbeSource {
    /// Takes the memory.
    ///
    /// # Errors
    /// When a node has not enough unused memory.
    pub fn new(root: &Root, topology: &Topology) -> Result<Self, Error> {
        let wanted = 2 * largest_cache_bytes(root).unwrap_or(CACHE_BYTES);
        let ring = |node: u32| {
            let free = free_bytes(root, node).unwrap_or(0);
            let bytes = wanted
                .next_power_of_two()
                .min(RING_BYTES_MAX)
                .min((free / FREE_PART + 1).next_power_of_two() / 2);
            if bytes < RING_BYTES_MIN {
                return Err(Error::NoLatency(format!(
                    "node {node} has {} MiB of unused memory, too little to measure its latency: free some, or choose \
                     another source with --latency",
                    free >> 20
                )));
            }
            Chase::on_node(node, bytes as usize).map_err(|error| {
                Error::NoLatency(format!("cannot measure the latency of node {node}: {error}"))
            })
        };
        Ok(Self { rings: topology.tiers.iter().map(|tier| ring(tier.node)).collect::<Result<_, _>>()? })
    }
}

impl LatencySource for ProbeSource {
    fn name(&self) -> &'static str {
        "probe"
    }

    fn read(&mut self, _tracked: &[Tracked]) -> Vec<Reading> {
        let probe =
            |ring: &mut Chase| Reading { latency_ns: Some(ring.latency_ns(PROBE)), rate_per_ns: None };
        self.rings.iter_mut().map(probe).collect()
    }
}
