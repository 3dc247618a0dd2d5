//! DAMON through sysfs: which address ranges of a process are accessed, sampled by a kernel thread.
//!
//! Invariant: at most one kernel thread is ours, `kdamonds/0`; it is off when [`Damon`] is dropped. Another program's
//! DAMON that is on is left alone. After a crash [`turn_off`] does what the drop could not.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::thread;
use std::time::{Duration, Instant};

use thiserror::Error;

use crate::sysinfo::Root;

const KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds";
/// A command takes two aggregations at most; this is more.
const BUSY_MAX: Duration = Duration::from_secs(5);
const BUSY_STEP: Duration = Duration::from_millis(10);

/// Why DAMON cannot be used.
#[derive(Debug, Error)]
pub enum DamonError {
    /// The kernel was built without it, or has it without sysfs.
    #[error("this kernel has no DAMON in {path}: it needs CONFIG_DAMON_SYSFS (Linux 6.2 or newer)")]
    Absent {
        /// The directory that is missing.
        path: PathBuf,
    },
    /// It only watches physical addresses.
    #[error("this kernel's DAMON cannot watch a process: it lacks CONFIG_DAMON_VADDR")]
    NoAddresses,
    /// Somebody else uses it.
    #[error("DAMON is on already, in {path}: stop the program that uses it, or write `off` to that file")]
    Busy {
        /// The state file that says so.
        path: PathBuf,
    },
    /// Only root may.
    #[error("{path}: permission denied; DAMON needs root")]
    Denied {
        /// The file that may not be written.
        path: PathBuf,
    },
    /// Anything else.
    #[error("{path}: {source}")]
    Io {
        /// The file that was used.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
}

impl DamonError {
    fn of(path: &Path, source: io::Error) -> Self {
        let path = path.to_path_buf();
        match source.kind() {
            io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => Self::Denied { path },
            io::ErrorKind::ResourceBusy => Self::Busy { path },
            _ => Self::Io { path, source },
        }
    }
}

/// How closely DAMON looks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamonSettings {
    /// One page of each region is looked at this often.
    pub sample_us: u64,
    /// Accesses are counted over this time.
    pub aggregation_us: u64,
    /// The fewest regions.
    pub regions_min: u64,
    /// The most regions: bounds the kernel thread's work.
    pub regions_max: u64,
}

/// A range of addresses that was accessed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DamonRegion {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
    /// In how many samples of the last aggregation it was accessed.
    pub access_count: u64,
}

/// A running DAMON for one process.
#[derive(Debug)]
pub struct Damon {
    directory: PathBuf,
}

impl Damon {
    /// Starts watching a process.
    ///
    /// # Errors
    /// What is missing: the kernel's support, the permission, or nobody else's use of it.
    pub fn start(root: &Root, pid: u32, settings: &DamonSettings) -> Result<Self, DamonError> {
        let kdamonds = root.join(KDAMONDS);
        let count = kdamonds.join("nr_kdamonds");
        let used = fs::read_to_string(&count).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => DamonError::Absent { path: kdamonds.clone() },
            _ => DamonError::of(&count, error),
        })?;
        for at in 0..used.trim().parse::<u64>().unwrap_or(0) {
            let path = kdamonds.join(at.to_string()).join("state");
            if fs::read_to_string(&path).map_or_else(
                |error| error.kind() == io::ErrorKind::ResourceBusy,
                |state| state.trim() == "on",
            ) {
                return Err(DamonError::Busy { path });
            }
        }
        put(&count, "1")?;
        let damon = Self { directory: kdamonds.join("0") };
        damon.configure(pid, settings)?;
        put(&damon.directory.join("state"), "on")?;
        Ok(damon)
    }

    fn configure(&self, pid: u32, settings: &DamonSettings) -> Result<(), DamonError> {
        put(&self.directory.join("contexts/nr_contexts"), "1")?;
        let context = self.context();
        let offered = fs::read_to_string(context.join("avail_operations")).unwrap_or_default();
        if !offered.split_whitespace().any(|name| name == "vaddr") {
            return Err(DamonError::NoAddresses);
        }
        put(&context.join("operations"), "vaddr")?;
        self.attributes(settings)?;
        put(&context.join("targets/nr_targets"), "1")?;
        put(&context.join("targets/0/pid_target"), &pid.to_string())?;
        put(&context.join("schemes/nr_schemes"), "1")?;
        let scheme = context.join("schemes/0");
        put(&scheme.join("action"), "stat")?;
        // Only what was accessed is reported, so that an idle process costs nothing to read.
        for (range, min) in [("sz", "0"), ("nr_accesses", "1"), ("age", "0")] {
            put(&scheme.join("access_pattern").join(range).join("min"), min)?;
            put(&scheme.join("access_pattern").join(range).join("max"), &u32::MAX.to_string())?;
        }
        Ok(())
    }

    fn context(&self) -> PathBuf {
        self.directory.join("contexts/0")
    }

    fn attributes(&self, settings: &DamonSettings) -> Result<(), DamonError> {
        let attributes = self.context().join("monitoring_attrs");
        // The maxima first: the kernel refuses a minimum above the maximum that stands.
        let attribute = |name: &str, value: u64| put(&attributes.join(name), &value.to_string());
        attribute("intervals/aggr_us", settings.aggregation_us)?;
        attribute("intervals/sample_us", settings.sample_us)?;
        attribute("intervals/update_us", settings.aggregation_us.saturating_mul(10))?;
        attribute("nr_regions/max", settings.regions_max)?;
        attribute("nr_regions/min", settings.regions_min)
    }

    /// Looks more or less closely from now on.
    ///
    /// # Errors
    /// The kernel's.
    pub fn change(&self, settings: &DamonSettings) -> Result<(), DamonError> {
        self.attributes(settings)?;
        put(&self.directory.join("state"), "commit")
    }

    /// What was accessed during an aggregation; waits for its end.
    ///
    /// # Errors
    /// `InvalidInput` once the kernel thread has stopped, as after the end of the process.
    pub fn regions(&self) -> io::Result<Vec<DamonRegion>> {
        patiently(|| fs::write(self.directory.join("state"), "update_schemes_tried_regions"))?;
        let tried = self.directory.join("contexts/0/schemes/0/tried_regions");
        let mut regions = Vec::new();
        for entry in fs::read_dir(&tried)?.flatten() {
            if entry.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
                let directory = entry.path();
                let number =
                    |name: &str| fs::read_to_string(directory.join(name)).ok()?.trim().parse::<u64>().ok();
                if let (Some(start), Some(end), Some(access_count)) =
                    (number("start"), number("end"), number("nr_accesses"))
                {
                    regions.push(DamonRegion { start, end, access_count });
                }
            }
        }
        regions.sort_by_key(|region| region.start);
        Ok(regions)
    }

    /// The kernel thread's process number.
    #[must_use]
    pub fn thread(&self) -> Option<u32> {
        patiently(|| fs::read_to_string(self.directory.join("pid"))).ok()?.trim().parse().ok()
    }
}

