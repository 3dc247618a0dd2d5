//! Follows one run of a program and fetches each burst when its trigger fires.
//!
//! Invariant: when all triggers have fired, or the program has ended, nothing is attached to it and nothing watched.

mod armed;
mod code;
mod executions;
mod progress;

pub(crate) use executions::Executions;

use std::time::Instant;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::armed::Armed;
use self::progress::Progress;
use crate::fetch::{Fetcher, has_moving_heads, pieces};
use crate::limits::Limits;
use crate::profile::{Burst, FileRecord, Profile, Read, Trigger, total_bytes};

/// Which kind of trigger all late bursts shall have.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The one that was chosen for each when its trigger was validated.
    #[default]
    Chosen,
    /// All at launch.
    Launch,
    /// An opened file, where the burst has such a candidate.
    File,
    /// An instruction, where the burst has such a candidate.
    Instruction,
}

/// Which trigger a burst has under this choice.
pub(crate) fn trigger_of(burst: &Burst, choice: Choice) -> &Trigger {
    let mut all = std::iter::once(&burst.trigger).chain(&burst.candidates);
    let found = match choice {
        Choice::Chosen => None,
        Choice::Launch => Some(&Trigger::Launch),
        Choice::File => all.find(|trigger| matches!(trigger, Trigger::File { .. })),
        Choice::Instruction => all.find(|trigger| matches!(trigger, Trigger::Instruction { .. })),
    };
    found.unwrap_or(&burst.trigger)
}

/// For how long to wait until then.
fn until(deadline: Option<Instant>) -> Option<Timespec> {
    let left = deadline?.saturating_duration_since(Instant::now());
    Timespec::try_from(left).ok()
}

/// Whether fetching takes longer than the program takes from the trigger to the burst.
fn fires_too_late(files: &[FileRecord], burst: &Burst, reads: &[Read]) -> bool {
    let fetch_ms = if has_moving_heads(files, reads) {
        pieces(files, reads, COUNTED_BYTES_MAX).len() as u64 * SEEK_MS
    } else {
        total_bytes(reads) / BYTES_PER_MS
    };
    burst.lead_ms.is_some_and(|lead_ms| lead_ms < i64::try_from(fetch_ms).unwrap_or(i64::MAX))
}

/// How many of the first reads have at most so many bytes.
fn within(reads: &[Read], bytes_max: u64) -> usize {
    let mut sum = 0u64;
    reads
        .iter()
        .take_while(|read| {
            sum = sum.saturating_add(read.bytes());
            sum <= bytes_max
        })
        .count()
}

/// The first bytes are fetched without a look at how much memory there is, which takes a millisecond.
const HEAD_BYTES: u64 = 8 << 20;
/// Part of what may still be fetched that a burst may take before its trigger fires.
const EARLY_SHARE: u64 = 4;
/// What a disk without moving heads gives at least in many small requests.
const BYTES_PER_MS: u64 = 400 << 10;
/// What one request takes on a disk with moving heads.
const SEEK_MS: u64 = 8;
/// Requests are counted up to so many bytes: a profile may claim any size.
const COUNTED_BYTES_MAX: u64 = 16 << 30;

/// So few requests take less time than starting a process for them.
const PIECES_AT_ONCE_MAX: usize = 64;

/// Asks for all of a small set from this process. Does nothing and returns `false` if the set is larger, has late bursts,
/// or is on a disk with moving heads.
#[must_use]
pub fn replay_at_once(profile: &Profile) -> bool {
    let late = profile.bursts.iter().any(|burst| burst.trigger != Trigger::Launch);
    let (files, reads) = (&profile.files, &profile.reads);
    if late
        || profile.bytes() > HEAD_BYTES
        || has_moving_heads(files, reads)
        || pieces(files, reads, HEAD_BYTES).len() > PIECES_AT_ONCE_MAX
    {
        return false;
    }
    let _ = Fetcher::new(profile, Limits::of_bytes(HEAD_BYTES)).fetch_alone(reads);
    true
}

