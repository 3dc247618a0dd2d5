//! Finds out which pages of the recorded windows a program really needs, as root: with its files evicted and the disks'
//! read-ahead off, what is in the page cache after a run is exactly what the run touched.
//!
//! Invariant: the read-ahead gets its old value when the run has ended, and when this process is killed: a guardian beside
//! it waits for that. Whoever changes a disk's setting holds a lock on its file until it has its old value again, so
//! that nobody takes the 0 of another recorder for the user's value.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;

use rustix::fs::{Advice, FlockOperation, fadvise, flock, major, minor};
use rustix::io::Errno;
use warmset_platform::detach::Guardian;
use warmset_platform::opens::FileId;
use warmset_platform::residency;

use crate::profile::{FileRecord, Profile, Read};

const PAGE_BYTES: u64 = 4096;
/// Reading four pages that nobody needs takes about as long as a request of its own.
const GAP_BYTES: u64 = 16 << 10;
/// Ranges do not become larger by joining: their last pages would be fetched long before they are needed.
const JOINED_BYTES_MAX: u64 = 1 << 20;

/// Files with nothing in the page cache, and disks that do not read ahead.
pub(super) struct Evicted {
    files: HashMap<FileId, File>,
    _settings: Vec<ReadAhead>,
}

/// A disk's setting, which gets its old value when this is dropped.
struct ReadAhead {
    setting: PathBuf,
    before: String,
    guardian: Option<Guardian>,
    _lock: File,
}

impl Drop for ReadAhead {
    fn drop(&mut self) {
        let restored = fs::write(&self.setting, &self.before).is_ok();
        // One that could not be restored is tried once more when this process has ended.
        if let Some(guardian) = self.guardian.take().filter(|_| restored) {
            guardian.dismiss();
        }
    }
}

/// Evicts the profile's files and stops their disks from reading ahead. Files that other programs have mapped stay.
pub(super) fn evict(profile: &Profile) -> io::Result<Evicted> {
    let devices: BTreeSet<u64> = profile.files.iter().map(|file| file.device).collect();
    let mut settings = Vec::new();
    for device in devices {
        settings.extend(without_read_ahead(device)?);
    }
    let mut files = HashMap::new();
    for record in &profile.files {
        let Ok(file) = File::open(&record.path) else { continue };
        let _ = fadvise(&file, 0, None, Advice::DontNeed);
        if residency::pages(file.as_fd(), record.size_bytes)?.iter().all(|page| !page) {
            files.insert(id(record), file);
        }
    }
    Ok(Evicted { files, _settings: settings })
}

fn without_read_ahead(device: u64) -> io::Result<Option<ReadAhead>> {
    let link = PathBuf::from(format!("/sys/dev/block/{}:{}", major(device), minor(device)));
    let names = ["queue/read_ahead_kb", "../queue/read_ahead_kb"];
    let Some(setting) = names.iter().map(|name| link.join(name)).find(|path| path.exists()) else {
        return Ok(None);
    };
    let lock = File::open(&setting)?;
    flock(&lock, FlockOperation::NonBlockingLockExclusive).map_err(|error| match error {
        Errno::WOULDBLOCK => io::Error::new(
            io::ErrorKind::ResourceBusy,
            format!("another `learn --exact` has changed {}: wait for its end", setting.display()),
        ),
        error => error.into(),
    })?;
    let before = fs::read_to_string(&setting)?;
    let (guarded, value) = (setting.clone(), before.clone());
    let guardian = Guardian::start_keeping(Some(lock.as_fd()), move || {
        let _ = fs::write(guarded, value);
    })?;
    fs::write(&setting, "0")?;
    Ok(Some(ReadAhead { setting, before, guardian: Some(guardian), _lock: lock }))
}

impl Evicted {
    /// The profile without the pages that were not touched since.
    pub(super) fn refine(&self, mut profile: Profile) -> io::Result<Profile> {
        let mut touched: HashMap<usize, Vec<bool>> = HashMap::new();
        for (index, record) in profile.files.iter().enumerate() {
            if let Some(file) = self.files.get(&id(record)) {
                touched.insert(index, residency::pages(file.as_fd(), record.size_bytes)?);
            }
        }
        let mut rest = profile.reads.into_iter();
        let mut reads = Vec::new();
        for burst in &mut profile.bursts {
            let mut own = Vec::new();
            for read in rest.by_ref().take(burst.reads) {
                match touched.get(&read.file) {
                    None => own.push(read),
                    Some(pages) => own.extend(parts(&read, pages)),
                }
            }
            let own = joined(own);
            burst.reads = own.len();
            reads.extend(own);
        }
        profile.reads = reads;
        profile.bursts.retain(|burst| burst.reads > 0);
        Ok(profile)
    }
}

