//! The tracker that works on every machine: DAMON.

use std::io;
use std::time::Duration;

use warmset_platform::damon::{Damon, DamonError, DamonSettings, turn_off};
use warmset_platform::detach::Guardian;
use warmset_platform::sysinfo::Root;

use super::{Access, Tracker, rate_of};

/// Looks per aggregation: what a look costs bounds the kernel thread's share of a processor.
const SAMPLES: u32 = 20;
/// The same once nothing was accessed for some intervals. A look sees what happened since the last one, so the first
/// access is seen all the same.
const SAMPLES_IDLE: u32 = 4;
const INTERVALS_IDLE: u32 = 8;
const AGGREGATION_MIN: Duration = Duration::from_millis(100);
const REGIONS_MIN: u64 = 20;
const REGIONS_MAX: u64 = 400;

/// DAMON, and the process that turns it off should this one be killed.
#[derive(Debug)]
pub struct DamonTracker {
    damon: Option<Damon>,
    guardian: Option<Guardian>,
    aggregation: Duration,
    samples: u32,
    /// Intervals in which nothing was accessed.
    idle: u32,
}

impl DamonTracker {
    /// Starts watching. Call it while this process has one thread: the guardian is a copy of it.
    ///
    /// # Errors
    /// DAMON's, and those of starting the guardian.
    pub fn start(pid: u32, interval: Duration) -> Result<Self, DamonError> {
        let aggregation = interval.max(AGGREGATION_MIN);
        let damon = Damon::start(&Root::live(), pid, &settings(aggregation, SAMPLES))?;
        let guardian = Guardian::start(|| turn_off(&Root::live())).map_err(|source| DamonError::Io {
            path: "the process that turns DAMON off at the end".into(),
            source,
        })?;
        Ok(Self { damon: Some(damon), guardian: Some(guardian), aggregation, samples: SAMPLES, idle: 0 })
    }

    /// Looks less often at a process that does nothing, and closely again at its first access.
    fn adapt(&mut self, is_idle: bool) -> io::Result<()> {
        self.idle = if is_idle { self.idle.saturating_add(1) } else { 0 };
        let samples = if self.idle >= INTERVALS_IDLE { SAMPLES_IDLE } else { SAMPLES };
        if let Some(damon) = self.damon.as_ref().filter(|_| samples != self.samples) {
            damon.change(&settings(self.aggregation, samples)).map_err(io::Error::other)?;
            self.samples = samples;
        }
        Ok(())
    }
}

fn settings(aggregation: Duration, samples: u32) -> DamonSettings {
    let aggregation_us = u64::try_from(aggregation.as_micros()).unwrap_or(u64::MAX);
    DamonSettings {
        sample_us: aggregation_us / u64::from(samples),
        aggregation_us,
        regions_min: REGIONS_MIN,
        regions_max: REGIONS_MAX,
    }
}

impl Tracker for DamonTracker {
    fn name(&self) -> &'static str {
        "damon"
    }

    fn collect(&mut self) -> io::Result<Vec<Access>> {
        let damon = self.damon.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        let samples = f64::from(self.samples);
        let access = |region: warmset_platform::damon::DamonRegion| Access {
            start: region.start,
            end: region.end,
            // A longer time between looks shows more accesses: the rate is per look of a process that is not idle.
            rate: rate_of(region.access_count as f64, samples) * samples / f64::from(SAMPLES),
            latency_ns: None,
        };
        let accesses: Vec<Access> = damon.regions()?.into_iter().map(access).collect();
        self.adapt(accesses.is_empty())?;
        Ok(accesses)
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
