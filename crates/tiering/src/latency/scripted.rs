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

impl Line {
    fn is_valid(&self) -> bool {
        [self.base_ns, self.slope_ns].iter().all(|figure| figure.is_finite() && *figure >= 0.0)
    }
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
        let script = Script::open::<Vec<Line>>(path)?;
        if !script.read::<Vec<Line>>()?.iter().all(Line::is_valid) {
            let reason = "base_ns and slope_ns must be finite and 0 or more".into();
            return Err(Error::Script { path: path.display().to_string(), reason });
        }
        Ok(Self { script })
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
            latency_ns: (lines.get(at).filter(|line| line.is_valid()))
                .map(|line| line.slope_ns.mul_add(tier.share, line.base_ns)),
            rate_per_ns: None,
        };
        tracked.iter().enumerate().map(reading).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_negative_latency_is_an_error_at_first_and_no_reading_later() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("latencies.json");
        std::fs::write(&path, r#"[{"base_ns": -5}]"#).unwrap();
        let error = ScriptedSource::open(&path).unwrap_err().to_string();
        assert!(error.contains("0 or more") && error.contains("latencies.json"), "{error}");
        std::fs::write(&path, r#"[{"base_ns": 100, "slope_ns": 50}]"#).unwrap();
        let mut source = ScriptedSource::open(&path).unwrap();
        let tracked = [Tracked { share: 0.5, latency_ns: None }];
        assert_eq!(source.read(&tracked)[0].latency_ns, Some(125.0));
        std::fs::write(&path, r#"[{"base_ns": 100, "slope_ns": -500}]"#).unwrap();
        assert_eq!(source.read(&tracked)[0].latency_ns, None);
    }
}
