//! The mappings of a process, and whether its owner bound them to nodes: `/proc/PID/maps` and `/proc/PID/numa_maps`.

use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::Root;

const PAGE_BYTES: u64 = 4096;

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

/// Where a process has mapped a byte of a file as code; `None` where it has not, or may not be looked at.
pub fn code_address(root: &Root, pid: u32, path: &Path, offset: u64) -> Option<u64> {
    root.text(format!("/proc/{pid}/maps"))?.lines().find_map(|text| code_in(line(text)?, path, offset))
}

fn code_in(line: Line<'_>, path: &Path, offset: u64) -> Option<u64> {
    let inside = offset.checked_sub(line.offset)?;
    let address = line.mapping.start.checked_add(inside).filter(|&address| address < line.mapping.end)?;
    (line.rights.contains('x') && line.path() == Some(path)).then_some(address)
}

/// Whether a process has the page at this address in its page table: it, or a page beside it, was used.
///
/// # Errors
/// The kernel's, for a process that has ended or may not be looked at.
pub fn is_present(root: &Root, pid: u32, address: u64) -> io::Result<bool> {
    /// In memory, or swapped out.
    const PRESENT: u64 = 3 << 62;
    let mut entry = [0; 8];
    let pagemap = File::open(root.join(format!("/proc/{pid}/pagemap")))?;
    pagemap.read_exact_at(&mut entry, address / PAGE_BYTES * 8)?;
    Ok(u64::from_ne_bytes(entry) & PRESENT != 0)
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

impl<'a> Line<'a> {
    /// The path of a mapped file that is still there.
    pub(crate) fn path(&self) -> Option<&'a Path> {
        let is_path = self.inode != 0 && self.name.starts_with('/') && !self.name.ends_with(" (deleted)");
        is_path.then(|| Path::new(self.name))
    }
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

/// The addresses whose pages may go to any node, in ascending order: not where their owner placed them (`bind`, `interleave`,
/// `prefer`), nor on huge pages larger than 2 MiB. A range ends where the next mapping begins, so it may hold addresses that are
/// not mapped; the last mapping (a stack) is left out. Reading it walks all page tables of the process. `None` where the file
/// cannot be read.
pub fn unplaced(root: &Root, pid: u32) -> Option<Vec<Mapping>> {
    Some(unplaced_ranges(&root.text(format!("/proc/{pid}/numa_maps"))?))
}

fn unplaced_ranges(text: &str) -> Vec<Mapping> {
    let lines: Vec<(u64, bool)> = text.lines().filter_map(placed_line).collect();
    let free = lines.windows(2).filter(|pair| !pair[0].1 && pair[0].0 < pair[1].0);
    free.map(|pair| Mapping { start: pair[0].0, end: pair[1].0 }).collect()
}

/// The first address of a mapping, and whether its pages are to stay where they are.
fn placed_line(line: &str) -> Option<(u64, bool)> {
    let mut words = line.split_whitespace();
    let start = u64::from_str_radix(words.next()?, 16).ok()?;
    let policy = words.next()?;
    let kib = words.find_map(|word| word.strip_prefix("kernelpagesize_kB=")?.parse::<u64>().ok());
    let is_placed = ["bind", "interleave", "weighted", "prefer"].iter().any(|name| policy.starts_with(name));
    Some((start, is_placed || kib.is_some_and(|kib| kib > 2048)))
}

/// The parts of ascending mappings that lie inside others, which ascend as well.
#[must_use]
pub fn inside(mappings: &[Mapping], others: &[Mapping]) -> Vec<Mapping> {
    let mut parts = Vec::new();
    let mut first = 0;
    for mapping in mappings {
        first += others[first..].partition_point(|other| other.end <= mapping.start);
        for other in others[first..].iter().take_while(|other| other.start < mapping.end) {
            parts.push(Mapping { start: mapping.start.max(other.start), end: mapping.end.min(other.end) });
        }
    }
    parts
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
    fn code_is_found_where_it_is_mapped() {
        let text = "5000-7000 r-xp 00003000 fe:00 12 /bin/a b";
        let found = |name: &str, offset| code_in(line(text).unwrap(), Path::new(name), offset);
        assert_eq!((found("/bin/a b", 0x3010), found("/bin/a b", 0x4fff)), (Some(0x5010), Some(0x6fff)));
        assert_eq!(
            (found("/bin/a b", 0x5000), found("/bin/a b", 0x10), found("/bin/a", 0x3010)),
            (None, None, None)
        );
        assert_eq!(code_in(line(&text.replace("r-x", "r--")).unwrap(), Path::new("/bin/a b"), 0x3010), None);
    }

    #[test]
    fn a_page_is_present_once_it_was_used() {
        let root = Root::live();
        let used = a_page_is_present_once_it_was_used as *const () as u64;
        assert!(is_present(&root, std::process::id(), used).unwrap());
        let own = std::env::current_exe().unwrap();
        let text = root.text("/proc/self/maps").unwrap();
        let holds = |line: &Line<'_>| (line.mapping.start..line.mapping.end).contains(&used);
        let line = text.lines().filter_map(line).find(holds).unwrap();
        let offset = used - line.mapping.start + line.offset;
        assert_eq!(code_address(&root, std::process::id(), &own, offset), Some(used));
        assert!(is_present(&root, u32::MAX, used).is_err());
    }

    #[test]
    fn mappings_that_were_placed_are_left_out() {
        for placed in ["bind:1", "interleave:0-1", "weighted interleave:0-1", "prefer:1", "prefer (many):0-1"]
        {
            let line = format!("7f00 {placed} anon=3 N1=3 kernelpagesize_kB=4");
            assert_eq!(placed_line(&line), Some((0x7f00, true)), "{placed}");
        }
        assert_eq!(placed_line("7f00 default anon=3 N1=3 kernelpagesize_kB=4"), Some((0x7f00, false)));
        assert_eq!(placed_line("7f00 local"), Some((0x7f00, false)));
        assert_eq!(placed_line("7f00 default huge N1=3 kernelpagesize_kB=1048576"), Some((0x7f00, true)));
        let text = "1000 default\n3000 bind:0\n5000 default anon=1\n6000 default stack\n7000 def";
        let range = |start, end| Mapping { start, end };
        assert_eq!(
            unplaced_ranges(text),
            [range(0x1000, 0x3000), range(0x5000, 0x6000), range(0x6000, 0x7000)]
        );
    }

    #[test]
    fn parts_inside_other_mappings_are_found() {
        let map = |parts: &[(u64, u64)]| -> Vec<Mapping> {
            parts.iter().map(|&(start, end)| Mapping { start, end }).collect()
        };
        let others = map(&[(10, 20), (20, 30), (50, 60)]);
        // Split, grown, moved next to another one, gone.
        assert_eq!(
            inside(&map(&[(10, 12), (12, 18), (25, 40), (45, 70)]), &others),
            map(&[(10, 12), (12, 18), (25, 30), (50, 60)])
        );
        assert_eq!(inside(&map(&[(0, 100)]), &others), others);
        assert_eq!((inside(&others, &[]), inside(&[], &others)), (vec![], vec![]));
    }

    proptest::proptest! {
        #[test]
        fn never_panics(line in "[0-9a-f]{0,18}-?[0-9a-f]{0,18} ?[rwxp-]{0,4} ?\\PC*") {
            let _ = (mapping(&line), placed_line(&line));
        }
    }
}
