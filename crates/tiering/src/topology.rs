//! The tiers of this machine: its NUMA nodes with memory, nearest to processors first.

use warmset_platform::sysinfo::Root;
use warmset_platform::sysinfo::numa::{Node, nodes};
use warmset_platform::sysinfo::process::allowed_nodes;

use crate::Error;

/// The nodes with more memory than this are tiers; the kernel needs some for itself on each.
const NODE_BYTES_MIN: u64 = 16 << 20;

/// One memory node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Tier {
    /// The kernel's number for it.
    pub node: u32,
    /// Its memory.
    pub total_bytes: u64,
    /// Whether it has processors.
    pub has_cpus: bool,
}

/// All memory nodes. The index of a node is the policies' tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topology {
    /// Nearest first.
    pub tiers: Vec<Tier>,
}

impl Topology {
    /// Reads those that a process may use.
    ///
    /// # Errors
    /// With fewer than two nodes, unless `one_is_enough` (a dry run).
    pub fn read(root: &Root, pid: u32, one_is_enough: bool) -> Result<Self, Error> {
        let mut tiers = ordered(&nodes(root));
        let is_enough = |count: usize| count >= 2 || (one_is_enough && count == 1);
        if !is_enough(tiers.len()) {
            return Err(Error::OneNode(tiers.len()));
        }
        if let Some(allowed) = allowed_nodes(root, pid) {
            let all = tiers.len();
            tiers.retain(|tier| allowed.contains(&tier.node));
            if !is_enough(tiers.len()) {
                return Err(Error::Confined { pid, allowed: tiers.len(), all });
            }
        }
        Ok(Self { tiers })
    }

    /// The tier of a node, if it is one.
    #[must_use]
    pub fn tier_of(&self, node: i32) -> Option<u8> {
        let at = self.tiers.iter().position(|tier| i64::from(tier.node) == i64::from(node))?;
        u8::try_from(at).ok()
    }
}

/// Unused memory of a node now; `None` once it is offline.
#[must_use]
pub fn free_bytes(root: &Root, node: u32) -> Option<u64> {
    nodes(root).iter().find(|known| known.id == node && known.total_bytes > 0).map(|known| known.free_bytes)
}

/// Whether the kernel itself migrates pages between nodes (NUMA balancing).
#[must_use]
pub fn kernel_balances(root: &Root) -> bool {
    root.number("/proc/sys/kernel/numa_balancing").is_some_and(|mode| mode != 0)
}

fn ordered(nodes: &[Node]) -> Vec<Tier> {
    let cpus: Vec<usize> = (0..nodes.len()).filter(|&at| nodes[at].cpus > 0).collect();
    let nearest = |node: &Node| {
        let distances = cpus.iter().filter_map(|&at| node.distances.get(at));
        // A node of processors is near by definition, whatever a firmware says of the distances.
        if node.cpus > 0 { 0 } else { distances.min().copied().unwrap_or(u32::MAX) }
    };
    let mut with_memory: Vec<&Node> = nodes.iter().filter(|node| node.total_bytes > NODE_BYTES_MIN).collect();
    with_memory.sort_by_key(|node| (nearest(node), node.id));
    let tier = |node: &&Node| Tier { node: node.id, total_bytes: node.total_bytes, has_cpus: node.cpus > 0 };
    with_memory.iter().map(tier).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn node(id: u32, gib: u64, cpus: usize, distances: &[u32]) -> Node {
        let total_bytes = gib << 30;
        Node { id, total_bytes, free_bytes: total_bytes, cpus, distances: distances.to_vec() }
    }

    #[test]
    fn nearer_memory_comes_first_whatever_its_number() {
        let tiers = ordered(&[
            node(0, 8, 0, &[10, 40, 20]),
            node(1, 8, 4, &[40, 10, 17]),
            node(2, 8, 0, &[20, 17, 10]),
            node(3, 0, 4, &[20, 17, 10, 10]),
        ]);
        let order: Vec<u32> = tiers.iter().map(|tier| tier.node).collect();
        assert_eq!(order, [1, 2, 0], "node 3 has no memory");
    }

    #[test]
    fn one_node_is_an_error_that_says_so() {
        let empty = tempfile::tempdir().unwrap();
        let error = Topology::read(&Root::at(empty.path()), 1, true).unwrap_err();
        assert!(matches!(error, Error::OneNode(0)), "{error}");
    }
}
