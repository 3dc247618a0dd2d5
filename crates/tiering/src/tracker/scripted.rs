//! Accesses from a file, where the kernel has no tracker or an experiment wants known ones.

use std::io;
use std::path::Path;

use serde::Deserialize;

use super::{Access, Tracker};
use crate::Error;
use crate::script::Script;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Line {
    start: u64,
    end: u64,
    rate: f64,
}

/// A JSON list of `{"start": ADDRESS, "end": ADDRESS, "rate": NUMBER}`.
#[derive(Debug)]
pub struct ScriptedTracker {
    script: Script,
}

impl ScriptedTracker {
    /// From a file.
    ///
    /// # Errors
    /// When it cannot be read or is malformed.
    pub fn open(path: &Path) -> Result<Self, Error> {
        Ok(Self { script: Script::open::<Vec<Line>>(path)? })
    }
}

impl Tracker for ScriptedTracker {
    fn name(&self) -> &'static str {
        "scripted"
    }

    fn collect(&mut self) -> io::Result<Vec<Access>> {
        let lines = self.script.read::<Vec<Line>>().map_err(io::Error::other)?;
        let usable = |line: &Line| line.start < line.end && line.rate.is_finite() && line.rate > 0.0;
        let access =
            |line: Line| Access { start: line.start, end: line.end, rate: line.rate, latency_ns: None };
        Ok(lines.into_iter().filter(usable).map(access).collect())
    }

    fn accesses_per_rate_s(&self) -> f64 {
        100.0
    }

    fn counts(&self) -> bool {
        true
    }
}