impl Drop for Damon {
    fn drop(&mut self) {
        off(&self.directory);
    }
}

/// Turns `kdamonds/0` off and removes its configuration.
pub fn turn_off(root: &Root) {
    off(&root.join(KDAMONDS).join("0"));
}

fn off(directory: &Path) {
    let _ = patiently(|| fs::write(directory.join("state"), "off"));
    if let Some(kdamonds) = directory.parent() {
        let _ = patiently(|| fs::write(kdamonds.join("nr_kdamonds"), "0"));
    }
}

fn put(path: &Path, value: &str) -> Result<(), DamonError> {
    patiently(|| fs::write(path, value)).map_err(|source| DamonError::of(path, source))
}

/// Repeats what the kernel refuses while it carries out another command, such as one of a process that was killed.
fn patiently<T>(mut call: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let begin = Instant::now();
    loop {
        match call() {
            Err(error) if error.kind() == io::ErrorKind::ResourceBusy && begin.elapsed() < BUSY_MAX => {
                thread::sleep(BUSY_STEP)
            }
            other => return other,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn files(files: &[(&str, &str)]) -> (tempfile::TempDir, Root) {
        let directory = tempfile::tempdir().unwrap();
        let kdamonds = directory.path().join(KDAMONDS.trim_start_matches('/'));
        for (name, text) in files {
            let path = kdamonds.join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::at(directory.path());
        (directory, root)
    }

    const SETTINGS: DamonSettings =
        DamonSettings { sample_us: 5000, aggregation_us: 100_000, regions_min: 10, regions_max: 100 };

    #[test]
    fn a_kernel_without_damon_is_named() {
        let (_kept, root) = files(&[]);
        assert!(matches!(Damon::start(&root, 1, &SETTINGS), Err(DamonError::Absent { .. })));
    }

    #[test]
    fn somebody_elses_damon_stays_on() {
        let (_kept, root) = files(&[("nr_kdamonds", "2\n"), ("0/state", "off\n"), ("1/state", "on\n")]);
        let error = Damon::start(&root, 1, &SETTINGS).unwrap_err();
        assert!(matches!(error, DamonError::Busy { .. }), "{error}");
        assert_eq!(fs::read_to_string(root.join(KDAMONDS).join("1/state")).unwrap(), "on\n");
        assert_eq!(fs::read_to_string(root.join(KDAMONDS).join("nr_kdamonds")).unwrap(), "2\n");
    }

    #[test]
    fn a_kernel_that_watches_physical_addresses_only_is_named() {
        let (_kept, root) = files(&[
            ("nr_kdamonds", "0\n"),
            ("0/state", "off\n"),
            ("0/contexts/nr_contexts", "0"),
            ("0/contexts/0/avail_operations", "paddr\n"),
        ]);
        assert!(matches!(Damon::start(&root, 1, &SETTINGS), Err(DamonError::NoAddresses)));
    }

    #[test]
    fn a_malformed_region_is_left_out() {
        let (_kept, root) = files(&[
            ("0/state", "on\n"),
            ("0/contexts/0/schemes/0/tried_regions/total_bytes", "1"),
            ("0/contexts/0/schemes/0/tried_regions/3/start", "8192\n"),
            ("0/contexts/0/schemes/0/tried_regions/3/end", "12288\n"),
            ("0/contexts/0/schemes/0/tried_regions/3/nr_accesses", "7\n"),
            ("0/contexts/0/schemes/0/tried_regions/1/start", "x\n"),
        ]);
        let damon = Damon { directory: root.join(KDAMONDS).join("0") };
        let expected = DamonRegion { start: 8192, end: 12288, access_count: 7 };
        assert_eq!(damon.regions().unwrap(), [expected]);
        drop(damon);
        assert_eq!(fs::read_to_string(root.join(KDAMONDS).join("0/state")).unwrap(), "off");
    }
}
