//! One trigger that is being watched.

use std::mem::MaybeUninit;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::inotify;
use warmset_platform::perf::Breakpoint;

use crate::elf;
use crate::profile::Trigger;

/// Watches for one event.
#[derive(Debug)]
pub(super) enum Armed {
    File { queue: OwnedFd, path: PathBuf, opened: u32, own: u32, nth: u32 },
    Instruction { breakpoint: Breakpoint },
}

impl Armed {
    /// Watches for the trigger's event; `None` for a launch, and where it cannot be watched.
    pub(super) fn new(trigger: &Trigger, process: u32) -> Option<Self> {
        match trigger {
            Trigger::Launch => None,
            Trigger::File { path, nth } => {
                let flags = inotify::CreateFlags::CLOEXEC | inotify::CreateFlags::NONBLOCK;
                let queue = inotify::init(flags).ok()?;
                inotify::add_watch(&queue, path, inotify::WatchFlags::OPEN).ok()?;
                Some(Self::File { queue, path: path.clone(), opened: 0, own: 0, nth: *nth })
            }
            Trigger::Instruction { path, build_id, offset } => {
                if elf::build_id(path).as_ref() != Some(build_id) {
                    return None;
                }
                let breakpoint = Breakpoint::in_file(path, *offset, process).ok()?;
                Some(Self::Instruction { breakpoint })
            }
        }
    }

    /// What becomes readable when something happened.
    pub(super) fn descriptors(&self) -> impl Iterator<Item = BorrowedFd<'_>> {
        let (file, code) = match self {
            Self::File { queue, .. } => (Some(queue.as_fd()), None),
            Self::Instruction { breakpoint, .. } => (None, Some(breakpoint.descriptors())),
        };
        file.into_iter().chain(code.into_iter().flatten())
    }

    /// Tells how often this process has opened a file itself, which does not count.
    pub(super) fn discount(&mut self, opens: impl Fn(&Path) -> u32) {
        if let Self::File { path, own, .. } = self {
            *own = opens(path);
        }
    }

    /// Whether the event has happened.
    pub(super) fn fires(&mut self) -> bool {
        match self {
            Self::Instruction { breakpoint } => breakpoint.was_hit(),
            Self::File { queue, opened, own, nth, .. } => {
                *opened += count(queue);
                *opened >= *nth + *own
            }
        }
    }
}

/// How many events wait in the queue.
fn count(queue: &OwnedFd) -> u32 {
    let mut buffer = [MaybeUninit::uninit(); 4096];
    let mut reader = inotify::Reader::new(queue, &mut buffer);
    let mut found = 0;
    while let Ok(event) = reader.next() {
        found += u32::from(event.events().contains(inotify::ReadFlags::OPEN));
    }
    found
}
