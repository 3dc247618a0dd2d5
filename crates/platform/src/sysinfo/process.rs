//! What this process may do: locked memory, open files, capabilities.

use rustix::process::{Resource, getrlimit};
use serde::Serialize;

use super::Root;

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

#[cfg(test)]
mod tests {
    use super::*;

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
        }
    }
}
