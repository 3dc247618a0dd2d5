//! The options of `warmset top`.

use std::path::PathBuf;

use clap::{Args as ClapArgs, ValueEnum};

/// What `warmset top` is told.
#[derive(Debug, ClapArgs)]
pub struct TopArgs {
    /// Print two looks' difference as tables, and end
    #[arg(long)]
    pub once: bool,
    /// Write one JSON record per look to stdout (schema 1)
    #[arg(long)]
    pub json: bool,
    /// Write the counters in Prometheus' text form to this file, again after each look
    #[arg(long, value_name = "FILE")]
    pub metrics: Option<PathBuf>,
    /// Milliseconds between two looks, 1000 at least: programs publish once a second
    #[arg(long, value_name = "MS", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1000..=600_000))]
    pub interval: u64,
    /// What the rows are sorted by, the largest first
    #[arg(long, value_enum, default_value_t = SortKey::Used)]
    pub sort: SortKey,
    /// Only rows with this text in their program, process or directory
    #[arg(long, value_name = "TEXT", default_value = "", hide_default_value = true)]
    pub filter: String,
}

/// What rows are sorted by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum SortKey {
    /// Bytes of memory in use
    Used,
    /// Bytes that are cached, in memory or not
    Cached,
    /// Time that readers wait
    Wait,
    /// Bytes read from disk
    Read,
    /// Process number, the smallest first
    Pid,
}

impl SortKey {
    /// The one after it.
    pub fn next(self) -> Self {
        let all = Self::value_variants();
        let at = all.iter().position(|&key| key == self).unwrap_or_default();
        all[(at + 1) % all.len()]
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Used => "used",
            Self::Cached => "cached",
            Self::Wait => "wait",
            Self::Read => "read",
            Self::Pid => "pid",
        }
    }
}
