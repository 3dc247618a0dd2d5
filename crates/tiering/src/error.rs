//! Why a process cannot be tiered, or can be no longer.

use std::io;

use thiserror::Error;
use warmset_platform::damon::DamonError;

/// Each says what to do; `warmset tier` maps them to exit codes.
#[derive(Debug, Error)]
pub enum Error {
    /// No process of that number.
    #[error("there is no process {0}")]
    NoProcess(u32),
    /// A thread of the kernel.
    #[error("process {pid} ({name}) is a kernel thread: it has no memory of its own")]
    KernelThread {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
    },
    /// Another user's process, without the privilege.
    #[error("process {pid} ({name}) belongs to user {user}: run as root")]
    OtherUser {
        /// Its number.
        pid: u32,
        /// Its name.
        name: String,
        /// Whose it is.
        user: u32,
    },
    /// A single tier.
    #[error("this machine has {0} NUMA node with memory: there is nothing to choose between")]
    OneNode(usize),
    /// The process may use too few of this machine's nodes.
    #[error(
        "process {pid} may use {allowed} of this machine's {all} NUMA nodes (Mems_allowed_list in /proc/{pid}/status): there is \
         nothing to choose between; widen cpuset.mems of its cgroup"
    )]
    Confined {
        /// Its number.
        pid: u32,
        /// How many it may use.
        allowed: usize,
        /// How many have memory.
        all: usize,
    },
    /// Too few nodes are left.
    #[error("NUMA nodes went offline or were taken from the process: {0} with memory is left")]
    NodesGone(usize),
    /// The tracker cannot start.
    #[error(transparent)]
    Damon(#[from] DamonError),
    /// The processor samples no loads, or we may not see them.
    #[error("cannot sample loads: {0}; use --tracker damon")]
    NoLoads(io::Error),
    /// The policy compares how many accesses there are, which nobody counts.
    #[error(
        "policy warm compares how many accesses there are before and after a step, and {tracker} does not count them: use \
         --policy equal, or --tracker loads where the processor samples loads"
    )]
    NotCounted {
        /// The tracker.
        tracker: &'static str,
    },
    /// The latencies of sampled loads, from a tracker that samples none.
    #[error("--latency loads takes the latencies that --tracker loads measures: use both")]
    LatencyOfLoads,
    /// The tracker stopped.
    #[error("{tracker} stopped: {source}")]
    TrackerStopped {
        /// Which tracker.
        tracker: &'static str,
        /// What it said.
        source: io::Error,
    },
    /// Pages may not be moved.
    #[error("cannot move pages of process {pid}: {source}; it needs root or CAP_SYS_NICE")]
    MayNotMove {
        /// Whose pages.
        pid: u32,
        /// The kernel's error.
        source: io::Error,
    },
    /// No way to measure latencies.
    #[error("{0}")]
    NoLatency(String),
    /// A script cannot be read.
    #[error("{path}: {reason}")]
    Script {
        /// The file.
        path: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No such policy.
    #[error("there is no policy {0}; known are {known}", known = warmset_placement::tier::POLICIES.join(", "))]
    NoPolicy(String),
    /// A policy that cannot place pages in this many tiers.
    #[error("policy {name} knows two tiers, and this machine has {tiers}: use --policy equal")]
    TooManyTiers {
        /// The policy.
        name: String,
        /// How many tiers there are.
        tiers: usize,
    },
}
