//! Latencies from a file: for tests, and to try a policy on a machine whose nodes are alike.

use std::path::Path;

use serde::Deserialize;

use super::{LatencySource, Reading, Tracked};
use crate::Error;
use crate::script::Script;

/// One tier: its latency is `base_ns + slope_ns · (the part of the accesses that it serves)`.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    base_ns: f64,
    #[serde(default)]
    slope_ns: f64,
}

/// A JSON list with one `{"base_ns": NUMBER, "slope_ns": NUMBER}` per tier; a tier beyond its end has no reading.
#[derive(Debug)]
pub struct ScriptedSource {
    script: Script,
}

impl ScriptedSource {
    /// From a file.
    ///
    /// # Errors
    /// When it cannot be read or is malformed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { script: Script::open::<Vec<Line>>(path)? })
    }
}

impl LatencySource for ScriptedSource {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn read(&mut self, tracked: &[Tracked]) -> Vec<Reading> {
        // A script that is being rewritten is as good as a counter that has stopped.
        let lines = self.script.read::<Vec<Line>>().unwrap_or_default();
        let reading = |(at, tier): (usize, &Tracked)| Reading {
            latency_ns: lines.get(at).map(|line| line.slope_ns.mul_add(tier.share, line.base_ns)),
            rate_per_ns: None,
        };
        tracked.iter().enumerate().map(reading).collect()
    }
}
