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
    /// What of it the kernel cannot take back by dropping clean pages or writing dirty ones to their files.
    pub held_bytes: Option<u64>,
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
    memory_groups(&memberships, &mounts)
        .iter()
        .flat_map(|(version, dir)| limits_of(root, *version, dir))
        .collect()
}

/// The limit that binds first.
pub fn tightest(limits: &[MemoryLimit]) -> Option<&MemoryLimit> {
    limits.iter().min_by_key(|limit| limit.limit_bytes)
}

/// How much less than [`tightest`]'s limit a process that holds `own_bytes` can have, because others in a limited group
/// hold memory, or the kernel does for them; 0 where there is no limit or a group's use cannot be read.
pub fn beside_bytes(limits: &[MemoryLimit], own_bytes: u64) -> u64 {
    let room = |limit: &MemoryLimit| {
        let others_bytes = limit.held_bytes.unwrap_or(0).saturating_sub(own_bytes);
        limit.limit_bytes.saturating_sub(others_bytes)
    };
    let least = limits.iter().map(room).min();
    tightest(limits).zip(least).map_or(0, |(tightest, least)| tightest.limit_bytes.saturating_sub(least))
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
pub fn memory_groups(memberships: &[Membership], mounts: &[Mount]) -> Vec<(Version, PathBuf)> {
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
    let stat_file = dir.join("memory.stat");
    let stat = root.text(&stat_file).unwrap_or_default();
    let held_bytes = used_bytes.map(|bytes: u64| bytes.saturating_sub(file_pages_bytes(version, &stat)));
    let limit =
        |file: PathBuf, limit_bytes| MemoryLimit { version, file, limit_bytes, used_bytes, held_bytes };
    let mut limits: Vec<MemoryLimit> = files
        .iter()
        .filter_map(|name| {
            let file = dir.join(name);
            let limit_bytes = parse_limit(&root.text(&file)?)?;
            Some(limit(file, limit_bytes))
        })
        .collect();
    if version == Version::V1
        && let Some(bytes) = hierarchical_limit(&stat)
    {
        limits.push(limit(stat_file, bytes));
    }
    limits
}

/// Pages on the lists of file pages, of the group and all below it: shared memory is not on them.
fn file_pages_bytes(version: Version, stat: &str) -> u64 {
    let names = match version {
        Version::V1 => ["total_active_file", "total_inactive_file"],
        Version::V2 => ["active_file", "inactive_file"],
    };
    let field = |name| stat_field(stat, name).and_then(|value| value.parse::<u64>().ok()).unwrap_or(0);
    names.map(field).into_iter().fold(0, u64::saturating_add)
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
