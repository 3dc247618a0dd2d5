//! The NUMA nodes: their memory, their CPUs, and how far they are from each other.

use serde::Serialize;

use super::Root;
use super::memory::field_bytes;

const NODES: &str = "/sys/devices/system/node";
/// No machine has more CPUs than this; a longer range in a malformed list is not expanded.
const CPUS_MAX: usize = 1 << 16;

/// One NUMA node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Node {
    /// The kernel's number for it.
    pub id: u32,
    /// Its memory; 0 for a node of CPUs alone.
    pub total_bytes: u64,
    /// Its unused memory.
    pub free_bytes: u64,
    /// How many CPUs it has; 0 for a node of memory alone (CXL, persistent memory).
    pub cpus: usize,
    /// The distances to all nodes in ascending order of node; 10 is itself.
    pub distances: Vec<u32>,
}

/// Reads the nodes in ascending order; empty where the kernel was built without NUMA.
pub fn nodes(root: &Root) -> Vec<Node> {
    let mut nodes: Vec<Node> = root.names(NODES).iter().filter_map(|name| node(root, name)).collect();
    nodes.sort_by_key(|node| node.id);
    nodes
}

fn node(root: &Root, name: &str) -> Option<Node> {
    let id = name.strip_prefix("node")?.parse().ok()?;
    let file = |file: &str| root.text(format!("{NODES}/{name}/{file}")).unwrap_or_default();
    let meminfo = file("meminfo");
    Some(Node {
        id,
        total_bytes: field_bytes(&meminfo, "MemTotal").unwrap_or(0),
        free_bytes: field_bytes(&meminfo, "MemFree").unwrap_or(0),
        cpus: cpu_count(&file("cpulist")),
        distances: file("distance").split_whitespace().filter_map(|word| word.parse().ok()).collect(),
    })
}

/// How many CPUs a list like `0-3,8,10-11` names; malformed parts count nothing.
pub fn cpu_count(list: &str) -> usize {
    let count: usize = list
        .trim()
        .split(',')
        .map(|part| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            match (first.parse::<usize>(), last.parse::<usize>()) {
                (Ok(first), Ok(last)) if first <= last => (last - first).saturating_add(1).min(CPUS_MAX),
                _ => 0,
            }
        })
        .fold(0, usize::saturating_add);
    count.min(CPUS_MAX)
}

/// The processors that are in use, also those on which this process may not run.
pub fn online_cpus(root: &Root) -> Vec<u32> {
    root.text("/sys/devices/system/cpu/online").map(|list| listed(&list)).unwrap_or_default()
}

/// The processors of a node.
pub fn node_cpus(root: &Root, node: u32) -> Vec<u32> {
    listed(&root.text(format!("{NODES}/node{node}/cpulist")).unwrap_or_default())
}

/// The processors or nodes that a list like `0-3,8,10-11` names; malformed parts name none.
pub fn listed(list: &str) -> Vec<u32> {
    let part = |part: &str| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        match (first.parse::<u32>(), last.parse::<u32>()) {
            (Ok(first), Ok(last)) if first <= last && (last as usize) < CPUS_MAX => first..last + 1,
            _ => 0..0,
        }
    };
    list.trim().split(',').flat_map(part).take(CPUS_MAX).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_lists_are_counted() {
        assert_eq!(cpu_count("0-3,8,10-11\n"), 7);
        assert_eq!(cpu_count("\n"), 0);
        assert_eq!(cpu_count("3-1,x,5"), 1);
        assert_eq!(listed("0-2,8,x\n"), [0, 1, 2, 8]);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(list in "[0-9,-]*") {
            assert!(cpu_count(&list) <= CPUS_MAX && listed(&list).len() <= CPUS_MAX);
        }
    }
}
