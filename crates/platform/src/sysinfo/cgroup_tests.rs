//! Fixture trees for the cgroup reader: plain v1 and v2, hybrid mounts, containers, and no cgroups at all.

use std::fs;
use std::path::PathBuf;

use super::*;
use crate::sysinfo::{memory_beside_bytes, memory_bound};

/// A fixture tree, removed when dropped.
struct Tree(PathBuf);

impl Tree {
    fn new(name: &str, files: &[(&str, &str)]) -> Self {
        let dir = std::env::temp_dir().join(format!("warmset-cgroup-{}-{name}", std::process::id()));
        for (path, text) in files {
            let file = dir.join(path);
            fs::create_dir_all(file.parent().unwrap()).unwrap();
            fs::write(file, text).unwrap();
        }
        Tree(dir)
    }

    fn limits(&self) -> Vec<MemoryLimit> {
        memory_limits(&Root::at(&self.0))
    }

    fn beside(&self, own_bytes: u64) -> u64 {
        memory_beside_bytes(&Root::at(&self.0), own_bytes)
    }

    fn tightest(&self) -> Option<u64> {
        tightest(&self.limits()).map(|limit| limit.limit_bytes)
    }
}

impl Drop for Tree {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const NONE_V1: &str = "9223372036854771712\n";
const V2_MOUNT: &str = "30 25 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw,nsdelegate\n";
const HYBRID_MOUNTS: &str = "\
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
41 31 0:38 / /sys/fs/cgroup/unified rw,relatime - cgroup2 cgroup2 rw
";

#[test]
fn v2_takes_the_tightest_of_all_ancestors() {
    let tree = Tree::new(
        "v2",
        &[
            ("proc/self/cgroup", "0::/user.slice/job/step\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/user.slice/memory.max", "max\n"),
            ("sys/fs/cgroup/user.slice/job/memory.max", "4096000\n"),
            ("sys/fs/cgroup/user.slice/job/memory.current", "1000\n"),
            ("sys/fs/cgroup/user.slice/job/step/memory.max", "8192000\n"),
        ],
    );
    let limits = tree.limits();
    assert_eq!(limits.len(), 2);
    let bound = tightest(&limits).unwrap();
    assert_eq!((bound.limit_bytes, bound.used_bytes), (4_096_000, Some(1000)));
    assert_eq!(bound.file, PathBuf::from("/sys/fs/cgroup/user.slice/job/memory.max"));
}

#[test]
fn v2_high_binds_too() {
    let tree = Tree::new(
        "v2high",
        &[
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/a/memory.max", "8192000\n"),
            ("sys/fs/cgroup/a/memory.high", "2048000\n"),
        ],
    );
    assert_eq!(tree.tightest(), Some(2_048_000));
}

#[test]
fn hybrid_reads_the_memory_controller_where_it_is() {
    let tree = Tree::new(
        "hybrid",
        &[
            ("proc/self/cgroup", "9:name=systemd:/\n4:memory:/outer/inner\n3:cpuset:/x\n0::/\n"),
            ("proc/self/mountinfo", HYBRID_MOUNTS),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", NONE_V1),
            ("sys/fs/cgroup/memory/outer/memory.limit_in_bytes", "1073741824\n"),
            ("sys/fs/cgroup/memory/outer/inner/memory.limit_in_bytes", NONE_V1),
            (
                "sys/fs/cgroup/memory/outer/inner/memory.stat",
                "cache 0\nhierarchical_memory_limit 1073741824\n",
            ),
        ],
    );
    assert_eq!(tree.tightest(), Some(1 << 30));
    assert!(tree.limits().iter().all(|limit| limit.version == Version::V1));
}

#[test]
fn v1_container_sees_its_group_as_the_mount_root() {
    let mounts = "36 31 0:32 /docker/abc /sys/fs/cgroup/memory ro - cgroup cgroup rw,memory\n";
    let tree = Tree::new(
        "v1docker",
        &[
            ("proc/self/cgroup", "4:memory:/docker/abc\n"),
            ("proc/self/mountinfo", mounts),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", "536870912\n"),
        ],
    );
    assert_eq!(tree.tightest(), Some(512 << 20));
}

#[test]
fn v1_hidden_ancestors_are_known_from_the_statistics() {
    let tree = Tree::new(
        "v1hidden",
        &[
            ("proc/self/cgroup", "4:memory:/\n"),
            ("proc/self/mountinfo", HYBRID_MOUNTS),
            ("sys/fs/cgroup/memory/memory.limit_in_bytes", NONE_V1),
            ("sys/fs/cgroup/memory/memory.stat", "hierarchical_memory_limit 268435456\n"),
        ],
    );
    assert_eq!(tree.tightest(), Some(256 << 20));
}

#[test]
fn v2_group_outside_of_the_visible_part_falls_back_to_the_mount_point() {
    let tree = Tree::new(
        "v2outside",
        &[
            ("proc/self/cgroup", "0::/../../etc\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/memory.max", "777216\n"),
            ("etc/memory.max", "1\n"),
        ],
    );
    assert_eq!(tree.tightest(), Some(777_216));
}

#[test]
fn what_others_hold_is_what_is_used_less_what_is_given_up_and_less_ones_own() {
    let stat = "anon 900\nfile 700\nshmem 100\ninactive_file 400\nactive_file 150\nslab_reclaimable 50\n";
    let v2 = Tree::new(
        "v2held",
        &[
            ("proc/self/cgroup", "0::/a\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/a/memory.max", "2000\n"),
            ("sys/fs/cgroup/a/memory.current", "1650\n"),
            ("sys/fs/cgroup/a/memory.stat", stat),
        ],
    );
    assert_eq!(v2.beside(800), 250);
    assert_eq!(v2.beside(1100), 0, "counters of pages lag behind");

    let stat = "inactive_file 1\ntotal_inactive_file 400\ntotal_active_file 200\n";
    let v1 = Tree::new(
        "v1held",
        &[
            ("proc/self/cgroup", "4:memory:/a\n"),
            ("proc/self/mountinfo", HYBRID_MOUNTS),
            ("sys/fs/cgroup/memory/a/memory.limit_in_bytes", "2000\n"),
            ("sys/fs/cgroup/memory/a/memory.usage_in_bytes", "1650\n"),
            ("sys/fs/cgroup/memory/a/memory.stat", stat),
        ],
    );
    assert_eq!(v1.beside(800), 250);
}

#[test]
fn a_full_group_above_leaves_less_than_ones_own_limit() {
    let stat = "inactive_file 0\nactive_file 0\nslab_reclaimable 0\n";
    let tree = Tree::new(
        "v2full",
        &[
            ("proc/self/cgroup", "0::/outer/inner\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/outer/memory.max", "100000\n"),
            ("sys/fs/cgroup/outer/memory.current", "99500\n"),
            ("sys/fs/cgroup/outer/memory.stat", stat),
            ("sys/fs/cgroup/outer/inner/memory.max", "2000\n"),
            ("sys/fs/cgroup/outer/inner/memory.current", "500\n"),
            ("sys/fs/cgroup/outer/inner/memory.stat", stat),
        ],
    );
    assert_eq!(tree.beside(500), 1000, "of 2000 only 1000 are left in the group above");
}

#[test]
fn a_group_that_does_not_tell_what_it_holds_counts_as_free_of_others() {
    let files = [
        ("proc/self/cgroup", "0::/a\n"),
        ("proc/self/mountinfo", V2_MOUNT),
        ("sys/fs/cgroup/a/memory.max", "2000\n"),
        ("sys/fs/cgroup/a/memory.current", "1650\n"),
    ];
    assert_eq!(Tree::new("nostat", &files).beside(100), 0, "most of it may be page cache");
    let part = [&files[..], &[("sys/fs/cgroup/a/memory.stat", "active_file 1\n")]].concat();
    assert_eq!(Tree::new("halfstat", &part).beside(100), 0);
    assert_eq!(Tree::new("nogroup", &[]).beside(100), 0);
}

#[test]
fn no_cgroups_leave_the_physical_memory() {
    let tree = Tree::new("none", &[("proc/meminfo", "MemTotal: 1000 kB\n")]);
    assert_eq!(tree.tightest(), None);
    let bound = memory_bound(&Root::at(&tree.0)).unwrap();
    assert_eq!((bound.limit_bytes, bound.file), (1_024_000, PathBuf::from("/proc/meminfo")));
}

#[test]
fn malformed_files_are_no_limit() {
    let tree = Tree::new(
        "malformed",
        &[
            ("proc/self/cgroup", "::\n0::relative\n4:memory\n\n0::/a\n"),
            ("proc/self/mountinfo", V2_MOUNT),
            ("sys/fs/cgroup/a/memory.max", "-5\n"),
            ("sys/fs/cgroup/memory.max", ""),
        ],
    );
    assert_eq!(tree.tightest(), None);
}

proptest::proptest! {
    #[test]
    fn never_panics(groups in "([0-9]*:(memory|,)?:(/|\\.\\.|a){0,6}\n){0,5}\\PC*", stat in "\\PC*", limit in "[0-9a-z]*") {
        let mounts = mounts::parse(HYBRID_MOUNTS);
        for (_, dir) in memory_cgroups(&parse(&groups), &mounts) {
            assert!(dir.starts_with("/sys/fs/cgroup"));
        }
        hierarchical_limit(&stat);
        stat_field(&stat, "active_file");
        parse_limit(&limit);
    }
}
