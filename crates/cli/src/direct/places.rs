//! The directories: made, shown and removed.
//!
//! Invariant: a directory that this command did not make is never used or removed. Root's are tmpfs mounts below
//! [`MOUNTS`]; another user's is a directory in `/dev/shm` with the user's number in its name, and must belong to that
//! user.

use std::fs::{self, DirBuilder};
use std::io::{self, Write};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use serde::Serialize;
use serde_json::json;
use warmset_platform::sysinfo::numa::{self, Node};
use warmset_platform::sysinfo::{Root, memory, mounts};
use warmset_platform::tmpfs;

use super::args::SetupArgs;
use super::users;
use warmset_platform::units;

const MOUNTS: &str = "/mnt/warmset/direct";
const SHARED_MEMORY: &str = "/dev/shm";
/// Part of a node's memory that its directory may hold by default, as tmpfs has it.
const DEFAULT_SHARE: u64 = 2;
const BLOCK_BYTES: u64 = 512;
/// How many processes a refusal names.
const NAMED_MAX: usize = 8;

/// One directory.
#[derive(Debug, Clone, Serialize)]
pub struct Place {
    /// Where it is.
    pub path: PathBuf,
    /// The node that all its memory is on; `None` if each file's is where it was first written.
    pub node: Option<u32>,
    /// The most that it can hold.
    pub size_bytes: u64,
    /// What its files hold.
    pub used_bytes: u64,
    /// How many files it has.
    pub files: u64,
    /// When its files are on huge pages: the mount option `huge`.
    pub huge: String,
    #[serde(skip)]
    is_mount: bool,
}

/// All directories that this user can use: root's, then the user's own.
pub fn all() -> Vec<Place> {
    let mounts = mounts::read(&Root::live());
    let mut places: Vec<Place> = mounts
        .iter()
        .filter(|mount| mount.fs_type == "tmpfs")
        .filter_map(|mount| {
            let name = mount.point.strip_prefix(MOUNTS).ok()?.to_str()?;
            let _: u32 = name.strip_prefix("node")?.parse().ok()?;
            let space = tmpfs::space(&mount.point).ok()?;
            Some(Place {
                path: mount.point.clone(),
                node: option(mount, "mpol=bind").and_then(|node| node.parse().ok()),
                size_bytes: space.size_bytes,
                used_bytes: space.used_bytes,
                files: held(&mount.point).files,
                huge: option(mount, "huge").unwrap_or_else(|| "never".into()),
                is_mount: true,
            })
        })
        .collect();
    places.sort_by(|one, two| one.path.cmp(&two.path));
    places.dedup_by(|one, two| one.path == two.path);
    let own = own_directory();
    if let (Ok(()), Ok(space)) = (check_own(&own), tmpfs::space(&own)) {
        let held = held(&own);
        let huge = mounts::holding(&mounts, &own).and_then(|mount| option(mount, "huge"));
        places.push(Place {
            node: None,
            size_bytes: held.bytes + space.size_bytes.saturating_sub(space.used_bytes),
            used_bytes: held.bytes,
            files: held.files,
            huge: huge.unwrap_or_else(|| "never".into()),
            path: own,
            is_mount: false,
        });
    }
    places
}

/// The value of a mount option. A policy is written `mpol=bind:0`, with a colon, all others with `=`.
fn option(mount: &mounts::Mount, name: &str) -> Option<String> {
    let mut options = mount.super_options.iter();
    options
        .find_map(|option| option.strip_prefix(name)?.strip_prefix(['=', ':']))
        .map(|value| value.trim_start_matches("static:").to_owned())
}

struct Held {
    bytes: u64,
    files: u64,
}

/// What is below a directory. What disappears meanwhile is not counted.
fn held(directory: &Path) -> Held {
    let mut held = Held { bytes: 0, files: 0 };
    let mut waiting = vec![directory.to_owned()];
    while let Some(next) = waiting.pop() {
        for entry in fs::read_dir(next).into_iter().flatten().flatten() {
            let Ok(metadata) = entry.metadata() else { continue };
            if metadata.is_dir() {
                waiting.push(entry.path());
            } else {
                held.files += 1;
                held.bytes += metadata.blocks() * BLOCK_BYTES;
            }
        }
    }
    held
}

fn own_directory() -> PathBuf {
    Path::new(SHARED_MEMORY).join(format!("warmset-{}", tmpfs::user_id()))
}

