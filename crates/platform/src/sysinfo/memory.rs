//! Memory and swap, from `/proc/meminfo`.

use serde::Serialize;

use super::Root;

/// What `/proc/meminfo` says; a field is `None` where its line is missing or malformed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
pub struct Memory {
    /// Usable physical memory.
    pub total_bytes: Option<u64>,
    /// What a new program can take without swapping.
    pub available_bytes: Option<u64>,
    /// All swap.
    pub swap_total_bytes: Option<u64>,
    /// Unused swap.
    pub swap_free_bytes: Option<u64>,
    /// Anonymous memory on transparent huge pages, of all processes.
    pub anon_huge_bytes: Option<u64>,
}

/// Reads the machine's memory.
pub fn read(root: &Root) -> Memory {
    root.text("/proc/meminfo").map(|text| parse(&text)).unwrap_or_default()
}

/// Parses the text of `/proc/meminfo`.
pub fn parse(text: &str) -> Memory {
    Memory {
        total_bytes: field_bytes(text, "MemTotal"),
        available_bytes: field_bytes(text, "MemAvailable"),
        swap_total_bytes: field_bytes(text, "SwapTotal"),
        swap_free_bytes: field_bytes(text, "SwapFree"),
        anon_huge_bytes: field_bytes(text, "AnonHugePages"),
    }
}

/// The value of `name: 12 kB` in bytes. Also reads a node's `Node 0 MemTotal: 12 kB`.
pub(super) fn field_bytes(text: &str, name: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        (key.rsplit(' ').next()? == name).then_some(value)
    })?;
    let mut words = value.split_whitespace();
    let number: u64 = words.next()?.parse().ok()?;
    match words.next() {
        Some("kB") => number.checked_mul(1024),
        None => Some(number),
        Some(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reads_what_is_there_and_leaves_out_what_is_not() {
        let memory = parse("MemTotal:       24731708 kB\nMemAvailable:   nonsense kB\nSwapTotal: 0 kB\n");
        assert_eq!(memory.total_bytes, Some(24_731_708 * 1024));
        assert_eq!(memory.available_bytes, None);
        assert_eq!(memory.swap_total_bytes, Some(0));
        assert_eq!(memory.swap_free_bytes, None);
    }

    proptest::proptest! {
        #[test]
        fn never_panics(text in "(MemTotal|Node 0 MemTotal|x)?:? *[0-9]{0,30} ?(kB|MB)?\n?\\PC*") {
            parse(&text);
        }
    }
}
