//! What a run touched of its files, from the kernel's page-cache events.

/// One look at a range of a file's pages.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Touch {
    /// When, on the trace's clock.
    pub seconds: f64,
    /// `(major, minor)` of the file system's device.
    pub device: (u32, u32),
    /// The file's inode.
    pub inode: u64,
    /// The first byte.
    pub start: u64,
    /// The byte after the last one.
    pub end: u64,
}

/// All touches of a run, in order of time.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Trace {
    /// The touches.
    pub touches: Vec<Touch>,
}

const BASE_PAGE_BYTES: u64 = 4096;

impl Trace {
    /// Reads the kernel's lines; what is no page-cache event is left out.
    #[must_use]
    pub fn parse(text: &str) -> Self {
        let mut touches: Vec<Touch> = text.lines().filter_map(touch).collect();
        touches.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
        Self { touches }
    }
}

/// Reads `name-1 [000] ..... 12.345: mm_filemap_…: dev=254:0 ino=4fa7d ofs=0-65535`, where a single offset is one page.
fn touch(line: &str) -> Option<Touch> {
    let (head, event) = line.split_once(": mm_filemap_")?;
    let seconds = head.rsplit_once(' ')?.1.parse().ok()?;
    let field = |name: &str| event.split_once(name)?.1.split(' ').next();
    let (major, minor) = field(" dev=")?.split_once(':')?;
    let offsets = field(" ofs=")?;
    let (start, last) = offsets.split_once('-').unwrap_or((offsets, ""));
    let start: u64 = start.parse().ok()?;
    let end =
        if last.is_empty() { start + BASE_PAGE_BYTES } else { last.parse::<u64>().ok()?.checked_add(1)? };
    let device = (major.parse().ok()?, minor.parse().ok()?);
    let inode = u64::from_str_radix(field(" ino=")?, 16).ok()?;
    (start < end).then_some(Touch { seconds, device, inode, start, end })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_touches_in_order_of_time() {
        let text = "# tracer: nop\n\
            b-9 [001] ..... 2.500000: mm_filemap_fault: dev=254:0 ino=ff ofs=8192\n\
            a b-9 [001] ..... 1.250000: mm_filemap_map_pages: dev=254:1 ino=4fa7d ofs=819200-884735\n\
            b-9 [001] ..... 3.0: sched_switch: dev=1:1 ino=1 ofs=0\n\
            b-9 [001] ..... 3.0: mm_filemap_fault: dev=254:0 ino=zz ofs=0\n";
        let first = Touch { seconds: 1.25, device: (254, 1), inode: 0x4fa7d, start: 819_200, end: 884_736 };
        let second = Touch { seconds: 2.5, device: (254, 0), inode: 0xff, start: 8192, end: 12288 };
        assert_eq!(Trace::parse(text).touches, [first, second]);
    }
}
