//! What this process may do (locked memory, open files, capabilities), and what another process is.

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::Root;
use super::numa::listed;

/// Number of `CAP_SYS_ADMIN` (linux/capability.h).
pub const CAP_SYS_ADMIN: u32 = 21;
/// Number of `CAP_SYS_NICE`, which lets a process move another one's pages.
pub const CAP_SYS_NICE: u32 = 23;
/// Number of `CAP_PERFMON` (since Linux 5.8).
pub const CAP_PERFMON: u32 = 38;

/// The limits of the calling process; `None` is unlimited.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Limits {
    /// Memory that it may lock.
    pub locked_bytes_max: Option<u64>,
    /// Files that it may have open.
    pub files_max: Option<u64>,
}

/// Reads the soft limits.
pub fn limits() -> Limits {
    Limits {
        locked_bytes_max: getrlimit(Resource::Memlock).current,
        files_max: getrlimit(Resource::Nofile).current,
    }
}

/// The effective capabilities as a bit set; 0 where `/proc/self/status` cannot be read.
pub fn capabilities(root: &Root) -> u64 {
    root.text("/proc/self/status").map(|text| parse_capabilities(&text)).unwrap_or(0)
}

/// Parses the line `CapEff` of `/proc/self/status`.
pub fn parse_capabilities(text: &str) -> u64 {
    text.lines()
        .find_map(|line| line.strip_prefix("CapEff:"))
        .and_then(|value| u64::from_str_radix(value.trim(), 16).ok())
        .unwrap_or(0)
}

/// Whether the bit set holds the capability of that number.
pub fn has(capabilities: u64, number: u32) -> bool {
    capabilities.checked_shr(number).is_some_and(|bits| bits & 1 == 1)
}

/// Another process.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Process {
    /// What it is called.
    pub name: String,
    /// When it started, in clock ticks since boot: with the number, what tells it from a later process.
    pub start_ticks: u64,
    /// Clock ticks of processor time so far.
    pub cpu_ticks: u64,
    /// A thread of the kernel, without memory of its own.
    pub kernel_thread: bool,
    /// It has ended, and its parent has not asked for the exit code yet.
    pub ended: bool,
    /// The user it runs as.
    pub user: Option<u32>,
}

/// Reads what a process is; `None` if there is none of that number.
pub fn process(root: &Root, pid: u32) -> Option<Process> {
    let mut process = parse_stat(&root.text(format!("/proc/{pid}/stat"))?)?;
    process.user = root.text(format!("/proc/{pid}/status")).and_then(|text| user(&text));
    Some(process)
}

/// The memory nodes that a process may use (its cpuset); `None` where the kernel does not say.
pub fn allowed_nodes(root: &Root, pid: u32) -> Option<Vec<u32>> {
    let status = root.text(format!("/proc/{pid}/status"))?;
    Some(listed(status.lines().find_map(|line| line.strip_prefix("Mems_allowed_list:"))?))
}

fn user(status: &str) -> Option<u32> {
    status.lines().find_map(|line| line.strip_prefix("Uid:"))?.split_whitespace().next()?.parse().ok()
}

/// Parses `/proc/PID/stat`. The name may hold blanks and brackets, so the last bracket ends it.
fn parse_stat(text: &str) -> Option<Process> {
    const PF_KTHREAD: u64 = 0x0020_0000;
    let (before, after) = text.rsplit_once(')')?;
    let name = before.split_once('(')?.1.to_owned();
    let words: Vec<&str> = after.split_whitespace().collect();
    let number = |at: usize| words.get(at)?.parse::<u64>().ok();
    Some(Process {
        name,
        start_ticks: number(19)?,
        cpu_ticks: number(11)?.saturating_add(number(12)?),
        kernel_thread: number(6)? & PF_KTHREAD != 0,
        ended: matches!(words.first(), Some(&("Z" | "X"))),
        user: None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_is_found_and_named() {
        let found = process(&Root::live(), std::process::id()).unwrap();
        assert!(!found.kernel_thread && !found.ended && found.start_ticks > 0, "{found:?}");
        assert_eq!(found.user, Some(rustix::process::getuid().as_raw()));
        assert_eq!(process(&Root::live(), u32::MAX), None);
    }

    #[test]
    fn the_nodes_of_a_cpuset_are_told() {
        let machine = tempfile::tempdir().unwrap();
        let directory = machine.path().join("proc/7");
        std::fs::create_dir_all(&directory).unwrap();
        std::fs::write(directory.join("status"), "Name:\tx\nMems_allowed_list:\t0,2-3\n").unwrap();
        assert_eq!(allowed_nodes(&Root::at(machine.path()), 7), Some(vec![0, 2, 3]));
        assert_eq!(allowed_nodes(&Root::at(machine.path()), 8), None);
    }

    #[test]
    fn a_name_may_hold_brackets() {
        let text = "7 (a) b) S 2 0 0 0 -1 2129984 0 0 0 0 3 4 0 0 20 0 1 0 99 0 0";
        let found = parse_stat(text).unwrap();
        assert_eq!((found.name.as_str(), found.start_ticks, found.cpu_ticks), ("a) b", 99, 7));
        assert!(found.kernel_thread);
    }

    #[test]
    fn capabilities_are_a_hexadecimal_bit_set() {
        let set = parse_capabilities("Name:\tx\nCapEff:\t000001fffeffffff\n");
        assert!(has(set, CAP_PERFMON) && has(set, CAP_SYS_ADMIN));
        assert!(!has(set, 24));
        assert!(!has(u64::MAX, 64));
        assert_eq!(parse_capabilities("CapEff: xyz"), 0);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "CapEff:\\PC*", number: u32) {
            has(parse_capabilities(&text), number);
            let _ = parse_stat(&text);
        }
    }
}
