//! Makes a profile of a recording.

use std::collections::HashMap;
use std::fs;
use std::os::fd::AsFd;
use std::path::PathBuf;

use warmset_platform::opens::FileId;
use warmset_platform::seek;
use warmset_platform::sysinfo::disk;

use super::{Learned, Recording};
use crate::analysis::{self, Candidate};
use crate::elf;
use crate::profile::{Burst, FileRecord, Profile, Read, Trigger};

/// A disk without moving heads answers sooner, even a busy one.
const SEEK_US_MIN: u64 = 2000;

pub(super) fn profile(program: PathBuf, arguments: Vec<String>, recording: Recording) -> Learned {
    let Recording { recorder, mut trace, paths, status, seconds, lost, .. } = recording;
    if let Some(own) = own_file() {
        trace.touches.retain(|touch| touch.file != own);
    }
    let known = records(&trace, &paths);
    let unknown_files = known.values().filter(|record| record.is_none()).count();
    let size_of = |file| known.get(&file)?.as_ref().map(|record| record.size_bytes);
    let ranges = analysis::ranges(&trace, size_of);
    let spans = analysis::spans(&ranges);
    let mut files = Vec::new();
    let mut indices: HashMap<FileId, usize> = HashMap::new();
    let mut reads = Vec::new();
    for range in &ranges {
        let Some(Some(record)) = known.get(&range.file) else { continue };
        let file = *indices.entry(range.file).or_insert_with(|| {
            files.push(record.clone());
            files.len() - 1
        });
        let (start, end, at_ms) = (range.start, range.end, range.at_ms);
        reads.push(Read { file, start, end, at_ms, disk_offset: 0 });
    }
    locate(&mut files, &mut reads, false);
    let mut bursts = Vec::new();
    for (index, span) in spans.iter().enumerate() {
        let candidates = if index == 0 { Vec::new() } else { analysis::candidates(&trace, span) };
        let candidates = candidates.into_iter().filter_map(|candidate| trigger(candidate, &known)).collect();
        let (start_ms, end_ms, quiet_ms) = (span.start_ms, span.end_ms, span.quiet_ms);
        let trigger = Trigger::Launch;
        bursts.push(Burst {
            reads: span.ranges,
            start_ms,
            end_ms,
            quiet_ms,
            trigger,
            candidates,
            lead_ms: None,
        });
    }
    let (is_pattern, exact, disk_order) = (false, false, false);
    let profile = Profile {
        program,
        arguments,
        is_pattern,
        recorder,
        exact,
        disk_order,
        seconds,
        files,
        reads,
        bursts,
    };
    Learned { profile, validated: false, status, lost, unknown_files, no_tracepoints: None }
}

/// The recorder's own program.
fn own_file() -> Option<FileId> {
    use std::os::unix::fs::MetadataExt;
    let own = fs::metadata("/proc/self/exe").ok()?;
    Some(FileId { device: own.dev(), inode: own.ino() })
}

/// The touched files as they are now; `None` for one whose path is not known or no longer leads to it.
fn records(
    trace: &crate::trace::Trace,
    paths: &HashMap<FileId, PathBuf>,
) -> HashMap<FileId, Option<FileRecord>> {
    let mut known = HashMap::new();
    for touch in &trace.touches {
        known.entry(touch.file).or_insert_with(|| {
            let path = paths.get(&touch.file).filter(|path| path.to_str().is_some())?;
            let record = FileRecord::of(path, &fs::metadata(path).ok().filter(fs::Metadata::is_file)?);
            (record.inode == touch.file.inode).then_some(record)
        });
    }
    known
}

/// Fills in where the ranges are, for disks whose heads move, or for all. Virtual disks often say that they have heads: a
/// disk that says so is believed if its reads take as long.
pub(super) fn locate(files: &mut [FileRecord], reads: &mut [Read], always: bool) {
    let mut rotational: HashMap<u64, bool> = HashMap::new();
    for record in files.iter() {
        rotational.entry(record.device).or_insert_with(|| {
            let own = files.iter().filter(|file| file.device == record.device);
            let is_slow = |median_us| median_us >= SEEK_US_MIN;
            always
                || disk::is_rotational(record.device)
                    && seek::median_us(own.map(|file| (file.path.as_path(), file.size_bytes)))
                        .is_none_or(is_slow)
        });
    }
    for record in files.iter_mut() {
        record.rotational = rotational[&record.device];
    }
    for read in reads {
        let record = &files[read.file];
        if !record.rotational {
            continue;
        }
        if let Ok(file) = fs::File::open(&record.path) {
            read.disk_offset = warmset_platform::extents::disk_offset(file.as_fd(), read.start).unwrap_or(0);
        }
    }
}

fn trigger(candidate: Candidate, known: &HashMap<FileId, Option<FileRecord>>) -> Option<Trigger> {
    let path = |file: FileId| Some(known.get(&file)?.as_ref()?.path.clone());
    match candidate {
        Candidate::Open(file, nth) => Some(Trigger::File { path: path(file)?, nth }),
        Candidate::Instruction(file, offset) => {
            let path = path(file)?;
            let build_id = elf::build_id(&path)?;
            Some(Trigger::Instruction { path, build_id, offset })
        }
    }
}
