//! How long a disk takes to reach a place: direct reads of single pages, far from each other.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::Instant;

use rustix::fs::OFlags;

/// Memory, length and offset of a direct read are multiples of this.
const ALIGN: usize = 4096;
const READS_MAX: usize = 9;

/// The median duration of reads in the largest of these files, whose sizes are given, past the page cache. `None` if none
/// of them can be read so.
pub fn median_us<'a>(files: impl Iterator<Item = (&'a Path, u64)>) -> Option<u64> {
    let mut largest: Vec<(&Path, u64)> = files.filter(|(_, bytes)| *bytes >= ALIGN as u64).collect();
    largest.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    largest.truncate(READS_MAX);
    // From all over a file if there are few; the places differ from file to file.
    let mut taken_us: Vec<u64> = (0..READS_MAX)
        .filter_map(|turn| {
            let &(path, bytes) = largest.get(turn % largest.len().max(1))?;
            let pages = bytes / ALIGN as u64;
            let page = pages * (2 * turn as u64 + 1) / (2 * READS_MAX as u64);
            read_us(path, page * ALIGN as u64)
        })
        .collect();
    taken_us.sort_unstable();
    taken_us.get(taken_us.len() / 2).copied()
}

fn read_us(path: &Path, offset: u64) -> Option<u64> {
    let flags = (OFlags::DIRECT | OFlags::NONBLOCK | OFlags::NOCTTY).bits() as i32;
    let file: File = OpenOptions::new().read(true).custom_flags(flags).open(path).ok()?;
    let mut memory = vec![0; 2 * ALIGN];
    let from = memory.as_ptr().align_offset(ALIGN);
    let clock = Instant::now();
    file.read_exact_at(&mut memory[from..from + ALIGN], offset).ok()?;
    u64::try_from(clock.elapsed().as_micros()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_that_cannot_be_read_say_nothing() {
        assert_eq!(median_us(std::iter::empty()), None);
        assert_eq!(median_us([(Path::new("/nonexistent/warmset"), 1 << 20)].into_iter()), None);
        assert_eq!(median_us([(Path::new("/dev/null"), 1 << 20)].into_iter()), None);
    }
}
