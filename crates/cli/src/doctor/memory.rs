//! Memory, cgroup limits, swap and NUMA nodes.

use warmset_platform::sysinfo::cgroup::{self, MemoryLimit};
use warmset_platform::sysinfo::memory::{self, Memory};
use warmset_platform::sysinfo::numa::{self, Node};
use warmset_platform::sysinfo::{Root, kernel, memory_bound};

use super::finding::{Finding, State};
use warmset_platform::units::bytes;

/// Judges memory, the limits on it, and swap.
pub fn findings(root: &Root) -> Vec<Finding> {
    let known = memory::read(root);
    let limits = cgroup::memory_limits(root);
    let usable_bytes = memory_bound(root).map(|bound| bound.limit_bytes);
    vec![
        physical(&known),
        limit(&limits, known.total_bytes),
        usable(usable_bytes),
        overcommit(kernel::settings(root).overcommit_memory),
        swap(&known),
    ]
}

/// Judges the NUMA nodes and the kernel's own balancing between them.
pub fn nodes(root: &Root) -> Vec<Finding> {
    let nodes = numa::nodes(root);
    let balancing = kernel::settings(root).numa_balancing;
    vec![topology(&nodes), numa_balancing(balancing, nodes.len())]
}

fn physical(known: &Memory) -> Finding {
    let (Some(total), Some(available)) = (known.total_bytes, known.available_bytes) else {
        return Finding::new(
            "memory",
            State::Bad,
            "unknown",
            "/proc/meminfo cannot be read: set budgets by hand",
        );
    };
    let (state, follows) = if available < total / 10 {
        (State::Warn, "less than a tenth is available: a large pool would push others out")
    } else {
        (State::Ok, "what the heap, the pool and everything else share")
    };
    Finding::new("memory", state, format!("{} of {} available", bytes(available), bytes(total)), follows)
        .with(known)
}

fn limit(limits: &[MemoryLimit], total_bytes: Option<u64>) -> Finding {
    let binding =
        cgroup::tightest(limits).filter(|limit| total_bytes.is_none_or(|total| limit.limit_bytes < total));
    let Some(limit) = binding else {
        return Finding::new("cgroup", State::Ok, "no memory limit", "all memory can be used").with(limits);
    };
    let used = limit.used_bytes.map(|used| format!(", {} used", bytes(used))).unwrap_or_default();
    let follows = format!(
        "heap + pool must stay below it or the kernel kills the process; the page cache counts too ({})",
        limit.file.display()
    );
    Finding::new("cgroup", State::Ok, format!("{} limit{used}", bytes(limit.limit_bytes)), follows)
        .with(limits)
}

fn usable(usable_bytes: Option<u64>) -> Finding {
    match usable_bytes {
        Some(limit) => {
            Finding::new("memory_limit", State::Ok, bytes(limit), "the most that a budget can be").with(limit)
        }
        None => Finding::new("memory_limit", State::Bad, "unknown", "set the pool's budget by hand"),
    }
}

fn overcommit(setting: Option<i64>) -> Finding {
    let (state, value, follows) = match setting {
        Some(2) => (
            State::Bad,
            "never (2)",
            "the pool's addresses, as many as the machine has memory, are refused; sysctl vm.overcommit_memory=0",
        ),
        Some(1) => (State::Ok, "always (1)", "the pool's addresses cost nothing until they are used"),
        _ => (State::Ok, "heuristic (0)", "the pool's addresses cost nothing until they are used"),
    };
    Finding::new("overcommit", state, value, follows).with(setting)
}

fn swap(known: &Memory) -> Finding {
    let total = known.swap_total_bytes.unwrap_or(0);
    if total == 0 {
        return Finding::new("swap", State::Ok, "none", "the pool stays where it was put");
    }
    let used = total.saturating_sub(known.swap_free_bytes.unwrap_or(total));
    Finding::new(
        "swap",
        State::Warn,
        format!("{} ({} used)", bytes(total), bytes(used)),
        "under pressure the kernel may swap pool pages out, one base page at a time; \
         keep vm.swappiness low or the budget below what is free",
    )
}

fn topology(nodes: &[Node]) -> Finding {
    let cpuless = nodes.iter().filter(|node| node.cpus == 0 && node.total_bytes > 0).count();
    let value = match nodes.len() {
        0 | 1 => "1 node".to_owned(),
        count => format!("{count} nodes, {cpuless} without CPUs"),
    };
    let follows = if nodes.len() <= 1 {
        "all memory is equally near".to_owned()
    } else {
        let parts = nodes.iter().map(|node| {
            let distances: Vec<String> = node.distances.iter().map(u32::to_string).collect();
            format!("node {}: {}, distances {}", node.id, bytes(node.total_bytes), distances.join(" "))
        });
        parts.collect::<Vec<_>>().join("; ")
    };
    Finding::new("numa", State::Ok, value, follows).with(nodes)
}

fn numa_balancing(setting: Option<i64>, nodes: usize) -> Finding {
    match setting {
        Some(mode) if mode != 0 && nodes > 1 => Finding::new(
            "numa_balancing",
            State::Warn,
            format!("on ({mode})"),
            "the kernel unmaps pages to see who uses them: page faults on pool memory; sysctl kernel.numa_balancing=0",
        ),
        Some(0) | None => {
            Finding::new("numa_balancing", State::Ok, "off", "the kernel leaves pool pages where they are")
        }
        Some(mode) => {
            Finding::new("numa_balancing", State::Ok, format!("on ({mode})"), "no effect on a single node")
        }
    }
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use super::*;

    #[test]
    fn a_limit_above_the_machine_is_no_limit() {
        let of = |limit_bytes| MemoryLimit {
            version: cgroup::Version::V2,
            file: PathBuf::from("/sys/fs/cgroup/memory.max"),
            limit_bytes,
            used_bytes: Some(1 << 20),
        };
        assert_eq!(limit(&[of(8 << 30)], Some(4 << 30)).value, "no memory limit");
        assert_eq!(limit(&[of(2 << 30)], Some(4 << 30)).value, "2.0 GiB limit, 1.0 MiB used");
    }

    #[test]
    fn a_kernel_that_promises_no_memory_gives_no_addresses() {
        assert_eq!(overcommit(Some(0)).state, State::Ok);
        assert_eq!(overcommit(Some(1)).state, State::Ok);
        let never = overcommit(Some(2));
        assert_eq!(never.state, State::Bad);
        assert!(never.follows.contains("vm.overcommit_memory=0"));
    }

    #[test]
    fn balancing_matters_only_between_nodes() {
        assert_eq!(numa_balancing(Some(1), 2).state, State::Warn);
        assert_eq!(numa_balancing(Some(1), 1).state, State::Ok);
        assert_eq!(numa_balancing(None, 2).state, State::Ok);
    }

    #[test]
    fn swap_and_scarce_memory_are_warned_of() {
        let known = Memory {
            total_bytes: Some(100 << 20),
            available_bytes: Some(5 << 20),
            swap_total_bytes: Some(1 << 30),
            swap_free_bytes: Some(1 << 29),
            anon_huge_bytes: None,
        };
        assert_eq!(physical(&known).state, State::Warn);
        assert_eq!(swap(&known).value, "1.0 GiB (512.0 MiB used)");
        assert_eq!(physical(&Memory::default()).state, State::Bad);
    }
}