fn id(record: &FileRecord) -> FileId {
    FileId { device: record.device, inode: record.inode }
}

/// The touched parts of a range; small gaps between them are closed.
fn parts(read: &Read, pages: &[bool]) -> Vec<Read> {
    let mut found: Vec<Read> = Vec::new();
    for page in read.start / PAGE_BYTES..read.end.div_ceil(PAGE_BYTES) {
        if !pages.get(page as usize).copied().unwrap_or(false) {
            continue;
        }
        let (start, end) = ((page * PAGE_BYTES).max(read.start), ((page + 1) * PAGE_BYTES).min(read.end));
        match found.last_mut() {
            Some(last) if start - last.end <= GAP_BYTES => last.end = end,
            _ => {
                let disk_offset =
                    if read.disk_offset == 0 { 0 } else { read.disk_offset + (start - read.start) };
                found.push(Read { start, end, disk_offset, ..*read });
            }
        }
    }
    found
}

/// The ranges, those of a file that are close to each other as one, in the place of the one that is touched first: a
/// program that touches single pages here and there would cost a request for each.
fn joined(reads: Vec<Read>) -> Vec<Read> {
    let mut found: Vec<Read> = Vec::with_capacity(reads.len());
    // By file and first byte: the index in `found`.
    let mut known: BTreeMap<(usize, u64), usize> = BTreeMap::new();
    for read in reads {
        let of_file = (read.file, 0)..=(read.file, read.start);
        if let Some((_, &index)) = known.range(of_file).next_back() {
            let before = &mut found[index];
            if read.end <= before.end {
                continue;
            }
            let length = read.end - before.start;
            if read.start <= before.end + GAP_BYTES && length <= JOINED_BYTES_MAX {
                before.end = read.end;
                continue;
            }
        }
        let after = known.range((read.file, read.start)..(read.file, u64::MAX)).next();
        if let Some((&key, &index)) = after {
            let next = &mut found[index];
            if next.start <= read.end + GAP_BYTES && next.end - read.start <= JOINED_BYTES_MAX {
                (next.start, next.disk_offset) = (read.start, read.disk_offset);
                known.remove(&key);
                known.insert((read.file, read.start), index);
                continue;
            }
        }
        known.insert((read.file, read.start), found.len());
        found.push(read);
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn ranges_close_to_each_other_are_one_where_the_first_is_touched() {
        let page = |file, at: u64| Read {
            file,
            start: at * 4096,
            end: (at + 1) * 4096,
            at_ms: at,
            disk_offset: at * 4096,
        };
        let reads = vec![page(0, 100), page(1, 104), page(0, 105), page(0, 900), page(0, 97), page(0, 103)];
        let found: Vec<_> =
            joined(reads).iter().map(|read| (read.file, read.start / 4096, read.end / 4096)).collect();
        assert_eq!(found, [(0, 97, 106), (1, 104, 105), (0, 900, 901)]);
    }

    proptest! {
        #[test]
        fn joining_loses_nothing_and_covers_nothing_twice(order in Just((0u64..600).collect::<Vec<_>>()).prop_shuffle(),
                                                          kept in 0usize..300) {
            let reads: Vec<Read> = order[..kept].iter().map(|&page| {
                Read { file: 0, start: page * 4096, end: (page + 1) * 4096, at_ms: 0, disk_offset: 0 }
            }).collect();
            let mut covered = vec![0; 600];
            for read in joined(reads) {
                (read.start / 4096..read.end / 4096).for_each(|page| covered[page as usize] += 1);
            }
            prop_assert!(covered.iter().all(|&times| times <= 1));
            prop_assert!(order[..kept].iter().all(|&page| covered[page as usize] == 1));
        }
    }

    #[test]
    fn a_range_is_cut_to_what_was_touched() {
        let read = Read { file: 3, start: 4096, end: 16 * 4096, at_ms: 5, disk_offset: 0 };
        let mut pages = vec![false; 16];
        for page in [0, 1, 2, 5, 11] {
            pages[page] = true;
        }
        let found: Vec<_> =
            parts(&read, &pages).iter().map(|part| (part.start / 4096, part.end / 4096)).collect();
        assert_eq!(found, [(1, 6), (11, 12)]);
    }
}
