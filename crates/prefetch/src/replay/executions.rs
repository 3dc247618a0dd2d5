//! How often one instruction is executed, counted with breakpoint registers as any user can.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::code::CodeWatch;
use crate::elf;
use crate::profile::Trigger;

/// The program's end is looked for this often.
const WAIT_MAX: Duration = Duration::from_millis(20);

/// An instruction whose executions are counted.
#[derive(Debug)]
pub(crate) struct Executions(CodeWatch);

impl Executions {
    /// Counts from now on; `None` for what is no instruction, or is not what it was.
    pub(crate) fn of(trigger: &Trigger, process: u32) -> Option<Self> {
        let Trigger::Instruction { path, build_id, offset } = trigger else { return None };
        let current = elf::build_id(path).as_ref() == Some(build_id);
        current.then(|| CodeWatch::new(path, *offset, process).ok().map(Self)).flatten()
    }

    /// Returns soon after one of them was executed, and in any case after a while.
    pub(crate) fn wait<'a>(all: impl Iterator<Item = &'a Self> + Clone) {
        let mut polled: Vec<PollFd<'_>> = all
            .clone()
            .flat_map(|each| each.0.descriptors())
            .map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))
            .collect();
        let now = Instant::now();
        let deadline = all.filter_map(|each| each.0.deadline()).min();
        let wait =
            deadline.map_or(WAIT_MAX, |deadline| WAIT_MAX.min(deadline.saturating_duration_since(now)));
        let _ = poll(&mut polled, Timespec::try_from(wait).ok().as_ref());
    }

    /// When it was executed since the last call, on the monotonic clock. In a process without a free register nothing is
    /// counted.
    pub(crate) fn drain_ns(&mut self) -> Vec<u64> {
        self.0.hits_ns(&mut |_| {})
    }
}
