//! The tracker that works on every machine: DAMON.

use std::io;
use std::time::Duration;

use warmset_platform::damon::{Damon, DamonError, DamonSettings, turn_off};
use warmset_platform::detach::Guardian;
use warmset_platform::sysinfo::Root;

use super::{Access, Tracker, rate_of};

/// Looks per aggregation: what a look costs bounds the kernel thread's share of a processor.
const SAMPLES: u32 = 20;
const AGGREGATION_MIN: Duration = Duration::from_millis(100);
const REGIONS_MIN: u64 = 20;
const REGIONS_MAX: u64 = 400;

/// DAMON, and the process that turns it off should this one be killed.
#[derive(Debug)]
pub struct DamonTracker {
    damon: Option<Damon>,
    guardian: Option<Guardian>,
    aggregation: Duration,
}

impl DamonTracker {
    /// Starts watching. Call it while this process has one thread: the guardian is a copy of it.
    ///
    /// # Errors
    /// DAMON's, and those of starting the guardian.
    pub fn start(pid: u32, interval: Duration) -> Result<Self, DamonError> {
        let aggregation = interval.max(AGGREGATION_MIN);
        let aggregation_us = u64::try_from(aggregation.as_micros()).unwrap_or(u64::MAX);
        let settings = DamonSettings {
            sample_us: aggregation_us / u64::from(SAMPLES),
            aggregation_us,
            regions_min: REGIONS_MIN,
            regions_max: REGIONS_MAX,
        };
        let damon = Damon::start(&Root::live(), pid, &settings)?;
        let guardian = Guardian::start(|| turn_off(&Root::live())).map_err(|source| DamonError::Io {
            path: "the process that turns DAMON off at the end".into(),
            source,
        })?;
        Ok(Self { damon: Some(damon), guardian: Some(guardian), aggregation })
    }
}

impl Tracker for DamonTracker {
    fn name(&self) -> &'static str {
        "damon"
    }

    fn collect(&mut self) -> io::Result<Vec<Access>> {
        let damon = self.damon.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let access = |region: warmset_platform::damon::DamonRegion| Access {
            start: region.start,
            end: region.end,
            rate: rate_of(region.access_count as f64, f64::from(SAMPLES)),
            latency_ns: None,
        };
        Ok(damon.regions()?.into_iter().map(access).collect())
    }

    fn accesses_per_rate_s(&self) -> f64 {
        f64::from(SAMPLES) / self.aggregation.as_secs_f64()
    }

    fn kernel_thread(&self) -> Option<u32> {
        self.damon.as_ref()?.thread()
    }
}

impl Drop for DamonTracker {
    fn drop(&mut self) {
        // Off first: the guardian's duty ends only when there is nothing left to do.
        drop(self.damon.take());
        if let Some(guardian) = self.guardian.take() {
            guardian.dismiss();
        }
    }
}