/// Fetches what `process` reads, which runs the profile's program or is about to. Returns when no trigger is left or the
/// process has ended. What it watches, and when that happens, is told to `report`.
pub fn replay(profile: &Profile, process: u32, choice: Choice, report: &mut dyn FnMut(&str)) {
    let fetcher = Fetcher::new(profile, Limits::of_bytes(HEAD_BYTES));
    let ended = Pid::from_raw(process as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut armed: Vec<(Armed, &[Read], bool)> = Vec::new();
    let mut now: Vec<&[Read]> = Vec::new();
    for (burst, reads) in profile.divided() {
        match Armed::new(trigger_of(burst, choice), &profile.files, process, report) {
            // A trigger that cannot be watched must not cost the burst.
            None => now.push(reads),
            Some(trigger) => {
                let is_late = choice == Choice::Chosen && fires_too_late(&profile.files, burst, reads);
                armed.push((trigger, reads, is_late));
            }
        }
    }
    let now = now.concat();
    let (head, tail) = now.split_at(within(&now, HEAD_BYTES));
    let fetched = fetcher.fetch(head);
    // Nothing is shown of what is done already.
    let has_more = !tail.is_empty() || !armed.is_empty();
    let progress = has_more.then(|| Progress::publish(profile, process, armed.len()));
    let fetch = |reads: &[Read]| {
        let fetched = fetcher.fetch(reads);
        progress.iter().for_each(|progress| progress.add(&fetched));
    };
    progress.iter().for_each(|progress| progress.add(&fetched));
    fetcher.measure_limits(head);
    fetch(tail);
    // What a trigger would announce too late is fetched now that the start no longer needs the disk, if it is little.
    armed.retain(|(_, reads, is_late)| {
        let early = *is_late && fetcher.has_room_for(reads, EARLY_SHARE);
        if early {
            report(&format!(
                "{} KiB are fetched before their trigger, which fires late",
                total_bytes(reads) >> 10
            ));
            fetch(reads);
        }
        !early
    });
    progress.iter().for_each(|progress| progress.wait_for(armed.len()));
    let Some(ended) = ended else { return };
    for (trigger, ..) in &mut armed {
        trigger.discount(|path| fetcher.opens(path));
    }
    while !armed.is_empty() {
        let mut polled = vec![PollFd::new(&ended, PollFlags::IN)];
        for (trigger, ..) in &armed {
            let descriptors = trigger.descriptors().into_iter();
            polled.extend(descriptors.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        match poll(
            &mut polled,
            until(armed.iter().filter_map(|(trigger, ..)| trigger.deadline()).min()).as_ref(),
        ) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !polled[0].revents().is_empty() {
            return;
        }
        drop(polled);
        let mut fired = Vec::new();
        armed.retain_mut(|(trigger, reads, _)| {
            let fires = trigger.fires(report);
            if fires {
                report(&format!("a trigger has fired: {} KiB are fetched", total_bytes(reads) >> 10));
                fired.push(*reads);
            }
            !fires
        });
        progress.iter().for_each(|progress| progress.fire(fired.len()));
        for reads in fired {
            fetch(reads);
            for (trigger, ..) in &mut armed {
                trigger.discount(|path| fetcher.opens(path));
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_range_of_any_size_is_judged_in_bounded_memory() {
        let size_bytes = 1 << 62;
        let file = FileRecord {
            path: "/nowhere".into(),
            device: 0,
            inode: 0,
            size_bytes,
            mtime_ns: 0,
            rotational: true,
        };
        let read = Read { file: 0, start: 0, end: size_bytes, at_ms: 0, disk_offset: 0 };
        let burst = Burst {
            reads: 1,
            start_ms: 1000,
            end_ms: 1000,
            quiet_ms: 1000,
            trigger: Trigger::Launch,
            candidates: Vec::new(),
            lead_ms: Some(1000),
        };
        assert!(fires_too_late(&[file], &burst, &[read]));
    }
}
