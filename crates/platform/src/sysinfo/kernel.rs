//! The kernel's version and the few of its settings that decide what Warmset can use.

use serde::Serialize;

use super::Root;

/// A kernel release, ordered by version.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub struct Release {
    /// First number.
    pub major: u32,
    /// Second number.
    pub minor: u32,
    /// As the kernel writes it.
    pub text: String,
}

/// Settings below `/proc/sys`; `None` where this kernel does not have one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Settings {
    /// 0 everybody, 1 only the group in `io_uring_group`, 2 nobody.
    pub io_uring_disabled: Option<i64>,
    /// -1 and 0 allow all, 1 no machine-wide, 2 own process without kernel, 3 nothing.
    pub perf_event_paranoid: Option<i64>,
    /// Whether the kernel moves pages between NUMA nodes on its own.
    pub numa_balancing: Option<i64>,
    /// Whether memory may be promised that does not exist (0 heuristic, 1 always, 2 never).
    pub overcommit_memory: Option<i64>,
}

/// The running kernel's release.
pub fn release(root: &Root) -> Option<Release> {
    parse_release(root.text("/proc/sys/kernel/osrelease")?.trim())
}

/// Reads the settings.
pub fn settings(root: &Root) -> Settings {
    Settings {
        io_uring_disabled: root.number("/proc/sys/kernel/io_uring_disabled"),
        perf_event_paranoid: root.number("/proc/sys/kernel/perf_event_paranoid"),
        numa_balancing: root.number("/proc/sys/kernel/numa_balancing"),
        overcommit_memory: root.number("/proc/sys/vm/overcommit_memory"),
    }
}

/// Parses `6.18.44-generic`.
pub fn parse_release(text: &str) -> Option<Release> {
    let mut numbers = text.split(|c: char| !c.is_ascii_digit());
    let major = numbers.next()?.parse().ok()?;
    let minor = numbers.next()?.parse().ok()?;
    Some(Release { major, minor, text: text.to_owned() })
}

impl Release {
    /// Whether this is at least version `major.minor`.
    pub fn at_least(&self, major: u32, minor: u32) -> bool {
        (self.major, self.minor) >= (major, minor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn releases_of_distributions_are_read() {
        for (text, major, minor) in
            [("6.18.44-fc", 6, 18), ("5.4", 5, 4), ("6.1.0-21-amd64", 6, 1), ("7.0-rc3", 7, 0)]
        {
            let release = parse_release(text).unwrap();
            assert_eq!((release.major, release.minor), (major, minor), "{text}");
        }
        assert!(parse_release("6.2.0").unwrap().at_least(5, 19));
        assert!(!parse_release("5.4.1").unwrap().at_least(5, 10));
        assert_eq!(parse_release("linux"), None);
        assert_eq!(parse_release("99999999999.1"), None);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "[0-9.]*\\PC*") {
            parse_release(&text);
        }
    }
}
