//! Settings of a store, as given in JSON by the language bindings.

use std::fmt;
use std::path::PathBuf;

use serde::Deserialize;
use warmset_placement::HugePageChoice;
use warmset_platform::io::{FaultHook, IoChoice};
use warmset_platform::sysinfo::memory_limit_bytes;

use crate::FRAME_BYTES;
use crate::error::Error;

/// `huge_pages`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HugePages {
    /// Where the kernel gives them.
    #[default]
    Auto,
    /// Or an error.
    On,
    /// Base pages.
    Off,
    /// From `vm.nr_hugepages`, or an error.
    Hugetlb,
}

impl From<HugePages> for HugePageChoice {
    fn from(pages: HugePages) -> Self {
        match pages {
            HugePages::Auto => Self::Auto,
            HugePages::On => Self::On,
            HugePages::Off => Self::Off,
            HugePages::Hugetlb => Self::Hugetlb,
        }
    }
}

/// `io`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Io {
    /// io_uring where the kernel allows it, else threads.
    #[default]
    Auto,
    /// Or an error.
    IoUring,
    /// A small pool of threads.
    Threads,
}

impl From<Io> for IoChoice {
    fn from(io: Io) -> Self {
        match io {
            Io::Auto => Self::Auto,
            Io::IoUring => Self::IoUring,
            Io::Threads => Self::Threads,
        }
    }
}

/// Settings of a store.
#[derive(Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Directory of the data files; must exist and be writable.
    pub dir: PathBuf,
    /// Bytes of memory for resident segments; rounded down to whole frames.
    pub budget_bytes: u64,
    /// The most that the budget may be raised to later. Default: `budget_bytes`.
    #[serde(default)]
    pub budget_bytes_max: Option<u64>,
    /// The most bytes on disk; none: as many as the disk has.
    #[serde(default)]
    pub flash_bytes_max: Option<u64>,
    /// Page size of the pool.
    #[serde(default)]
    pub huge_pages: HugePages,
    /// How files are read and written.
    #[serde(default)]
    pub io: Io,
    /// Asked before each transfer; tests inject errors here.
    #[serde(skip)]
    pub faults: Option<FaultHook>,
}

impl Config {
    /// The plainest configuration.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, budget_bytes: u64) -> Self {
        Self {
            dir: dir.into(),
            budget_bytes,
            budget_bytes_max: None,
            flash_bytes_max: None,
            huge_pages: HugePages::default(),
            io: Io::default(),
            faults: None,
        }
    }

    /// Reads a configuration.
    ///
    /// # Errors
    /// [`Error::Config`] naming the offending key.
    pub fn from_json(json: &str) -> Result<Self, Error> {
        let mut reader = serde_json::Deserializer::from_str(json);
        serde_path_to_error::deserialize(&mut reader).map_err(|error| {
            let path = error.path().to_string();
            // Outside any key the path is `.` or `?`.
            let setting = if matches!(path.as_str(), "." | "?") { "configuration" } else { &path };
            Error::config(setting, error.inner().to_string())
        })
    }

    pub(crate) fn budget_frames(&self) -> Result<u64, Error> {
        whole_frames("budget_bytes", self.budget_bytes)
    }

    pub(crate) fn budget_frames_max(&self) -> Result<u64, Error> {
        let max_bytes = self.budget_bytes_max.unwrap_or(self.budget_bytes);
        let max = whole_frames("budget_bytes_max", max_bytes)?;
        if max < self.budget_frames()? {
            return Err(Error::config(
                "budget_bytes",
                format!("{} is more than `budget_bytes_max`, which is {max_bytes}", self.budget_bytes),
            ));
        }
        match memory_limit_bytes() {
            Some(limit) if max_bytes > limit => Err(Error::config(
                if self.budget_bytes > limit { "budget_bytes" } else { "budget_bytes_max" },
                format!("{max_bytes} bytes is more than this process may use, {limit} bytes; set it lower"),
            )),
            _ => Ok(max),
        }
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("dir", &self.dir)
            .field("budget_bytes", &self.budget_bytes)
            .field("budget_bytes_max", &self.budget_bytes_max)
            .field("flash_bytes_max", &self.flash_bytes_max)
            .field("huge_pages", &self.huge_pages)
            .field("io", &self.io)
            .finish_non_exhaustive()
    }
}

fn whole_frames(setting: &str, bytes: u64) -> Result<u64, Error> {
    match bytes / FRAME_BYTES as u64 {
        0 => Err(Error::config(
            setting,
            format!("{bytes} bytes is less than one frame; set it to at least {FRAME_BYTES}"),
        )),
        frames => Ok(frames),
    }
}
