//! The mappings of a process, and whether its owner bound them to nodes: `/proc/PID/maps` and `/proc/PID/numa_maps`.

use super::Root;

/// A mapping that a process can read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Mapping {
    /// First address.
    pub start: u64,
    /// First address behind it.
    pub end: u64,
}

/// The readable mappings of a process in ascending order, without those that the kernel provides (`[vdso]`).
/// `None` where the file cannot be read.
pub fn mappings(root: &Root, pid: u32) -> Option<Vec<Mapping>> {
    Some(root.text(format!("/proc/{pid}/maps"))?.lines().filter_map(mapping).collect())
}

/// A line of `maps`: `start-end rwxp offset major:minor inode   name`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Line<'a> {
    pub mapping: Mapping,
    pub rights: &'a str,
    pub offset: u64,
    /// `st_dev`.
    pub device: u64,
    pub inode: u64,
    /// A path, a name in brackets, or nothing.
    pub name: &'a str,
}

/// Reads a line; `None` if it is none, or its mapping is empty.
pub(crate) fn line(text: &str) -> Option<Line<'_>> {
    let mut fields = text.splitn(6, ' ');
    let number = |text: &str| u64::from_str_radix(text, 16).ok();
    let (start, end) = fields.next()?.split_once('-')?;
    let mapping = Mapping { start: number(start)?, end: number(end)? };
    let rights = fields.next()?;
    let offset = number(fields.next()?)?;
    let (major, minor) = fields.next()?.split_once(':')?;
    let device = rustix::fs::makedev(number(major)? as u32, number(minor)? as u32);
    let inode = fields.next()?.parse().ok()?;
    let name = fields.next().unwrap_or_default().trim_start();
    (mapping.start < mapping.end).then_some(Line { mapping, rights, offset, device, inode, name })
}

fn mapping(text: &str) -> Option<Mapping> {
    let line = line(text)?;
    let ours = line.rights.starts_with('r') && !line.name.starts_with("[v");
    ours.then_some(line.mapping)
}

/// The first addresses of mappings that their owner placed (`bind`, `interleave`), and of those on huge pages larger
/// than 2 MiB. Reading it walks all page tables of the process.
pub fn placed(root: &Root, pid: u32) -> Vec<u64> {
    let text = root.text(format!("/proc/{pid}/numa_maps")).unwrap_or_default();
    text.lines().filter_map(placed_line).collect()
}

fn placed_line(line: &str) -> Option<u64> {
    let mut words = line.split_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let policy = words.next()?;
    let kib = words.find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok());
    let bound = ["bind", "interleave", "weighted"].iter().any(|name| policy.starts_with(name));
    (bound || kib.is_some_and(|kib| kib > 2048)).then_some(start)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn readable_mappings_are_listed() {
        let text = "5000-7000 r-xp 00000000 fe:00 12 /bin/a b\n8000-9000 ---p 0 0:0 0\n\
                    9000-a000 rw-p 0 00:00 0 [heap]\nffff-fffff r-xp 0 00:00 0 [vdso]\n";
        let found: Vec<_> = text.lines().filter_map(mapping).collect();
        assert_eq!(found, [Mapping { start: 0x5000, end: 0x7000 }, Mapping { start: 0x9000, end: 0xa000 }]);
    }

    #[test]
    fn mappings_that_were_placed_are_told() {
        assert_eq!(placed_line("7f00 bind:1 anon=3 N1=3 kernelpagesize_kB=4"), Some(0x7f00));
        assert_eq!(placed_line("7f00 default anon=3 N1=3 kernelpagesize_kB=4"), None);
        assert_eq!(placed_line("7f00 default huge N1=3 kernelpagesize_kB=1048576"), Some(0x7f00));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(line in "[0-9a-f]{0,18}-?[0-9a-f]{0,18} ?[rwxp-]{0,4} ?\\PC*") {
            let _ = (mapping(&line), placed_line(&line));
        }
    }
}