/// Anybody can make a directory of this name in `/dev/shm`: it must be this user's, and no link.
fn check_own(path: &Path) -> io::Result<()> {
    let metadata = fs::symlink_metadata(path)?;
    if metadata.is_dir() && metadata.uid() == tmpfs::user_id() && metadata.mode() & 0o077 == 0 {
        return Ok(());
    }
    let owner = metadata.uid();
    Err(io::Error::other(format!(
        "{} is not a private directory of yours (it belongs to user {owner}): remove it or have it removed",
        path.display()
    )))
}

// ---- Setup

/// Makes the directories.
pub fn setup(wanted: &SetupArgs) -> io::Result<ExitCode> {
    if tmpfs::user_id() == 0 {
        mount_all(wanted)?;
    } else {
        make_own(wanted)?;
    }
    show(&all(), wanted.json)?;
    Ok(ExitCode::SUCCESS)
}

fn mount_all(wanted: &SetupArgs) -> io::Result<()> {
    if let Some(place) = all().iter().find(|place| place.is_mount) {
        let path = place.path.display();
        return Err(io::Error::other(format!(
            "{path} is there already: remove it with `warmset direct teardown`, with all files in it"
        )));
    }
    let root = Root::live();
    let mut nodes = numa::nodes(&root);
    nodes.retain(|node| node.total_bytes > 0);
    let known = !nodes.is_empty();
    if !known {
        let total_bytes = memory::read(&root).total_bytes.unwrap_or(0);
        nodes.push(Node { id: 0, total_bytes, free_bytes: 0, cpus: 0, distances: Vec::new() });
    }
    for node in &nodes {
        let (size, total) = (wanted.size.unwrap_or(0), node.total_bytes);
        if size > total {
            return Err(io::Error::other(format!(
                "node {} has {} of memory, less than --size {}",
                node.id,
                units::bytes(total),
                units::bytes(size)
            )));
        }
    }
    let mut mounted: Vec<PathBuf> = Vec::new();
    for node in &nodes {
        let point = Path::new(MOUNTS).join(format!("node{}", node.id));
        if let Err(error) = mount_one(node, &point, known, wanted) {
            for point in mounted {
                let _ = tmpfs::unmount(&point).and_then(|()| fs::remove_dir(&point));
            }
            return Err(error);
        }
        mounted.push(point);
    }
    Ok(())
}

fn mount_one(node: &Node, point: &Path, bind: bool, wanted: &SetupArgs) -> io::Result<()> {
    let named = |error: io::Error, what: &str| {
        io::Error::new(error.kind(), format!("{}: {what}: {error}", point.display()))
    };
    DirBuilder::new()
        .recursive(true)
        .mode(0o755)
        .create(point)
        .map_err(|error| named(error, "cannot be made"))?;
    if fs::read_dir(point)?.next().is_some() {
        return Err(io::Error::other(format!("{} has files in it: move them away", point.display())));
    }
    // The size and the mode before the rest: a kernel without huge pages or nodes refuses only that.
    let mut options = format!("size={},mode=1777", wanted.size.unwrap_or(node.total_bytes / DEFAULT_SHARE));
    if bind {
        options += &format!(",mpol=bind:{}", node.id);
    }
    if wanted.huge {
        options += ",huge=within_size";
    }
    tmpfs::mount(point, &options).map_err(|error| {
        let hint = match error.kind() {
            io::ErrorKind::InvalidInput if wanted.huge => {
                " (a kernel without huge pages? try without --huge)"
            }
            io::ErrorKind::PermissionDenied => {
                " (a container may not mount: use /dev/shm as an ordinary user)"
            }
            _ => "",
        };
        let _ = fs::remove_dir(point);
        named(error, &format!("cannot mount a tmpfs with {options}{hint}"))
    })
}

fn make_own(wanted: &SetupArgs) -> io::Result<()> {
    let own = own_directory();
    if let Some(size) = wanted.size {
        let space = tmpfs::space(Path::new(SHARED_MEMORY))?;
        let free = space.size_bytes.saturating_sub(space.used_bytes);
        if size > free {
            return Err(io::Error::other(format!(
                "{SHARED_MEMORY} has {} left, less than --size {}",
                units::bytes(free),
                units::bytes(size)
            )));
        }
        writeln!(
            io::stderr(),
            "warmset: {SHARED_MEMORY} has one limit for all; only root can set one of its own"
        )?;
    }
    match DirBuilder::new().mode(0o700).create(&own) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => check_own(&own)?,
        Err(error) => return Err(io::Error::new(error.kind(), format!("{}: {error}", own.display()))),
        Ok(()) => {}
    }
    if wanted.huge {
        writeln!(
            io::stderr(),
            "warmset: whether {SHARED_MEMORY} has huge pages is set where it is mounted, by root"
        )?;
    }
    Ok(())
}

