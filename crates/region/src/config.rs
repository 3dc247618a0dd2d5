//! Settings of a store, as given in JSON by the language bindings.

use std::fmt;
use std::path::PathBuf;

use serde::de::{self, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer};
use warmset_placement::HugePageChoice;
use warmset_platform::io::{FaultHook, IoChoice};
use warmset_platform::sysinfo::{MemoryBound, Root, memory_bound};
use warmset_platform::units;

use crate::FRAME_BYTES;
use crate::error::Error;
use crate::names::Names;

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
    /// Directories of the data files, over which segments are spread. Of several, those that are missing or cannot be
    /// written to are left out with a warning; one at least has to work. In JSON `dir`, one path or a list.
    #[serde(rename = "dir", deserialize_with = "one_or_more")]
    pub dirs: Vec<PathBuf>,
    /// Regions are only opened from files that are there: the directories need not be writable, and whether they are is
    /// not found out.
    #[serde(skip)]
    pub reads_only: bool,
    /// Bytes of memory for resident segments; rounded down to whole frames.
    pub budget_bytes: u64,
    /// The most that the budget may be raised to later, as far as the memory limit allows. Default:
    /// `budget_bytes`. Hugetlb pages are taken when they are mapped: with those the budget is the most.
    #[serde(default)]
    pub budget_bytes_max: Option<u64>,
    /// The most bytes on disk; none: as many as the disk has.
    #[serde(default)]
    pub flash_bytes_max: Option<u64>,
    /// Bytes of each file system that stay free for others; the store takes no disk space that would leave less.
    #[serde(default)]
    pub flash_reserve_bytes: u64,
    /// Page size of the pool.
    #[serde(default)]
    pub huge_pages: HugePages,
    /// The NUMA node that the pool's memory comes from; none: where the kernel takes it.
    #[serde(default)]
    pub node: Option<u32>,
    /// How files are read and written.
    #[serde(default)]
    pub io: Io,
    /// What errors call the settings.
    #[serde(default)]
    pub names: Names,
    /// Where the machine's files are read from; tests put a fixture tree here.
    #[serde(skip)]
    pub system: Root,
    /// Asked before each transfer; tests inject errors here.
    #[serde(skip)]
    pub faults: Option<FaultHook>,
}

impl Config {
    /// The plainest configuration.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>, budget_bytes: u64) -> Self {
        Self {
            dirs: vec![dir.into()],
            reads_only: false,
            budget_bytes,
            budget_bytes_max: None,
            flash_bytes_max: None,
            flash_reserve_bytes: 0,
            huge_pages: HugePages::default(),
            node: None,
            io: Io::default(),
            names: Names::default(),
            system: Root::live(),
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

    /// Frames of a budget of `bytes`, which may be another one than at first.
    pub(crate) fn budget_frames(&self, bytes: u64) -> Result<u64, Error> {
        let frames = whole_frames(&self.names.budget_bytes, bytes)?;
        match memory_bound(&self.system) {
            Some(MemoryBound { limit_bytes, file }) if bytes > limit_bytes => Err(Error::config(
                &self.names.budget_bytes,
                format!(
                    "{} is more than this process may use: {}, says {}; set it lower",
                    units::bytes(bytes),
                    units::bytes(limit_bytes),
                    file.display()
                ),
            )),
            _ => Ok(frames),
        }
    }

    /// Frames of address space: as many as the budget may ever need.
    pub(crate) fn pool_frames(&self) -> Result<u64, Error> {
        let budget = self.budget_frames(self.budget_bytes)?;
        let max_bytes = self.budget_bytes_max.unwrap_or(self.budget_bytes);
        let max = whole_frames(&self.names.budget_bytes_max, max_bytes)?;
        if max < budget {
            return Err(Error::config(
                &self.names.budget_bytes,
                format!(
                    "{} is more than `{}`, which is {}",
                    units::bytes(self.budget_bytes),
                    self.names.budget_bytes_max,
                    units::bytes(max_bytes)
                ),
            ));
        }
        if self.huge_pages == HugePages::Hugetlb {
            return Ok(budget);
        }
        let limit = memory_bound(&self.system).map_or(u64::MAX, |bound| bound.limit_bytes);
        Ok(max.min(limit / FRAME_BYTES as u64).max(budget))
    }
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("dirs", &self.dirs)
            .field("reads_only", &self.reads_only)
            .field("budget_bytes", &self.budget_bytes)
            .field("budget_bytes_max", &self.budget_bytes_max)
            .field("flash_bytes_max", &self.flash_bytes_max)
            .field("flash_reserve_bytes", &self.flash_reserve_bytes)
            .field("huge_pages", &self.huge_pages)
            .field("node", &self.node)
            .field("io", &self.io)
            .field("names", &self.names)
            .finish_non_exhaustive()
    }
}

fn one_or_more<'de, D: Deserializer<'de>>(input: D) -> Result<Vec<PathBuf>, D::Error> {
    struct Paths;

    impl<'de> Visitor<'de> for Paths {
        type Value = Vec<PathBuf>;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a path or a list of paths")
        }

        fn visit_str<E: de::Error>(self, path: &str) -> Result<Self::Value, E> {
            Ok(vec![path.into()])
        }

        fn visit_seq<A: SeqAccess<'de>>(self, mut paths: A) -> Result<Self::Value, A::Error> {
            std::iter::from_fn(|| paths.next_element().transpose()).collect()
        }
    }

    input.deserialize_any(Paths)
}

fn whole_frames(setting: &str, bytes: u64) -> Result<u64, Error> {
    match bytes / FRAME_BYTES as u64 {
        0 => Err(Error::config(
            setting,
            format!(
                "{} is less than one frame; set it to at least {}",
                units::bytes(bytes),
                units::bytes(FRAME_BYTES as u64)
            ),
        )),
        frames => Ok(frames),
    }
}
