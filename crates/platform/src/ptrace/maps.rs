//! Which pages of mapped files a process has touched: `/proc/PID/maps` and `/proc/PID/pagemap`.

use std::fs::{self, File};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::PathBuf;

use crate::opens::FileId;
use crate::sysinfo::maps::{Mapping, line};

const PAGE_BYTES: u64 = 4096;
/// Bits of a page in pagemap: in memory, or swapped out.
const PRESENT: u64 = 3 << 62;
const ENTRIES: usize = 512;

/// Pages of a file that a process has mapped and touched.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Mapped {
    /// The file.
    pub file: FileId,
    /// Its path.
    pub path: PathBuf,
    /// First bytes and bytes after the last ones.
    pub ranges: Vec<(u64, u64)>,
}

/// The mapping of a file that is still there: its addresses, its offset in the file, the file and its path.
fn parse(text: &str) -> Option<(Mapping, u64, FileId, PathBuf)> {
    let line = line(text)?;
    let file = FileId { device: line.device, inode: line.inode };
    Some((line.mapping, line.offset, file, line.path()?.to_owned()))
}

/// What the process has touched of the files that it has mapped now. Windows that the kernel mapped around a touched
/// page look touched, too.
///
/// # Errors
/// The kernel's.
pub fn touched(process: u32) -> io::Result<Vec<Mapped>> {
    let maps = fs::read_to_string(format!("/proc/{process}/maps"))?;
    let pagemap = File::open(format!("/proc/{process}/pagemap"))?;
    let mut found = Vec::new();
    for (Mapping { start, end }, offset, file, path) in maps.lines().filter_map(parse) {
        let mut ranges: Vec<(u64, u64)> = Vec::new();
        let mut buffer = [0u8; ENTRIES * 8];
        let mut page = start / PAGE_BYTES;
        while page < end / PAGE_BYTES {
            let count = ENTRIES.min((end / PAGE_BYTES - page) as usize);
            if pagemap.read_exact_at(&mut buffer[..count * 8], page * 8).is_err() {
                break;
            }
            for (index, entry) in buffer[..count * 8].chunks_exact(8).enumerate() {
                if u64::from_ne_bytes(entry.try_into().expect("eight bytes")) & PRESENT == 0 {
                    continue;
                }
                let at = (page + index as u64) * PAGE_BYTES - start + offset;
                match ranges.last_mut() {
                    Some(last) if last.1 == at => last.1 = at + PAGE_BYTES,
                    _ => ranges.push((at, at + PAGE_BYTES)),
                }
            }
            page += count as u64;
        }
        if !ranges.is_empty() {
            found.push(Mapped { file, path, ranges });
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_mapping_of_a_file_that_is_there() {
        let line = "7fa0-7fb0 r-xp 00001000 fe:00 77                         /usr/lib/a b.so";
        let file = FileId { device: rustix::fs::makedev(0xfe, 0), inode: 77 };
        assert_eq!(
            parse(line),
            Some((Mapping { start: 0x7fa0, end: 0x7fb0 }, 0x1000, file, PathBuf::from("/usr/lib/a b.so")))
        );
        assert_eq!(parse("7fa0-7fb0 rw-p 00000000 00:00 0 [heap]"), None);
        assert_eq!(parse("7fa0-7fb0 rw-p 00000000 fe:00 7 /x (deleted)"), None);
        assert_eq!(parse("nonsense"), None);
    }

    #[test]
    fn this_program_has_touched_itself() {
        let own = std::env::current_exe().unwrap();
        let found = touched(std::process::id()).unwrap();
        assert!(found.iter().any(|mapped| mapped.path == own));
    }
}
