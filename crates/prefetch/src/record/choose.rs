//! Chooses each burst's trigger from what a second run did.

use std::collections::HashMap;

use warmset_platform::opens::FileId;

use super::Recording;
use crate::analysis::QUIET_MS;
use crate::profile::{Burst, Profile, Read, Trigger};

/// After a shorter quiet stretch a burst belongs to the start: fetching it at launch is earlier, and hardly a waste.
const LAUNCH_QUIET_MS: u64 = 1000;
/// A trigger may fire this long after its burst has started.
const LATE_MS: i64 = 50;

/// Whether some burst has candidates and no choice yet.
pub(super) fn is_open(profile: &Profile) -> bool {
    profile.bursts.iter().any(|burst| !burst.candidates.is_empty() && burst.lead_ms.is_none())
}

/// The candidates that are instructions, those first that are worth one of the few breakpoint registers: the bursts after
/// the longest pauses take turns, and what every process executes comes last, since it seldom is executed just once.
pub(super) fn instructions(profile: &Profile) -> Vec<Trigger> {
    let mut bursts: Vec<&Burst> = profile.bursts.iter().collect();
    bursts.sort_by_key(|burst| std::cmp::Reverse(burst.quiet_ms));
    let mut found: Vec<(bool, usize, Trigger)> = Vec::new();
    for burst in bursts {
        let code = burst.candidates.iter().filter(|each| matches!(each, Trigger::Instruction { .. }));
        let (common, own): (Vec<_>, Vec<_>) = code.cloned().partition(is_everywhere);
        found.extend(own.into_iter().enumerate().map(|(turn, each)| (false, turn, each)));
        found.extend(common.into_iter().enumerate().map(|(turn, each)| (true, turn, each)));
    }
    found.sort_by_key(|(common, turn, _)| (*common, *turn));
    found.into_iter().map(|(_, _, each)| each).collect()
}

/// Whether each process of a program executes code of this file: the C library and the dynamic linker.
fn is_everywhere(trigger: &Trigger) -> bool {
    let name = trigger.path().and_then(|path| path.file_name()).unwrap_or_default().as_encoded_bytes();
    [&b"libc.so"[..], b"libc-", b"ld-"].iter().any(|common| name.starts_with(common))
}

/// The profile with the triggers that fired once, and early enough, in this run.
pub(super) fn choose(mut profile: Profile, second: &Recording) -> Profile {
    let ids: HashMap<FileId, usize> = profile
        .files
        .iter()
        .enumerate()
        .map(|(index, file)| (FileId { device: file.device, inode: file.inode }, index))
        .collect();
    let starts: Vec<Option<u64>> =
        profile.divided().map(|(_, reads)| start_us(reads, second, &ids)).collect();
    for (burst, start_us) in profile.bursts.iter_mut().zip(starts) {
        let valid: Vec<(i64, Trigger)> = burst
            .candidates
            .iter()
            .filter_map(|trigger| {
                let lead_ms = (start_us? as i64 - fired_us(trigger, second)? as i64) / 1000;
                (-LATE_MS..=burst.quiet_ms as i64 + LATE_MS)
                    .contains(&lead_ms)
                    .then(|| (lead_ms, trigger.clone()))
            })
            .collect();
        settle(burst, valid);
    }
    profile
}

/// Keeps the earliest trigger of each kind. Takes the file's, which costs less to watch, unless the instruction is clearly
/// earlier: within [`LATE_MS`] which of them fires first differs from run to run.
fn settle(burst: &mut Burst, mut valid: Vec<(i64, Trigger)>) {
    valid.sort_by_key(|(lead_ms, _)| -lead_ms);
    let is_file = |each: &&(i64, Trigger)| matches!(each.1, Trigger::File { .. });
    let file = valid.iter().find(is_file).cloned();
    let code = valid.iter().find(|each| !is_file(each)).cloned();
    let mut kept: Vec<_> = file.into_iter().chain(code).collect();
    if let [(file_ms, _), (code_ms, _)] = kept[..] {
        if code_ms > file_ms + LATE_MS {
            kept.swap(0, 1);
        }
    }
    if let Some((lead_ms, trigger)) = kept.first() {
        burst.lead_ms = Some(*lead_ms);
        if burst.quiet_ms >= LAUNCH_QUIET_MS {
            burst.trigger = trigger.clone();
        }
    }
    burst.candidates = kept.into_iter().map(|(_, trigger)| trigger).collect();
}

/// When the burst started in this run: the start of the run of touches in which half of its bytes are reached. The runs
/// differ, and some of a burst's bytes may be touched long before it.
fn start_us(reads: &[Read], run: &Recording, ids: &HashMap<FileId, usize>) -> Option<u64> {
    let mut by_file: HashMap<usize, Vec<(u64, u64)>> = HashMap::new();
    for read in reads {
        by_file.entry(read.file).or_default().push((read.start, read.end));
    }
    let mut first: HashMap<(usize, u64), (u64, u64)> = HashMap::new();
    for touch in &run.trace.touches {
        let Some(file) = ids.get(&touch.file) else { continue };
        for &(start, end) in by_file.get(file).map_or(&[][..], Vec::as_slice) {
            if touch.start < end && start < touch.end {
                first.entry((*file, start)).or_insert((touch.at_us, end - start));
            }
        }
    }
    let mut times: Vec<(u64, u64)> = first.into_values().collect();
    times.sort_unstable();
    let half_bytes = times.iter().map(|(_, bytes)| bytes).sum::<u64>() / 2;
    let mut sum = 0;
    let middle = times.iter().position(|(_, bytes)| {
        sum += bytes;
        sum > half_bytes
    })?;
    let is_near = |pair: &&[(u64, u64)]| pair[1].0 - pair[0].0 < QUIET_MS * 1000;
    let before = times[..=middle].windows(2).rev().take_while(is_near).count();
    Some(times[middle - before].0)
}

/// When the trigger fired in this run, if it did exactly once.
fn fired_us(trigger: &Trigger, run: &Recording) -> Option<u64> {
    match trigger {
        Trigger::Launch => None,
        Trigger::Instruction { .. } => match run.executed_us.get(trigger)?.as_slice() {
            [once] => Some(*once),
            _ => None,
        },
        Trigger::File { path, nth } => {
            let is_it = |file: &FileId| run.paths.get(file) == Some(path);
            run.trace.opens.iter().find(|open| open.nth == *nth && is_it(&open.file)).map(|open| open.at_us)
        }
    }
}
