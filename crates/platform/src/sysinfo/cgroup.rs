//! Memory limits of the cgroups this process is in: v1, v2, and hybrid mounts with both.
//!
//! A limit binds wherever it stands on the way from the process's own group to the root, so every visible ancestor is
//! read. What a container hides of that way cannot be read from inside; v1's `hierarchical_memory_limit` still tells it.

use std::path::{Component, Path, PathBuf};

use serde::Serialize;

use super::Root;
use super::mounts::{self, Mount};

/// From here on a v1 limit means "none": the kernel writes the largest page-aligned `i64`, whatever the page size.
const V1_UNLIMITED: u64 = 1 << 62;

/// Which generation of cgroups a limit stands in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Version {
    /// One hierarchy per controller.
    V1,
    /// The unified hierarchy.
    V2,
}

/// One limit on this process's memory.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct MemoryLimit {
    /// The generation.
    pub version: Version,
    /// The file that holds the limit, as a path on the machine.
    pub file: PathBuf,
    /// The limit.
    pub limit_bytes: u64,
    /// What the group uses now, page cache included.
    pub used_bytes: Option<u64>,
}

/// One line of `/proc/self/cgroup`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Membership {
    /// The v1 controllers of the hierarchy; empty for v2.
    pub controllers: Vec<String>,
    /// The group's path within its hierarchy.
    pub path: PathBuf,
}

/// All limits that bind this process, innermost group first; empty where there are none.
pub fn memory_limits(root: &Root) -> Vec<MemoryLimit> {
    let memberships = root.text("/proc/self/cgroup").map(|text| parse(&text)).unwrap_or_default();
    let mounts = mounts::read(root);
    memory_cgroups(&memberships, &mounts)
        .iter()
        .flat_map(|(version, dir)| limits_of(root, *version, dir))
        .collect()
}

/// The limit that binds first.
pub fn tightest(limits: &[MemoryLimit]) -> Option<&MemoryLimit> {
    limits.iter().min_by_key(|limit| limit.limit_bytes)
}

/// How much less than [`tightest`]'s limit a process that holds `own_bytes` can have, because others in a limited group
/// hold memory, or the kernel does for them; a group of which that cannot be read counts as free of others.
pub fn beside_bytes(root: &Root, limits: &[MemoryLimit], own_bytes: u64) -> u64 {
    let room = |limit: &MemoryLimit| {
        let others_bytes = held_bytes(root, limit).unwrap_or(0).saturating_sub(own_bytes);
        limit.limit_bytes.saturating_sub(others_bytes)
    };
    let least = limits.iter().map(room).min();
    tightest(limits).zip(least).map_or(0, |(tightest, least)| tightest.limit_bytes.saturating_sub(least))
}

/// What a group holds that the kernel does not give up by itself when memory runs short.
///
/// v1 does not tell which of the kernel's own memory it would give up (dentries, inodes): all of that counts.
fn held_bytes(root: &Root, limit: &MemoryLimit) -> Option<u64> {
    let stat = root.text(limit.file.with_file_name("memory.stat"))?;
    let names: &[&str] = match limit.version {
        Version::V1 => &["total_active_file", "total_inactive_file"],
        Version::V2 => &["active_file", "inactive_file", "slab_reclaimable"],
    };
    // Shared memory is not on the lists of file pages.
    let given_up_bytes = names
        .iter()
        .map(|name| stat_field(&stat, name)?.parse::<u64>().ok())
        .try_fold(0_u64, |sum, bytes| Some(sum.saturating_add(bytes?)))?;
    Some(limit.used_bytes?.saturating_sub(given_up_bytes))
}

/// Parses the text of `/proc/self/cgroup` (format: cgroups(7)); malformed lines are skipped.
pub fn parse(text: &str) -> Vec<Membership> {
    text.lines()
        .filter_map(|line| {
            let mut fields = line.splitn(3, ':').skip(1);
            let controllers =
                fields.next()?.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let path = fields.next()?;
            path.starts_with('/').then(|| Membership { controllers, path: PathBuf::from(path) })
        })
        .collect()
}

/// The directories that may hold a memory limit for this process, innermost first.
pub fn memory_cgroups(memberships: &[Membership], mounts: &[Mount]) -> Vec<(Version, PathBuf)> {
    let mut groups = Vec::new();
    for membership in memberships {
        let version = match membership.controllers.as_slice() {
            [] => Version::V2,
            names if names.iter().any(|name| name == "memory") => Version::V1,
            _ => continue,
        };
        if let Some(mount) = mounts.iter().rfind(|mount| is_memory_mount(mount, version)) {
            groups.extend(way_to_root(mount, &membership.path).into_iter().map(|dir| (version, dir)));
        }
    }
    groups
}

fn is_memory_mount(mount: &Mount, version: Version) -> bool {
    match version {
        Version::V1 => {
            mount.fs_type == "cgroup" && mount.super_options.iter().any(|option| option == "memory")
        }
        Version::V2 => mount.fs_type == "cgroup2",
    }
}

/// The directories from the group at `path` up to the mount point.
///
/// In a container the mount shows only a part of the hierarchy (`mount.root`), and a group outside of it is not visible:
/// then the mount point itself is the nearest group known.
fn way_to_root(mount: &Mount, path: &Path) -> Vec<PathBuf> {
    let below = path.strip_prefix(&mount.root).unwrap_or(Path::new(""));
    let plain = below.components().all(|part| matches!(part, Component::Normal(_)));
    let below = if plain { below } else { Path::new("") };
    below
        .ancestors()
        .map(|part| if part.as_os_str().is_empty() { mount.point.clone() } else { mount.point.join(part) })
        .collect()
}

fn limits_of(root: &Root, version: Version, dir: &Path) -> Vec<MemoryLimit> {
    let (files, usage): (&[&str], _) = match version {
        Version::V1 => (&["memory.limit_in_bytes"], "memory.usage_in_bytes"),
        Version::V2 => (&["memory.max", "memory.high"], "memory.current"),
    };
    let used_bytes = root.number(dir.join(usage)).and_then(|bytes| bytes.try_into().ok());
    let limit = |file: PathBuf, limit_bytes| MemoryLimit { version, file, limit_bytes, used_bytes };
    let mut limits: Vec<MemoryLimit> = files
        .iter()
        .filter_map(|name| {
            let file = dir.join(name);
            let limit_bytes = parse_limit(&root.text(&file)?)?;
            Some(limit(file, limit_bytes))
        })
        .collect();
    if version == Version::V1 {
        let file = dir.join("memory.stat");
        if let Some(bytes) = root.text(&file).and_then(|text| hierarchical_limit(&text)) {
            limits.push(limit(file, bytes));
        }
    }
    limits
}

fn stat_field<'a>(stat: &'a str, name: &str) -> Option<&'a str> {
    stat.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))
}

/// `max`, the largest values of v1 and malformed text are no limit.
fn parse_limit(text: &str) -> Option<u64> {
    text.trim().parse().ok().filter(|bytes| *bytes < V1_UNLIMITED)
}

fn hierarchical_limit(stat: &str) -> Option<u64> {
    parse_limit(stat_field(stat, "hierarchical_memory_limit")?)
}

#[cfg(test)]
#[path = "cgroup_tests.rs"]
mod tests;
