//! Bursts: runs of reads close in time, with a quiet stretch before each.

use crate::profile::Profile;

/// A pause of this long ends a burst.
pub const QUIET_MS: u64 = 100;

/// A run of reads close in time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Burst {
    /// When it starts, since the start of the run.
    pub start_ms: u64,
    /// When its last read starts.
    pub end_ms: u64,
    /// How long nothing new was read before it.
    pub quiet_ms: u64,
    /// Its bytes.
    pub bytes: u64,
}

/// The bursts of a profile's reads, which are in order of time.
#[must_use]
pub fn bursts(profile: &Profile) -> Vec<Burst> {
    let mut found: Vec<Burst> = Vec::new();
    for read in &profile.reads {
        let bytes = read.end.saturating_sub(read.start);
        match found.last_mut() {
            Some(last) if read.at_ms.saturating_sub(last.end_ms) < QUIET_MS => {
                last.end_ms = last.end_ms.max(read.at_ms);
                last.bytes += bytes;
            }
            last => {
                let quiet_ms = last.map_or(0, |last| read.at_ms - last.end_ms);
                found.push(Burst { start_ms: read.at_ms, end_ms: read.at_ms, quiet_ms, bytes });
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::{Read, VERSION};

    #[test]
    fn a_pause_divides_bursts() {
        let read = |at_ms| Read { file: 0, start: 0, end: 4096, at_ms };
        let reads = vec![read(0), read(99), read(150), read(250), read(600)];
        let (program, arguments) = ("/bin/true".into(), Vec::new());
        let profile =
            Profile { version: VERSION, program, arguments, seconds: 0.6, files: Vec::new(), reads };
        let found = bursts(&profile);
        let burst = |start_ms, end_ms, quiet_ms, bytes| Burst { start_ms, end_ms, quiet_ms, bytes };
        assert_eq!(found, [burst(0, 150, 0, 12288), burst(250, 250, 100, 4096), burst(600, 600, 350, 4096)]);
    }
}