// ---- Status

/// Shows the directories; exit code 1 if there are none.
pub fn status(as_json: bool) -> io::Result<ExitCode> {
    let places = all();
    show(&places, as_json)?;
    if !places.is_empty() {
        return Ok(ExitCode::SUCCESS);
    }
    writeln!(io::stderr(), "warmset: there are no directories yet: make them with `warmset direct setup`")?;
    Ok(ExitCode::from(1))
}

fn show(places: &[Place], as_json: bool) -> io::Result<()> {
    let mut out = io::stdout().lock();
    if as_json {
        let text = serde_json::to_string_pretty(&json!({ "schema": 1, "directories": places }))?;
        return writeln!(out, "{text}");
    }
    for place in places {
        let node = place.node.map_or("any node".into(), |node| format!("node {node}"));
        let (used, size) = (units::bytes(place.used_bytes), units::bytes(place.size_bytes));
        let (path, files, huge) = (place.path.display(), place.files, &place.huge);
        writeln!(out, "{path}  {node}  {used} of {size} in {files} files  huge pages: {huge}")?;
    }
    Ok(())
}

// ---- Teardown

/// Removes the directories of the calling user; root's are the mounts.
pub fn teardown() -> io::Result<ExitCode> {
    let is_root = tmpfs::user_id() == 0;
    let places: Vec<Place> = all().into_iter().filter(|place| is_root || !place.is_mount).collect();
    if places.is_empty() {
        writeln!(io::stderr(), "warmset: there is no directory of yours to remove")?;
        return Ok(ExitCode::SUCCESS);
    }
    let paths: Vec<PathBuf> = places.iter().map(|place| place.path.clone()).collect();
    let users = users::of(&paths);
    if !users.is_empty() {
        let mut text = String::from("files are in use, nothing was removed; end these processes first:");
        for user in users.iter().take(NAMED_MAX) {
            text += &format!("\n  {} ({}): {}", user.pid, user.name, user.file.display());
        }
        if users.len() > NAMED_MAX {
            text += &format!("\n  and {} more", users.len() - NAMED_MAX);
        }
        return Err(io::Error::other(text));
    }
    for place in &places {
        let path = &place.path;
        let removed = if place.is_mount {
            tmpfs::unmount(path).and_then(|()| fs::remove_dir(path))
        } else {
            fs::remove_dir_all(path)
        };
        removed.map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))?;
        let (files, used) = (place.files, units::bytes(place.used_bytes));
        writeln!(io::stderr(), "warmset: removed {} with {files} files ({used})", path.display())?;
    }
    // The parents, if nothing else is in them.
    let _ = fs::remove_dir(MOUNTS).and_then(|()| Path::new(MOUNTS).parent().map_or(Ok(()), fs::remove_dir));
    Ok(ExitCode::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_a_mount_are_read_with_their_nodes() {
        let line =
            "1 0 0:50 / /mnt/warmset/direct/node1 rw - tmpfs warmset rw,size=8k,huge=within_size,mpol=bind:1";
        let mount = mounts::parse(line).remove(0);
        assert_eq!(option(&mount, "mpol=bind").as_deref(), Some("1"));
        assert_eq!(option(&mount, "huge").as_deref(), Some("within_size"));
        assert_eq!(option(&mount, "nr_inodes"), None);
    }

    #[test]
    fn files_are_counted_below_directories() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir(dir.path().join("sub")).unwrap();
        fs::write(dir.path().join("sub/file"), vec![1; 10000]).unwrap();
        std::os::unix::fs::symlink("/usr", dir.path().join("link")).unwrap();
        let held = held(dir.path());
        assert_eq!(held.files, 2, "the link is a file, what it leads to is not counted");
        assert!(held.bytes < 1 << 20);
    }

    #[test]
    fn a_directory_that_others_can_read_is_not_ours() {
        let dir = tempfile::tempdir().unwrap();
        let private = dir.path().join("private");
        DirBuilder::new().mode(0o700).create(&private).unwrap();
        assert!(check_own(&private).is_ok());
        let open = dir.path().join("open");
        DirBuilder::new().mode(0o755).create(&open).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&private, &link).unwrap();
        assert!(check_own(&open).unwrap_err().to_string().contains("private"));
        assert!(check_own(&link).is_err());
    }
}
