//! The disk of the directory that would hold regions, and `/tmp`.

use std::io;
use std::path::Path;
use std::time::Duration;

use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::disk::{self, Directory, Speed};

use super::finding::{Finding, State};
use crate::args::DoctorArgs;
use warmset_platform::units::bytes;

/// How long the disk is written, and then read.
const MEASURE: Duration = Duration::from_secs(1);
/// Below this, a region that does not fit is barely faster than computing its data again.
const READ_BYTES_PER_S_MIN: f64 = 200e6;
/// Below this much free space a warning is due.
const FREE_BYTES_MIN: u64 = 1 << 30;

/// Judges the directory that was asked for, its disk's speed, and `/tmp`.
pub fn findings(root: &Root, args: &DoctorArgs) -> io::Result<Vec<Finding>> {
    let named =
        |error: io::Error| io::Error::new(error.kind(), format!("--dir {}: {error}", args.dir.display()));
    let directory = disk::describe(root, &args.dir).map_err(named)?;
    let mut findings = vec![place(&directory), free(&directory), direct(&directory), unnamed(&directory)];
    findings.push(speed(&directory, args.no_measure));
    findings.push(read_ahead(&directory));
    findings.push(tmp(disk::describe(root, Path::new("/tmp"))));
    Ok(findings)
}

fn place(directory: &Directory) -> Finding {
    let fs_type = directory.fs_type.as_deref().unwrap_or("unknown");
    let value = format!("{} on {fs_type}", directory.path.display());
    let (state, follows) = match (&directory.writable, fs_type) {
        (Err(error), _) => (State::Bad, format!("no region can be kept there: {error}")),
        (Ok(()), "tmpfs" | "ramfs") => (
            State::Bad,
            "demoted segments would stay in memory, and count against a container's limit".to_owned(),
        ),
        (Ok(()), "nfs" | "nfs4" | "cifs" | "fuse" | "9p") => {
            (State::Warn, "a network file system: name a local disk".to_owned())
        }
        (Ok(()), _) => (State::Ok, "regions that outgrow the budget go here".to_owned()),
    };
    Finding::new("dir", state, value, follows).with(directory)
}

fn free(directory: &Directory) -> Finding {
    let (state, follows) = if directory.free_bytes < FREE_BYTES_MIN {
        (State::Warn, "the cache cannot outgrow the budget by more than this; name a larger disk")
    } else {
        (State::Ok, "how far the cache can outgrow the budget")
    };
    Finding::new("dir_free", state, bytes(directory.free_bytes), follows).with(directory.free_bytes)
}

fn direct(directory: &Directory) -> Finding {
    if directory.direct {
        Finding::new("o_direct", State::Ok, "works", "segments go round the page cache").with(true)
    } else {
        let follows =
            "segments go through the page cache: they use memory twice, and a container's limit counts it";
        Finding::new("o_direct", State::Warn, "refused", follows).with(false)
    }
}

fn unnamed(directory: &Directory) -> Finding {
    if directory.unnamed_files {
        Finding::new("o_tmpfile", State::Ok, "works", "a killed process leaves no file behind").with(true)
    } else {
        let follows =
            "region files get a name that is removed at once; a kill in between leaves an empty file";
        Finding::new("o_tmpfile", State::Warn, "refused", follows).with(false)
    }
}

fn speed(directory: &Directory, skipped: bool) -> Finding {
    if skipped {
        return Finding::new("disk_speed", State::Ok, "not measured", "--no-measure was given");
    }
    if !directory.direct || directory.writable.is_err() {
        return Finding::new(
            "disk_speed",
            State::Warn,
            "not measured",
            "needs a writable directory with O_DIRECT",
        );
    }
    match disk::measure(&directory.path, MEASURE) {
        Ok(speed) => judge_speed(&speed),
        Err(error) => Finding::new("disk_speed", State::Warn, "not measured", error.to_string()),
    }
}

fn judge_speed(speed: &Speed) -> Finding {
    let rate = |bytes_per_s: f64| format!("{:.2} GB/s", bytes_per_s / 1e9);
    let value = format!("read {}, write {}", rate(speed.read_bytes_per_s), rate(speed.write_bytes_per_s));
    let per_gib = (1u64 << 30) as f64 / speed.read_bytes_per_s.max(1.0);
    let (state, follows) = if speed.read_bytes_per_s < READ_BYTES_PER_S_MIN {
        (State::Warn, format!("slow: each absent GiB of a scan costs {per_gib:.1} s"))
    } else {
        (State::Ok, format!("each absent GiB of a scan costs {per_gib:.2} s"))
    };
    Finding::new("disk_speed", state, value, follows).with(speed)
}

fn read_ahead(directory: &Directory) -> Finding {
    match directory.read_ahead_bytes {
        Some(size) => Finding::new(
            "read_ahead",
            State::Ok,
            bytes(size),
            "used by mapped files alone; segments read ahead themselves",
        )
        .with(size),
        None => Finding::new(
            "read_ahead",
            State::Ok,
            "no such device",
            "the file system has no block device of its own",
        ),
    }
}

fn tmp(tmp: io::Result<Directory>) -> Finding {
    let (state, value, follows) = match tmp {
        Ok(tmp) if tmp.writable.is_err() => {
            (State::Warn, "not writable", "Spark needs spark.local.dir elsewhere, and so do region files")
        }
        Ok(tmp) if tmp.noexec => (
            State::Ok,
            "noexec",
            "the native library is unpacked to Spark's local directory: that must allow exec",
        ),
        Ok(_) => (State::Ok, "writable", "the default place of Spark's local directory"),
        Err(_) => (State::Warn, "missing", "set spark.local.dir"),
    };
    Finding::new("tmp", state, value, follows)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    fn directory() -> Directory {
        Directory {
            path: PathBuf::from("/data"),
            fs_type: Some("ext4".to_owned()),
            noexec: false,
            free_bytes: 10 << 30,
            writable: Ok(()),
            unnamed_files: true,
            direct: true,
            read_ahead_bytes: Some(128 << 10),
            rotational: Some(false),
        }
    }

    #[test]
    fn memory_file_systems_and_unwritable_directories_are_bad() {
        assert_eq!(place(&directory()).state, State::Ok);
        assert_eq!(place(&Directory { fs_type: Some("tmpfs".into()), ..directory() }).state, State::Bad);
        let refused = Directory { writable: Err("Read-only file system".into()), ..directory() };
        let finding = place(&refused);
        assert_eq!(finding.state, State::Bad);
        assert!(finding.follows.contains("Read-only"));
        assert_eq!(speed(&refused, false).value, "not measured");
    }

    #[test]
    fn what_is_missing_is_warned_of() {
        assert_eq!(direct(&Directory { direct: false, ..directory() }).state, State::Warn);
        assert_eq!(unnamed(&Directory { unnamed_files: false, ..directory() }).state, State::Warn);
        assert_eq!(free(&Directory { free_bytes: 1, ..directory() }).state, State::Warn);
        assert_eq!(tmp(Ok(Directory { noexec: true, ..directory() })).value, "noexec");
        let slow = Speed { read_bytes_per_s: 1e8, write_bytes_per_s: 1e8, file_bytes: 1 };
        assert_eq!(judge_speed(&slow).state, State::Warn);
    }
}
