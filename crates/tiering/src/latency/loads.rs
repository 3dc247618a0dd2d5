//! Latencies of the loads that the tracker samples.

use warmset_platform::sysinfo::Root;

use super::{LatencySource, ProbeSource, Reading, Tracked};
use crate::{Error, Topology};

/// The mean of each tier; the probe's stands in for a tier from which nothing was loaded.
#[derive(Debug)]
pub struct LoadSource {
    idle: ProbeSource,
}

impl LoadSource {
    /// Needs a tracker that measures latencies.
    ///
    /// # Errors
    /// The probe's.
    pub fn new(root: &Root, topology: &Topology) -> Result<Self, Error> {
        Ok(Self { idle: ProbeSource::new(root, topology)? })
    }
}

impl LatencySource for LoadSource {
    fn name(&self) -> &'static str {
        "loads"
    }

    fn read(&mut self, tracked: &[Tracked]) -> Vec<Reading> {
        if tracked.iter().all(|tier| tier.latency_ns.is_some()) {
            return tracked
                .iter()
                .map(|tier| Reading { latency_ns: tier.latency_ns, rate_per_ns: None })
                .collect();
        }
        let idle = self.idle.read(tracked);
        let reading = |(tier, idle): (&Tracked, Reading)| Reading {
            latency_ns: tier.latency_ns.or(idle.latency_ns),
            rate_per_ns: None,
        };
        tracked.iter().zip(idle).map(reading).collect()
    }
}
