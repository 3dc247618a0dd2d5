//! What the programs on this machine say of themselves, read with mistrust.
//!
//! Invariant: a file that makes no sense is a problem with its name, and takes nothing else with it.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use warmset_platform::status::{Found, FoundIn, SCHEMA};
use warmset_tiering::{Counters, Report};

/// Who says it.
#[derive(Debug, Clone, Serialize)]
pub struct Process {
    /// Tells it from all other processes of this boot.
    #[serde(skip)]
    pub key: String,
    /// Its number.
    pub pid: u32,
    /// Its name.
    pub program: String,
    /// Its user's number.
    pub user_id: u32,
    /// When it wrote, of a clock that all processes of this boot share.
    #[serde(skip)]
    pub at_ns: u64,
    /// Whether it has not written for several turns: stopped, or on an overloaded machine.
    pub late: bool,
}

/// A region store.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct StoreStatus {
    /// Its number in the process.
    pub store: u64,
    /// The kind of program.
    pub user: String,
    /// Where its files are.
    pub dirs: Vec<String>,
    /// The memory that it may use.
    pub budget_bytes: u64,
    /// Memory that it has taken.
    pub pool_bytes: u64,
    /// Of that, in use.
    pub used_bytes: u64,
    /// Beside the pool.
    pub window_bytes: u64,
    /// Of the pool, on huge pages.
    pub huge_bytes: u64,
    /// Cached, in memory.
    pub resident_bytes: u64,
    /// Cached, in memory or not.
    pub live_bytes: u64,
    /// Taken on disk.
    pub flash_bytes: u64,
    /// Accessed, as counted by whole segments.
    pub accessed_bytes_total: u64,
    /// Read from disk.
    pub read_bytes_total: u64,
    /// Written to disk.
    pub written_bytes_total: u64,
    /// Segments brought to memory.
    pub promotions_total: u64,
    /// Segments taken from memory.
    pub demotions_total: u64,
    /// Segments that only passed through.
    pub streamed_total: u64,
    /// How often readers waited.
    pub waits_total: u64,
    /// How long.
    pub wait_ns_total: u64,
    /// Regions that were given up for room.
    pub evictions_total: u64,
    /// Regions.
    pub regions: u64,
    /// Segments.
    pub segments: u64,
    /// The largest regions.
    pub largest_regions: Vec<RegionStatus>,
}

/// A region.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct RegionStatus {
    /// Its number in the store.
    pub id: u64,
    /// What its user calls it.
    #[serde(default)]
    pub name: Option<String>,
    /// Its segments.
    pub segments: u64,
    /// Its size.
    pub bytes: u64,
    /// Of that, in memory.
    pub resident_bytes: u64,
    /// On disk.
    pub file_bytes: u64,
    /// Holds of readers.
    pub pins: u64,
}

/// The split of one budget between a Java heap and a pool.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct SplitStatus {
    /// The budget of both.
    pub total_bytes: u64,
    /// The heap, as it is.
    pub heap_committed_bytes: u64,
    /// Of that, what lives.
    pub heap_live_bytes: u64,
    /// What the heap may grow to.
    pub heap_allowed_bytes: u64,
    /// What the pool may grow to.
    pub pool_budget_bytes: u64,
    /// How often memory went from one to the other.
    pub moves_total: u64,
}

/// A process whose pages are placed.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct TierStatus {
    /// The process.
    pub target_pid: u32,
    /// Its name.
    pub target_name: String,
    /// How pages are chosen.
    pub policy: String,
    /// Nothing is moved.
    pub dry_run: bool,
    /// Sums.
    pub counters: Counters,
    /// The last decision.
    pub last: Report,
}

/// A program whose files are fetched.
#[derive(Debug, Clone, Serialize, Deserialize)]
pub struct PrefetchStatus {
    /// The process.
    pub target_pid: u32,
    /// Its program.
    pub program: String,
    /// What its profile has.
    pub bytes: u64,
    /// What was asked for so far.
    pub fetched_bytes: u64,
    /// Of files that have changed since.
    pub stale_bytes: u64,
    /// Bursts that wait for their trigger.
    pub triggers_waiting: u64,
    /// Triggers that have fired.
    pub triggers_fired: u64,
}

#[derive(Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase")]
enum Part {
    Store(Box<StoreStatus>),
    Split(SplitStatus),
    Tier(Box<TierStatus>),
    Prefetch(PrefetchStatus),
    /// Of a newer version.
    #[serde(other)]
    Unknown,
}

/// Something, and who says it.
#[derive(Debug, Clone, Serialize)]
pub struct Of<T> {
    /// Who.
    #[serde(flatten)]
    pub process: Process,
    /// What.
    #[serde(flatten)]
    pub status: T,
}

/// All that is said now.
#[derive(Debug, Clone, Default)]
pub struct Machine {
    /// Region stores.
    pub stores: Vec<Of<StoreStatus>>,
    /// Splits.
    pub splits: Vec<Of<SplitStatus>>,
    /// Tiering.
    pub tiers: Vec<Of<TierStatus>>,
    /// Prefetches.
    pub prefetches: Vec<Of<PrefetchStatus>>,
    /// What could not be read, and why.
    pub problems: Vec<String>,
}

#[derive(Deserialize)]
struct File {
    schema: u32,
    name: String,
    at_ns: u64,
    interval_ms: u64,
    parts: Vec<Value>,
}

impl Machine {
    /// Reads what was found.
    pub fn read(found: FoundIn) -> Self {
        let problem = |(path, why): &(PathBuf, String)| format!("{}: {why}", path.display());
        let problems = found.problems.iter().map(problem).collect();
        let mut machine = Self { problems, ..Self::default() };
        for file in found.files {
            if let Err(why) = machine.add(&file) {
                machine.problems.push(format!("the status of process {}: {why}", file.pid));
            }
        }
        machine
    }

    fn add(&mut self, found: &Found) -> Result<(), String> {
        let file: File = serde_json::from_str(&found.text).map_err(|error| error.to_string())?;
        if file.schema != SCHEMA {
            return Err(format!("it is of version {}, and this command knows {SCHEMA}", file.schema));
        }
        let process = Process {
            key: found.name.clone(),
            pid: found.pid,
            program: file.name,
            user_id: found.user,
            at_ns: file.at_ns,
            late: found.is_late(file.interval_ms),
        };
        let mut bad = None;
        for part in file.parts {
            let process = process.clone();
            match serde_json::from_value(part) {
                Ok(Part::Store(status)) => self.stores.push(Of { process, status: *status }),
                Ok(Part::Split(status)) => self.splits.push(Of { process, status }),
                Ok(Part::Tier(status)) => self.tiers.push(Of { process, status: *status }),
                Ok(Part::Prefetch(status)) => self.prefetches.push(Of { process, status }),
                Ok(Part::Unknown) => {}
                Err(error) => bad = Some(error.to_string()),
            }
        }
        bad.map_or(Ok(()), Err)
    }

    /// The split of a store's process.
    pub fn split_of(&self, store: &Process) -> Option<&SplitStatus> {
        self.splits.iter().find(|split| split.process.key == store.key).map(|split| &split.status)
    }
}
