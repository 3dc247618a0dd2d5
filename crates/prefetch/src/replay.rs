//! Follows one run of a program and fetches each burst when its trigger fires.
//!
//! Invariant: when all triggers have fired, or the program has ended, nothing is attached to it and nothing watched.

mod armed;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Pid, PidfdFlags, pidfd_open};

use self::armed::Armed;
use crate::fetch::{Fetcher, has_moving_heads, pieces};
use crate::limits::Limits;
use crate::profile::{Burst, Profile, Read, Trigger};

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

/// So few requests take less time than starting a process for them.
const PIECES_AT_ONCE_MAX: usize = 64;

/// Asks for all of a small set from this process. Does nothing and returns `false` if the set is larger, has late bursts,
/// or is on a disk with moving heads.
#[must_use]
pub fn replay_at_once(profile: &Profile, choice: Choice) -> bool {
    let late = profile.bursts.iter().any(|burst| *trigger_of(burst, choice) != Trigger::Launch);
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
/// process has ended.
pub fn replay(profile: &Profile, process: u32, choice: Choice) {
    let fetcher = Fetcher::new(profile, Limits::of_bytes(HEAD_BYTES));
    let ended = Pid::from_raw(process as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let mut armed: Vec<(Armed, &[Read])> = Vec::new();
    let mut now: Vec<&[Read]> = Vec::new();
    for (burst, reads) in profile.divided() {
        match Armed::new(trigger_of(burst, choice), process) {
            // A trigger that cannot be watched must not cost the burst.
            None => now.push(reads),
            Some(trigger) => armed.push((trigger, reads)),
        }
    }
    let now = now.concat();
    let (head, tail) = now.split_at(within(&now, HEAD_BYTES));
    let _ = fetcher.fetch(head);
    fetcher.measure_limits(head);
    let _ = fetcher.fetch(tail);
    let Some(ended) = ended else { return };
    for (trigger, _) in &mut armed {
        trigger.discount(|path| fetcher.opens(path));
    }
    while !armed.is_empty() {
        let mut polled = vec![PollFd::new(&ended, PollFlags::IN)];
        for (trigger, _) in &armed {
            polled.extend(trigger.descriptors().map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN)));
        }
        match poll(&mut polled, None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(_) => return,
        }
        if !polled[0].revents().is_empty() {
            return;
        }
        drop(polled);
        let mut fired = Vec::new();
        armed.retain_mut(|(trigger, reads)| {
            let fires = trigger.fires();
            if fires {
                fired.push(*reads);
            }
            !fires
        });
        for reads in fired {
            let _ = fetcher.fetch(reads);
            for (trigger, _) in &mut armed {
                trigger.discount(|path| fetcher.opens(path));
            }
        }
    }
}
