//! The options of `warmset tier`.

use std::ffi::OsString;
use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// What `warmset tier` is told.
#[derive(Debug, ClapArgs)]
pub struct TierArgs {
    /// The process to manage
    #[arg(long, value_name = "N", conflicts_with = "command", required_unless_present = "command")]
    pub pid: Option<u32>,
    /// How pages are chosen: equal (latencies), warm (needs counted accesses), or for two nodes hemem, tpp, memtis, each with +colloid
    #[arg(long, value_name = "NAME", default_value = "equal")]
    pub policy: String,
    /// Say what would move, and move nothing; one node is enough
    #[arg(long)]
    pub dry_run: bool,
    /// Stop after one decision
    #[arg(long)]
    pub once: bool,
    /// The most that is moved, in MB per second, both ways together
    #[arg(long, value_name = "MB/s", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..))]
    pub limit: u64,
    /// Milliseconds between two decisions, 100 at least
    #[arg(long, value_name = "MS", default_value_t = 400, value_parser = clap::value_parser!(u64).range(100..=600_000))]
    pub interval: u64,
    /// Where accesses are seen
    #[arg(long, value_enum, default_value_t = TrackerKind::Damon)]
    pub tracker: TrackerKind,
    /// How latencies are measured
    #[arg(long, value_enum, default_value_t = LatencyKind::Auto)]
    pub latency: LatencyKind,
    /// The file of scripted latencies; it is read again at each decision
    #[arg(long, value_name = "FILE", required_if_eq("latency", "scripted"))]
    pub script: Option<PathBuf>,
    /// The file of scripted accesses
    #[arg(long, value_name = "FILE", required_if_eq("tracker", "scripted"))]
    pub accesses: Option<PathBuf>,
    /// Write one JSON record per decision to stdout (schema 1)
    #[arg(long)]
    pub json: bool,
    /// Write the counters in Prometheus' text form to this file, again after each decision
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// A program to start and manage, and its arguments
    #[arg(last = true, value_name = "CMD")]
    pub command: Vec<OsString>,
}

/// Where accesses are seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum TrackerKind {
    /// DAMON, a kernel thread that samples page tables
    Damon,
    /// Loads that the processor samples with their addresses (Intel mem-loads, AMD IBS)
    Loads,
    /// A file of address ranges
    Scripted,
}

/// How latencies are measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum LatencyKind {
    /// Counters where this processor has them and they tell the nodes apart, else the probe; it says which
    Auto,
    /// The memory controllers' counters
    Counters,
    /// Pointers that the daemon follows through memory of each node
    Probe,
    /// The mean of the loads that --tracker loads samples
    Loads,
    /// A file
    Scripted,
}
